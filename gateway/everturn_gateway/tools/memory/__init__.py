"""Tools for notes that outlast a conversation.

- `editing`: what people read and change of the notes about them: in chats, the terminal and over
  HTTP
- `idle_conversations`: asks agents for notes about a conversation once it is idle
- `notes`: the notes of one agent, and those that all agents share, as files
- `noting`: `note_person`: what was said about a person or their work, kept for later conversations
- `people`: what an agent knows of whom it talks with: a file for each
- `plugin`: the plug-in `memory`
- `prompting`: what the prompt of a conversation says from the notes of its agent
- `tools`: the memory tools: what the model is told of them, and what they do
"""
