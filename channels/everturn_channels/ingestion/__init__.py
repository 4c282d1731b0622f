"""How the events of a platform come in: what every adapter needs and none builds by itself.

`open_chat_queues` gives an adapter its `ChatQueues`; it puts a `PlatformEvent` for whatever comes.
"""
