"""How the events of a platform come in: what every adapter needs and none builds by itself.

`open_chat_queues` gives an adapter its `ChatQueues`; it puts a `PlatformEvent` for whatever comes.

- `answers`: what is sent where a command or a click is answered at once
- `chat_queues`: the order of what comes: one queue for each chat, taken one after the other; chats
  side by side
- `deliveries`: what a platform delivers over HTTP: whose it is, and what is answered once it is
  durable
- `described`: words of ours for what people send beside text and files, the same on every platform
- `event_handler`: one event between a platform and the handler of its channel: read, handed in,
  confirmed
- `events`: what an adapter hands over: something that came from its platform, not read yet
- `exchange`: one request over HTTP and its answer: made once, with a deadline and a bound
- `files`: the bytes of files that come with messages, never more than is wanted
- `history`: the bounds of a backlog: how much of what was written during an absence is taken
- `json_fields`: fields of what a platform and strangers sent: of the wanted type, or empty
- `numbered_questions`: what numbers stand for where a platform has no buttons: a question is
  answered by a reply to it
- `redelivery`: what was sent back to a platform and comes again: what follows it in its chat waits
- `reordering`: the order of a chat whose platform delivers in none: by when it was written
- `watermark`: how far a platform may be told that everything is taken, where it has one cursor for
  all chats
"""
