"""What is known of a platform's chats: their ids, kinds, cursors, and which of them are blocked.

- `aliases`: chats that were given another id by their platform
- `chat_languages`: in which language a channel speaks to a chat
- `chat_types`: what kind of chat a conversation is in, as far as it was seen since the start
- `cursors`: how far a channel has read
- `lanes`: chats in which something cannot be taken now: since when, how often it was tried, and why
- `moved_chats`: chats that moved, at the edge between a channel and its platform
"""
