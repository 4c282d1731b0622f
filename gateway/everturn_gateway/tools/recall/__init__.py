"""`recall_context`: what is hidden from the model can be read back by it.

- `answers`: what the model gets for each thing that it can ask for
- `log`: the log of one session as messages, read in chunks, from either end
- `messages`: what was said, from the events of a log, and how it is quoted
- `older`: older messages of a conversation that fit a question, quoted without being asked for
- `overview`: what there is to read back
- `pages`: long texts in pages
- `plugin`: the plug-in `recall_context`
- `queries`: what the model asks for, read from the arguments of its call
- `scopes`: in which sessions a conversation may search: here, with this person, or more
- `searching`: a search through what was said, the best match first: here, or wherever it may be
  looked for
- `selection`: which agents are offered `recall_context`
- `tool`: the tool itself: what the model is told of it, and what becomes of a call
- `words`: what is shown of a long text around a place in it
"""

from __future__ import annotations

from everturn_gateway.tools.recall.pages import PAGE_CHARACTERS
from everturn_gateway.tools.recall.tool import RecallContext

__all__ = ["PAGE_CHARACTERS", "RecallContext"]
