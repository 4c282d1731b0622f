"""What the model is shown: the conversation, what is hidden from it, and the request. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from everturn_actors.codec import Timestamp, Value
from everturn_actors.model.messages import AnyMessage
from everturn_actors.model.options import DEFAULT_OPTIONS, CallOptions, Effort, ToolDefinition
from everturn_actors.model.turns import OpenTurn, Turn
from everturn_actors.model.words import Disposition, SummarySource, Usage


class Replaced(Value, frozen=True, kw_only=True):
    """What stands for one message from now on."""

    seq: int
    "Of the message."
    disposition: Disposition
    text: str
    arguments: tuple[str, ...] = ()
    "New arguments for the calls of a reply, in their order; empty = as they are."


class Summary(Value, frozen=True, kw_only=True):
    """What stands for the oldest messages of a session."""

    last_turn: int
    "The newest turn it tells of; it begins with the session."
    messages: int
    "How many messages it stands for, those of earlier summaries included."
    text: str
    source: SummarySource = "model"
    "Who wrote it."
    path: str = ""
    "Under the session's results, the file with what it stands for, where the log is discarded."
    outside: tuple[str, ...] = ()
    "The text from outside that stood in what it tells of, by source."
    opaque: str = ""
    "What its provider wants back in its place, where that made it; see `Notice.opaque`."


class Reductions(Value, frozen=True, kw_only=True):
    """What is hidden from the model for good, and what stands in its place."""

    cut_turn: int = 0
    "Finished turns with a lower number are not shown."
    replaced: Mapping[int, Replaced] = {}
    "By the seq of the message."
    dropped: frozenset[int] = frozenset()
    "Seqs of messages that are not shown though their turn is; always whole steps."
    summary: Summary | None = None
    note: str = ""
    "What the summary does not tell and has to: what left in an emergency since it was made."
    failures: int = 0
    "Summaries in a row that no model could write."
    retry_at: Timestamp | None = None
    "No model is asked for a summary before this instant, UTC."


class ShownNotes(Value, frozen=True, kw_only=True):
    """What the prompt says of the person and the work, from notes."""

    text: str = ""
    "As the model reads it; empty = nothing."
    outside: tuple[str, ...] = ()
    "The text from outside that was shown when a part of them was written, by source."


class ChosenModel(Value, frozen=True, kw_only=True):
    """A model that answers in one session, in the place of its agent's own."""

    provider: str
    name: str

    @property
    def label(self) -> str:
        """How it is called in lists: `provider/name`."""
        return f"{self.provider}/{self.name}"


SAID_BY_MODEL: Final = "you"
"`Pin.who` of what the model said itself: it is what the model is told."


class Pin(Value, frozen=True, kw_only=True):
    """A message that stays with the model, whatever is hidden."""

    seq: int
    "Of its event."
    text: str
    who: str = ""
    "Who said it, for the model."
    outside: tuple[str, ...] = ()
    "The text from outside that stands in it, by source."

    def who_for_people(self, agent: str) -> str:
        """Return who said it, for people: the agent by its name."""
        return agent if self.who == SAID_BY_MODEL else self.who


class PromptFingerprint(Value, frozen=True, kw_only=True):
    """What is remembered of a request, to compare the next one with it."""

    prefix: str = ""
    "A hash of its bytes; empty = nothing to compare with."
    messages: int = 0
    units: int = 0
    "Its estimated tokens before scaling, in hundredths."
    tokens: int = 0
    "What it was priced at by the classes of its characters, whatever was reported; 0 = not known."
    is_cache_miss: bool = False
    "Whether it did not begin with the request before it, though nothing had been reduced."


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What `context` renders: finished turns, the running one, and what is no longer held."""

    turns: tuple[Turn, ...] = ()
    "Oldest first."
    current: OpenTurn | None = None
    left_messages: int = 0
    "Messages of this session that the message-count window let go."
    instructions: str = ""
    "Instructions the caller gave for this session alone."
    notes: ShownNotes = ShownNotes()
    "What the prompt says of the person and the work."
    pins: tuple[Pin, ...] = ()
    "Messages that are shown whatever is hidden, oldest first."
    reductions: Reductions = msgspec.field(default_factory=Reductions)
    fingerprint: PromptFingerprint = msgspec.field(default_factory=PromptFingerprint)
    "The last request; empty since the last reduction, and before the first request."
    reported: Usage = Usage()
    "What the provider reported for it."
    window_messages: int = 0
    "How many messages the session holds; 0 = not known."
    counted_messages: int | None = None
    "Messages of the turns here, those of an open step left out; None = not counted yet."

    @property
    def held_messages(self) -> int:
        """How many messages the turns here have, those of an open step left out."""
        if self.counted_messages is not None:
            return self.counted_messages
        running = self.current.size_messages if self.current else 0
        return sum(turn.size_messages for turn in self.turns) + running


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request to a model, without any provider's wire format."""

    model: str
    system: str
    "Empty where the agent has no prompt."
    messages: tuple[AnyMessage, ...]
    tools: tuple[ToolDefinition, ...] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: Effort | None = None
    "How much it should think before it answers; None = as the provider does."
    makes_images: bool = False
    "Whether it is asked for images with its text, where its API has a way to ask."
    media: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    """The bytes of the attachments that are shown, by `Attachment.name`.

    An attachment of a message whose bytes are not here is told in words: its name and type.
    """
    options: CallOptions = DEFAULT_OPTIONS
    "What the caller of the turn asks for; `tools` and the fields above hold their share already."
    compacts: bool = False
    """Whether the provider is to put a summary of its own in the place of all of it, instead of
    answering; see `ModelSpec.compacts`."""
    purpose: str = ""
    "What it is made for where that is no turn of the agent, in a few words; usage is told by it."
    in_background: bool = False
    "Whether nobody waits for the reply; such a call lets all others go before it."
