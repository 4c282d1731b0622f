"""Asks agents for notes about a conversation once it is idle, and once it is reset.

The question is a message in the session, at the end of what the model was sent just before, so
that the provider's cache serves all but a line of it. Nothing of the answer is delivered; what the
tool asks a person is. A gateway that is stopped or killed meanwhile asks after the next turn.

A session that was reset takes no more turns: its agent's model is asked beside it, once, and what
it would note is kept, or proposed where the person has to agree. Nothing of that comes into the
conversation that begins anew.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import anyio
from msgspec import Struct, field, structs

from everturn_actors.context.render import Renderer
from everturn_actors.errors import (
    ActorStoppedError,
    CoreError,
    ModelError,
    ToolFailedError,
)
from everturn_actors.model import (
    MEMORY,
    PROGRAM_SENDERS,
    CallOptions,
    IncomingMessage,
    OpenStep,
    OpenTurn,
    Queueing,
    ToolCall,
    UserMessage,
)
from everturn_actors.ports import (
    ALLOW,
    Agent,
    Agents,
    Clock,
    ModelStatisticsStore,
    SessionStore,
    Tool,
    ToolContext,
)
from everturn_actors.service import TurnService
from everturn_actors.state.session_state import SessionState
from everturn_actors.turn.model_statistics import InMemoryModelStatistics
from everturn_actors.turn.provider_boundary import reply_of
from everturn_gateway.tools.memory.noting import NOTE_PERSON
from everturn_gateway.tools.places import NOBODY_ANSWERS

logger = logging.getLogger(__name__)

RESET_MAX: Final = 100  # conversations that were reset and wait; further ones are not asked about
ASK_S: Final = 120.0  # for one of them
WAITING_MAX: Final = 10_000  # conversations; the one that would be asked last is left out
_QUIET: Final = CallOptions(is_quiet=True)
_QUESTION: Final = f"""\
[This conversation {{}} now; nobody reads your answer to this.] Since you were last asked, did \
the person say something about themselves or their work that will matter in later conversations, \
and that your notes do not say, or say otherwise? If so, call {NOTE_PERSON} once. Then answer: \
done."""
QUESTION: Final = _QUESTION.format("rests")
QUESTION_AT_RESET: Final = _QUESTION.format("is over")


def _never(agent: str) -> float | None:
    del agent
    return None


class IdleConversations(Struct, kw_only=True):
    """The conversations that rest, and when their agents are asked for notes."""

    service: Callable[[], TurnService]
    clock: Clock
    after_s: Callable[[str], float | None] = _never
    "How long a conversation with an agent has to rest; None = the agent keeps no such notes."
    agents: Agents | None = None
    "Those of the gateway; None = nothing is asked about a session that was reset."
    statistics: ModelStatisticsStore = field(default_factory=InMemoryModelStatistics)
    store: Callable[[], SessionStore] | None = None
    "Where sessions live; None = nothing is asked about one that was reset."
    _reset: dict[str, SessionState] = field(default_factory=dict[str, SessionState])
    "As they were before they ended."
    _due: dict[str, datetime] = field(default_factory=dict[str, datetime])
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def note(self, before: SessionState | None, after: SessionState) -> None:
        """Take note of a turn that ended. Stands in the path of turns: two comparisons mostly."""
        if before is not None and after.status == "ended" and before.status != "ended":
            self._note_end(before, after)
            return
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

    def _note_end(self, before: SessionState, after: SessionState) -> None:
        """Take note of a session that ended; what a reset would lose is asked for at once."""
        self._due.pop(after.session_id, None)
        is_kept = after.ended_reason == "reset" and self.after_s(after.key.agent) is not None
        if is_kept and is_worth_asking(before) and len(self._reset) < RESET_MAX:
            self._reset[after.session_id] = before
            self._changed.set()

    async def run(self) -> None:
        """Ask whenever a conversation has rested long enough, until cancelled."""
        while True:
            now = self.clock.now()
            for session_id in [each for each, due in self._due.items() if due <= now]:
                del self._due[session_id]
                await self._ask(session_id)
            while self._reset:
                await self._ask_of_reset(self._reset.pop(next(iter(self._reset))))
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
                IncomingMessage(
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

    async def _ask_of_reset(self, state: SessionState) -> None:
        """Ask about a conversation that is over, beside it; what fails costs its notes alone."""
        fields = {"session_id": state.session_id}
        try:
            with anyio.fail_after(ASK_S):
                await self._note_of_reset(state)
        except (CoreError, ModelError, ToolFailedError, TimeoutError) as error:
            logger.warning("a reset loses notes", extra={**fields, "error": str(error)})
        except Exception:
            logger.exception("a reset loses notes by a fault", extra=fields)

    async def _note_of_reset(self, state: SessionState) -> None:
        agents, name, model = self.agents, state.key.agent, state.model
        if agents is None or self.store is None:
            return
        # No other model than the one that had the conversation reads it once more.
        agent = agents.get(name) if model is None else agents.get_with(name, model)
        tool = agent.tools.get(NOTE_PERSON)
        if tool is None:
            return
        now, statistics = self.clock.now(), self.statistics.of(agent.spec.model)
        asked = OpenTurn(
            number=state.turns + 1,
            users=(UserMessage(text=QUESTION_AT_RESET, sender=MEMORY),),
            started_at=now,
        )
        conversation = structs.replace(state.conversation, current=asked)
        tools = agent.offered(statistics, None)
        made = Renderer().render(conversation, agent.spec, tools, statistics)
        request = dataclasses.replace(made.request, in_background=True, purpose="notes")
        reply = await reply_of(agent.provider, request, _unheard)
        # Whatever was shown stands behind what it calls, as in any turn.
        told = structs.replace(reply, outside=made.outside.sources)
        step = OpenStep(reply=told)
        context = ToolContext(
            session_id=state.session_id,
            key=state.key,
            store=self.store(),
            conversation=structs.replace(conversation, current=structs.replace(asked, step=step)),
            principal=state.principal,
            shared_with=state.shared_with,
        )
        for call in reply.calls[:1]:
            if call.name == NOTE_PERSON and await _may_run(agent, call, tool, context):
                await tool.run(call, context)


async def _may_run(agent: Agent, call: ToolCall, tool: Tool, context: ToolContext) -> bool:
    """Whether the agent's policy lets a call run; nobody is there to be asked."""
    verdict = ALLOW if agent.gate is None else await agent.gate.evaluate(call, tool, context)
    if verdict.effect != "allow":
        fields = {"session_id": context.session_id, "reason": verdict.reason}
        logger.info("a reset loses notes: the policy does not let them be kept", extra=fields)
    return verdict.effect == "allow"


def _unheard(_piece: str) -> None:
    """Nobody follows what a model writes beside a conversation."""


def is_worth_asking(state: SessionState) -> bool:
    """Return whether a person has spoken since the agent was last asked for notes. Pure."""
    turn = state.newest_turn
    if state.status != "active" or state.waiting or turn is None or turn.outcome != "answered":
        return False
    if state.key.channel in NOBODY_ANSWERS:
        return False
    return any(user.sender not in PROGRAM_SENDERS for user in turn.heard)
