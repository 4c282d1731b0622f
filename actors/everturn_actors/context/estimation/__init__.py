"""How large a request is, and how much of the window is left for it. Pure.

- `budget`: what a request may cost: the one value that trigger, renderer and reports read
- `calibration`: what is learnt about a model from what its provider reports
- `classes`: how many characters of each class a text has, by which a model's tokens are predicted
- `estimates`: how many tokens the default policy takes a text, a message or a set of tools to cost
- `forecast`: what a prompt will cost, before the provider says it
- `hints`: what single refusals teach of a model, for how long it is believed, and what disproves it
- `pictures`: which images of a conversation a request shows; the others are told in words
- `prices`: what a model takes for a character of each class, as its provider's reports taught
- `tokens`: how many tokens a text, a message or a set of tools is taken to cost
- `window`: the message-count window: how many messages a session holds in memory and in its
  snapshot
- `windows`: the context window of a model, known by its name
"""
