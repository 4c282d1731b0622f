"""What sessions say, on its way to people: nothing is lost, nothing is repeated unsaid.

- `approvals`: what binds a button below a question to one call of one session
- `chunk_sender`: brings one chunk to a platform: as a message, a file, or in the place of its
  preview
- `deliverer`: delivers what sessions say to the people of one channel, whatever its platform
- `intents`: what there is to show of a running turn: the text of its reply so far, or which tools
  run
- `preview`: shows a reply while it comes, and which tools run: as a draft, or as a message that is
  edited
- `question_closer`: shows below a question how it ended, and takes its buttons away
- `questions`: the questions of a session, and what became of them
- `rate_limiter`: when a bot may call its platform: how many calls at a time, and never while it has
  to be quiet
- `rendering`: what an outbox item looks like as messages of a platform
- `retries`: when what could not be delivered is tried again: which delivery waits, how long, what
  ends it
- `sender`: sends what a session owes: item after item, chunk after chunk, marked before and after
- `stopping`: when a delivery leaves the rest to the next start
- `tally`: what is counted of deliveries
- `typing_indicator`: the typing indicator: shown while a turn works, and never after it
- `words`: what people read besides replies: ends of turns, questions, files that cannot be sent
"""

from __future__ import annotations

from everturn_channels.delivery.deliverer import Deliverer
from everturn_channels.delivery.tally import Tally

__all__ = ["Deliverer", "Tally"]
