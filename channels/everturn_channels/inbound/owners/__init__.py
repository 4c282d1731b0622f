"""What owners do from a private chat, and the questions that are brought to them.

- `agent_command`: `/agent` in a chat: lets an owner choose which agent answers there
- `commands`: what owners do from a private chat: answer questions, pair people, end sessions, see
  usage
- `delivery_notices`: tells owners in private that what an agent said does not get there
- `model_command`: `/model` in a chat: shows which model answers, and lets the agent's owners choose
  another one
- `open_questions`: calls of any conversation that wait for a person, as an owner is shown them
- `question_notices`: brings questions that nobody answers to the private chats of owners who want
  that
- `texts`: the short texts that owners get in private
"""
