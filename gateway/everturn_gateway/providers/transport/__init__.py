"""What the providers share: connections, streams, and the pieces of requests and replies.

- `asked`: what a turn's caller asks of a reply, in the words of the APIs
- `attached`: files of messages and results: which a model is shown, and words for the others
- `encoding`: JSON as the APIs of models want it and give it
- `endpoints`: where each provider's API is, what it speaks, and which key it takes
- `http_clients`: the HTTP connections to model APIs: for each address one client and its pool of
  connections
- `http_port`: what is asked of an HTTP client, whichever library it is
- `http_session`: the connections to one address, by aiohttp, which takes 100 ms to load: at the
  first call
- `images`: the images of one reply while they arrive, as text that holds them
- `model_errors`: what a provider's refusal means for the turn: which error, and how long to wait
- `opaque`: what a provider wants back with a reply, as the journal keeps it: only for who gave it
- `parts`: the parts of one reply while they arrive
- `reading`: one model reply out of the chunks of a chat-completions stream
- `sight`: whether a model takes images, as it is found out: by sending some
- `sse`: server-sent events out of bytes, however the network cut them
- `streaming`: one streamed call to a model API over HTTP, whichever format it speaks
- `windows`: how large a model's window is, as the server says that serves it
- `wire`: a request as the bytes of a chat-completions body
"""
