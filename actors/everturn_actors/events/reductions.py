"""What is hidden from the model. Pure."""

from __future__ import annotations

from everturn_actors.events.body import EventBody
from everturn_actors.model import Replaced, SummarySource, Usage

EMERGENCY = "halve"
"The stage of a reduction that was made because a provider found a request too long."


OVERFLOW_LINE = "Context window exceeded. Compressing history and retrying..."
"""What people read when a provider found a request too long.

Source: the seed document "Context boundaries" of PicoClaw.
"""


class ContextReduced(EventBody, frozen=True, kw_only=True):
    """Something is hidden from the model from here on; the log keeps it."""

    stage: str
    "What did it."
    cut_turn: int = 0
    "Finished turns with a lower number are no longer shown; 0 = as before."
    dropped: tuple[int, ...] = ()
    "Seqs of further messages that are no longer shown."
    replaced: tuple[Replaced, ...] = ()
    "What stands for messages from now on."
    messages: int = 0
    "How many messages it concerns."
    tokens_before: int = 0
    "Estimated, of these messages alone."
    tokens_after: int = 0
    note: str = ""
    "What the summary has to tell besides, where it was done in an emergency."

    @property
    def line(self) -> str:
        """What people are told of it; empty where it is routine."""
        return OVERFLOW_LINE if self.stage == EMERGENCY else ""


class Summarised(EventBody, frozen=True, kw_only=True):
    """A summary stands for all turns up to `last_turn` from here on; the log keeps them."""

    last_turn: int
    messages: int
    "How many messages it stands for, those of earlier summaries included."
    text: str
    source: SummarySource = "model"
    tries: int = 1
    "How often a model was asked; of a digest, in vain."
    model: str = ""
    usage: Usage = Usage()
    path: str = ""
    "Under the session's results, the file with what it stands for, where the log is discarded."
    error: str = ""
    "Why no model wrote it; empty where one did, or where none was asked."
    outside: tuple[str, ...] = ()
    "The text from outside that stood in what it tells of, by source."
    opaque: str = ""
    "What the provider that made it wants back in its place, unchanged; empty = nothing."
