"""What all actors of a service share, and what they ask of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct, field

from everturn_actors.context.estimation.windows import input_window
from everturn_actors.delivery.port import DeliveryPort
from everturn_actors.errors import UnknownAgentError
from everturn_actors.events import SessionStarted
from everturn_actors.model import ChosenModel, ConversationKey
from everturn_actors.ports import (
    Agent,
    Agents,
    ModelStatisticsStore,
    NullObserver,
    Observer,
    SessionStore,
)
from everturn_actors.turn.model_call import Timing

logger = logging.getLogger(__name__)


class IsHere(Protocol):
    """Says whether this process works on a session."""

    def __call__(self, session_id: str, key: ConversationKey | None = None) -> bool:
        """Answer; `key` is the session's conversation, where that is at hand."""
        ...


def everywhere(session_id: str, key: ConversationKey | None = None) -> bool:
    """Say that this process works on every session."""
    del session_id, key
    return True


def note_nothing(session_id: str, key: ConversationKey) -> None:
    """Note nothing: every session is here."""


def every_agent(agent: str) -> bool:
    """Say that this process works for every agent."""
    del agent
    return True


class Runtime(Struct, frozen=True, kw_only=True):
    """What all actors of a service share."""

    store: SessionStore
    agents: Agents
    model_statistics: ModelStatisticsStore
    timing: Timing
    passivate_after_s: float
    leave_grace_s: float
    "How long a client may be gone before its turn is paused."
    delivery_ports: Mapping[str, DeliveryPort] = field(default_factory=dict[str, DeliveryPort])
    "By the name of their channel: whoever tells its people what is said."
    observer: Observer = field(default_factory=NullObserver)
    is_here: IsHere = everywhere
    "Whether this process works on a session; another one does where it does not."
    note_key: Callable[[str, ConversationKey], None] = note_nothing
    "Is told which conversation a session is of, so that `is_here` can say it without that."
    works_for: Callable[[str], bool] = every_agent
    "Whether what an agent's tools work on is here, where it is in one place alone."

    def now(self) -> datetime:
        """Return the present instant, UTC."""
        return self.timing.clock.now()

    async def forget_mark(self, session_id: str) -> None:
        """Take back the mark of a session that is not there."""
        try:
            await self.store.mark_passive(session_id)
        except Exception as error:  # noqa: BLE001 - a boundary: the mark is a hint
            logger.warning(
                "the mark of an unknown session stays",
                extra={"session_id": session_id, "error": str(error)},
            )

    def find_agent(self, name: str, model: ChosenModel | None = None) -> Agent | UnknownAgentError:
        """Return an agent, with the model that was chosen for a session, or why there is none."""
        try:
            return self.agents.get(name) if model is None else self.agents.get_with(name, model)
        except UnknownAgentError as error:
            return error
        except Exception as error:
            # A boundary: whatever is wrong with the agents ends no session.
            logger.exception("an agent cannot be had", extra={"agent": name})
            return UnknownAgentError(name, why=f"it cannot be had: {type(error).__name__}")

    def agent(self, name: str, model: ChosenModel | None = None) -> Agent | None:
        """Return an agent; None where there is none. See `find_agent`."""
        found = self.find_agent(name, model)
        return found if isinstance(found, Agent) else None

    def window_tokens(self, agent: Agent | None) -> int | None:
        """Return the window of an agent's model; None where nobody can say."""
        if agent is None:
            return None
        model = agent.spec.model
        try:
            return input_window(model, self.model_statistics.of(model))
        except Exception:  # a boundary: the turn begins all the same, and ends in words if it must
            logger.exception("a model's window is not known", extra={"agent": agent.spec.name})
            return None


class RuntimeStats(Struct, frozen=True, kw_only=True):
    """How much there is to do at one moment, in the active sessions."""

    active: int = 0
    "Sessions whose actor lives."
    running: int = 0
    "Open turns that are worked on."
    waiting: int = 0
    "Messages that wait for a turn."
    commands: int = 0
    "What waits in the mailboxes."
    approvals: int = 0
    "Calls that wait for a person."
    outbox: int = 0
    "Outbox items that are not delivered."
    quarantined: int = 0
    "Sessions that failed again and again, and wait for somebody to cancel, reset or delete them."
    max_active: int = 0
    "Beyond so many active sessions those without work are passivated early; 0 = any number."

    def __add__(self, other: RuntimeStats) -> RuntimeStats:
        return RuntimeStats(
            active=self.active + other.active,
            running=self.running + other.running,
            waiting=self.waiting + other.waiting,
            commands=self.commands + other.commands,
            approvals=self.approvals + other.approvals,
            outbox=self.outbox + other.outbox,
            quarantined=self.quarantined + other.quarantined,
            max_active=self.max_active + other.max_active,
        )


class Activation(Struct, frozen=True, kw_only=True):
    """What a session's actor was started for."""

    begin_with: SessionStarted | None
    "How the session begins, where the store knows nothing of it; None = it has to exist."
    passivate_at_once: bool = False
    "Passivate as soon as there is nothing to do."
    resumes: bool = True
    "Let what is open go on at once, before a command asks for more than a look."
    is_new: bool = False
    "Its id was made for this, so nothing is stored of it and nobody has to look."
