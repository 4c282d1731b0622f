"""What a session is at one moment. Pure."""

from __future__ import annotations

from operator import attrgetter

import msgspec

from everturn_actors.codec import Count, Timestamp
from everturn_actors.context.estimation.window import DEFAULT_WINDOW_MESSAGES
from everturn_actors.model import (
    Approval,
    ChosenModel,
    Conversation,
    ConversationKey,
    Labels,
    OpenTurn,
    OutboxItem,
    PendingAmbient,
    Pin,
    PromptFingerprint,
    Reductions,
    Remembering,
    SessionStatus,
    ShownNotes,
    Turn,
    Usage,
    UserMessage,
    remember,
)

_is_ambient = attrgetter("ambient")
_NAMES = {
    "session_id": "session",
    "key": "conversation",
    "created_at": "created",
    "updated_at": "updated",
}


class SessionState(Remembering, frozen=True, kw_only=True, rename=_NAMES):
    """Everything a session knows. Two equal states render the same bytes.

    A snapshot holds its fields in this order.
    """

    session_id: str
    key: ConversationKey
    status: SessionStatus = "active"
    ended_reason: str = ""
    principal: str = ""
    "Who began it; empty = a chat channel, or whoever runs the gateway."
    shared_with: tuple[str, ...] = ()
    "Who was given it besides, by name."
    labels: Labels = Labels()
    "How people sort it."
    branch_of: str = ""
    "The session with a part of which it began; empty = none."
    is_branching: bool = False
    "Whether a part of that may be missing here: a crash cut its beginning short."
    created_at: Timestamp
    updated_at: Timestamp
    last_seq: Count
    model: ChosenModel | None = None
    "Which answers in place of the agent's own; None = that one."
    checkpoint_seq: Count = 0
    "The event at which pending last became checkpointed."
    window_messages: Count = DEFAULT_WINDOW_MESSAGES
    turns: Count = 0
    "Turns started since the session began."
    logged_messages: Count = 0
    "Messages of all turns since the session began, held or not."
    usage: Usage = Usage()
    "Tokens of all model calls of the session, those for summaries included."
    instructions: str = ""
    notes: ShownNotes = ShownNotes()
    "What the prompt says of the person and the work, from notes."
    pins: tuple[Pin, ...] = ()
    "Messages that stay with the model whatever is hidden, oldest first."
    fingerprint: PromptFingerprint = PromptFingerprint()
    "The last request; empty since the last reduction."
    reported: Usage = Usage()
    "What the provider reported for it."
    replied_at: Timestamp | None = None
    "When the model replied last, UTC: a provider's cache of the prompt lives from there on."
    cache_misses: Count = 0
    "Requests that did not begin with the one before, though nothing had been reduced."
    seen: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    "Idempotency key -> the event of what came with it, oldest first. Never changed in place."
    waiting: tuple[UserMessage, ...] = ()
    "Received, not yet in a turn, oldest first."
    open_turn: OpenTurn | None = None
    checkpointed: tuple[Turn, ...] = ()
    "Finished turns that stand in the snapshot, oldest first."
    checkpointed_messages: int = 0
    pending: tuple[Turn, ...] = ()
    "Finished turns since the checkpoint, oldest first. Never cut."
    pending_messages: int = 0
    reductions: Reductions = Reductions()
    "What is hidden from the model for good."
    ambient: tuple[PendingAmbient, ...] = ()
    "What the next turn is told of besides, oldest first."
    outbox: tuple[OutboxItem, ...] = ()
    "What the people of the channel have not got yet, oldest first."

    @property
    def has_work(self) -> bool:
        """Whether something that was accepted is not answered yet."""
        return self.status != "ended" and (self.open_turn is not None or self.is_asked)

    @property
    def is_due(self) -> bool:
        """Whether the next start has to wake it: something goes on, or is to be delivered."""
        has_more = bool(self.outbox) or self.is_branching
        return has_more or (self.has_work and self.status != "paused")

    @property
    def is_asked(self) -> bool:
        """Whether a message waits that begins a turn."""
        return not all(map(_is_ambient, self.waiting))

    @property
    def open_approvals(self) -> tuple[Approval, ...]:
        """Approvals that nobody has answered yet, in the order in which they were asked."""
        step = self.open_turn.step if self.open_turn else None
        approvals = step.approvals.values() if step else ()
        return tuple(each for each in approvals if each.resolution is None)

    @property
    def held_turns(self) -> tuple[Turn, ...]:
        """Finished turns in memory, oldest first."""
        return self.checkpointed + self.pending

    @property
    def newest_turn(self) -> Turn | None:
        """The newest of the finished turns in memory."""
        newest = self.pending or self.checkpointed
        return newest[-1] if newest else None

    @property
    def held_messages(self) -> int:
        """How many messages are in memory: checkpointed, pending and running."""
        held = self.checkpointed_messages + self.pending_messages
        return held if self.open_turn is None else held + size_of_open(self.open_turn)

    @property
    def conversation(self) -> Conversation:
        """What the model may be shown; one value, by which who asks twice is known."""
        return remember(self, "conversation", self._conversation)

    def _conversation(self) -> Conversation:
        step = self.open_turn.step if self.open_turn else None
        running = 0 if step is None or step.reply is None else 1 + len(step.results)
        held = self.held_messages
        return Conversation(
            turns=self.held_turns,
            current=self.open_turn,
            left_messages=max(self.logged_messages - held, 0),
            counted_messages=held - running,
            instructions=self.instructions,
            notes=self.notes,
            pins=self.pins,
            reductions=self.reductions,
            fingerprint=self.fingerprint,
            reported=self.reported,
            window_messages=self.window_messages,
        )


def size_of_open(turn: OpenTurn) -> int:
    """Return how many messages the open turn holds."""
    held = turn.size_messages
    if turn.step is not None and turn.step.reply is not None:
        held += 1 + len(turn.step.results)
    return held
