"""Voice in a turn: what people said is heard before it, and its answer is spoken at its end.

What belongs here makes an event of each, so that neither is done twice.

- `hearing`: voice notes become text before the model is called: each by an event, so that it is
  heard once
- `speaking`: an answer is spoken before its turn ends: by an event, so that it is made once and
  then sent
"""
