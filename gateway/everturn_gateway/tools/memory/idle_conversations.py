"""Asks agents for notes about a conversation once it is idle.

The question is a message in the session, at the end of what the model was sent just before, so
that the provider's cache serves all but a line of it. Nothing of the answer is delivered; what the
tool asks a person is. A gateway that is stopped or killed meanwhile asks after the next turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import anyio
from msgspec import Struct, field

from everturn_actors.errors import ActorStoppedError, CoreError
from everturn_actors.model import MEMORY, PROGRAM_SENDERS, CallOptions, Inbound, Queueing
from everturn_actors.ports import Clock
from everturn_actors.service import TurnService
from everturn_actors.state.session_state import SessionState
from everturn_gateway.tools.memory.noting import NOTE_PERSON
from everturn_gateway.tools.policy.gate import NOBODY_ANSWERS

logger = logging.getLogger(__name__)

WAITING_MAX: Final = 10_000  # conversations; the one that would be asked last is left out
_QUIET: Final = CallOptions(is_quiet=True)
QUESTION: Final = f"""\
[This conversation rests now; nobody reads your answer to this.] Since you were last asked, did \
the person say something about themselves or their work that will matter in later conversations, \
and that your notes do not say, or say otherwise? If so, call {NOTE_PERSON} once. Then answer: \
done."""


def _never(agent: str) -> float | None:
    del agent
    return None


class IdleConversations(Struct, kw_only=True):
    """The conversations that rest, and when their agents are asked for notes."""

    service: Callable[[], TurnService]
    clock: Clock
    after_s: Callable[[str], float | None] = _never
    "How long a conversation with an agent has to rest; None = the agent keeps no such notes."
    _due: dict[str, datetime] = field(default_factory=dict[str, datetime])
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def note(self, before: SessionState | None, after: SessionState) -> None:
        """Take note of a turn that ended. Stands in the path of turns: two comparisons mostly."""
        if before is None or before.open_turn is None or after.open_turn is not None:
            return
        after_s = self.after_s(after.key.agent)
        if after_s is None or not is_worth_asking(after):
            self._due.pop(after.session_id, None)
            return
        if len(self._due) >= WAITING_MAX and after.session_id not in self._due:
            return
        self._due.pop(after.session_id, None)
        self._due[after.session_id] = after.updated_at + timedelta(seconds=after_s)
        self._changed.set()

    async def run(self) -> None:
        """Ask whenever a conversation has rested long enough, until cancelled."""
        while True:
            now = self.clock.now()
            for session_id in [each for each, due in self._due.items() if due <= now]:
                del self._due[session_id]
                await self._ask(session_id)
            self._changed = anyio.Event()
            next_due = min(self._due.values(), default=None)
            if next_due is None:
                await self._changed.wait()
                continue
            left_s = max((next_due - self.clock.now()).total_seconds(), 0)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._wake, left_s, tasks.cancel_scope)
                await self._changed.wait()
                tasks.cancel_scope.cancel()

    async def _wake(self, delay_s: float, waiting: anyio.CancelScope) -> None:
        await self.clock.sleep(delay_s)
        waiting.cancel()

    async def _ask(self, session_id: str) -> None:
        """Ask about one conversation; what fails costs its notes alone."""
        fields = {"session_id": session_id}
        try:
            state = await self.service().view(session_id)
            if not is_worth_asking(state) or state.open_turn is not None:
                return
            await self.service().submit(
                Inbound(
                    session_id=session_id,
                    text=QUESTION,
                    sender=MEMORY,
                    idempotency_key=f"{MEMORY}-{state.turns}",
                    options=_QUIET,
                    queueing=Queueing(joins="own"),
                )
            )
        except ActorStoppedError:
            raise
        except CoreError as error:
            logger.warning("no notes are asked for", extra={**fields, "error": str(error)})
        except Exception:
            logger.exception("notes could not be asked for", extra=fields)


def is_worth_asking(state: SessionState) -> bool:
    """Return whether a person has spoken since the agent was last asked for notes. Pure."""
    turn = state.newest_turn
    if state.status != "active" or state.waiting or turn is None or turn.outcome != "answered":
        return False
    if state.key.channel in NOBODY_ANSWERS:
        return False
    return any(user.sender not in PROGRAM_SENDERS for user in turn.heard)
