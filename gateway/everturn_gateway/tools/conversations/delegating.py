"""`delegate`: a task for an agent that works on it alone and returns its conclusion."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

import anyio
from pydantic import Field

from everturn_actors.errors import (
    ActorStoppedError,
    CoreError,
    InvalidInputError,
    ToolFailedError,
    UnknownAgentError,
)
from everturn_actors.model import IncomingMessage, ToolCall, ToolDefinition
from everturn_actors.outside import outside_of_all, together
from everturn_actors.ports import ToolCapabilities, ToolContext, ToolOutput
from everturn_actors.service import Submission, TurnResult, TurnService
from everturn_actors.session.refusals import with_refusals
from everturn_gateway.tools.arguments import Arguments, parameters, read_arguments
from everturn_gateway.tools.conversations.origins import (
    delegate_key,
    depth_of,
    hops_of,
    is_tainted,
    label,
)
from everturn_gateway.tools.environment import ToolEnvironment

logger = logging.getLogger(__name__)

NAME: Final = "delegate"
DEADLINE_S: Final = 1800.0  # of one task, as a turn's by default
_SUBMIT_S: Final = 10.0
_STOP_S: Final = 5.0
_TRIES: Final = 3  # tasks begun for one call, where what waited for it was interrupted

# read_only: each task is done once, whoever asks for it how often, in a conversation of its own; so
# calls may run side by side, and again after a crash, which is what it stands for. safe: every
# call that the delegate makes is judged by its own policy, and nobody is there to allow it more.
_CAPABILITIES: Final = ToolCapabilities(
    read_only=True, repeatable=True, safe=True, timeout_s=DEADLINE_S
)


class DelegateArguments(Arguments):
    """What a call may say."""

    task: str = Field(description="all there is to know, and what to report")
    agent: str = ""


class Delegate:
    """Lets an agent work on a task in a conversation of its own; implements `Tool`.

    The task is an ordinary message through the entry point, so it is durable, can be looked at, and
    goes on by itself after a restart. The conversation ends with its conclusion.
    """

    capabilities = _CAPABILITIES
    "Its effects are those of the calls that the delegate makes."

    def __init__(
        self, environment: ToolEnvironment, *, agents: tuple[str, ...] = (), max_depth: int = 2
    ) -> None:
        """Delegate to `agents`; to none but the agent of `environment` itself where that is empty.

        Args:
            environment: Where it works.
            agents: Who may be asked.
            max_depth: How deep delegates may delegate: 1 = they may not.
        """
        self._environment = environment
        self._agents = tuple(dict.fromkeys(agents)) or (environment.agent,)
        self._max_depth = max_depth
        self.definition = _definition(self._agents, self._default)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Return the conclusion of the delegate.

        Cancelled, it stops the delegate. While the gateway stops it waits to be stopped too: the
        delegate goes on at the next start, and the call finds it then.

        Raises:
            ToolFailedError: There is no such delegate, or the task cannot be begun.
        """
        asked = read_arguments(call, DelegateArguments)
        agent = self._named(asked.agent)
        if depth_of(context.key) >= self._max_depth:
            msg = f"delegates may not go deeper than {self._max_depth}; do it yourself"
            raise ToolFailedError(msg)
        if not asked.task.strip():
            msg = "task: what is to be done?"
            raise ToolFailedError(msg)
        text = _task(self._environment.agent, asked.task)
        sender = label(context.session_id, hops_of(context.conversation))
        tries = [delegate_key(call, context, agent, number) for number in range(1, _TRIES + 1)]
        try:
            return await self._work(
                [
                    IncomingMessage(
                        text=text,
                        key=key,
                        principal=context.principal,
                        sender=sender,
                        idempotency_key=key.chat,
                        untrusted=is_tainted(key),
                    )
                    for key in tries
                ]
            )
        except ActorStoppedError:
            # An error would become the result of the call, and the answer would be lost.
            await anyio.sleep_forever()
            raise

    @property
    def _default(self) -> str:
        """Who is asked where a call names nobody; empty where it has to."""
        if self._environment.agent in self._agents:
            return self._environment.agent
        return self._agents[0] if len(self._agents) == 1 else ""

    def _named(self, name: str) -> str:
        found = name.strip() or self._default
        if found in self._agents:
            return found
        known = ", ".join(self._agents)
        msg = f"there is no delegate {name!r}; there are: {known}" if name else f"name one: {known}"
        raise ToolFailedError(msg)

    async def _work(self, tries: Sequence[IncomingMessage]) -> ToolOutput:
        service = self._environment.link.service
        for inbound in tries:
            submission = await _submit(service, inbound)
            result = await _result(service, submission)
            # A task that was stopped because this call was cut short is begun anew.
            if not (submission.duplicate and result.outcome == "cancelled"):
                return await _conclusion(service, result)
        msg = f"the task was stopped {len(tries)} times; do it yourself or ask for less"
        raise ToolFailedError(msg)


async def _submit(service: TurnService, inbound: IncomingMessage) -> Submission:
    try:
        # Not cancelled half way: whoever stops the work has to know where it is done.
        with anyio.fail_after(_SUBMIT_S, shield=True):
            return await service.submit(inbound)
    except TimeoutError as error:
        msg = "the delegate could not begin in time; try again later"
        raise ToolFailedError(msg) from error
    except InvalidInputError as error:
        raise ToolFailedError(str(error)) from error
    except UnknownAgentError as error:
        msg = f"the delegate {error.name!r} is not there now; do it yourself"
        raise ToolFailedError(msg) from error


async def _result(service: TurnService, submission: Submission) -> TurnResult:
    try:
        return await submission.result()
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(_STOP_S, shield=True):
            await _end(service, submission.session_id)
        raise


async def _conclusion(service: TurnService, result: TurnResult) -> ToolOutput:
    state = await service.view(result.session_id)
    read = outside_of_all(message for turn in state.held_turns for message in turn.messages)
    summary = state.reductions.summary
    sources = together(read.sources, summary.outside if summary is not None else ())
    untrusted = bool(sources) or result.untrusted or is_tainted(state.key)
    source = f"what a delegate concluded from {', '.join(sources) or 'its task'}" * untrusted
    # Its answers stay in the log: after a crash the same call finds them in the ended session.
    if state.status != "ended":
        await _end(service, result.session_id)
    if result.outcome == "answered":
        text = with_refusals(result.text.strip() or "(no conclusion)", result.refused)
        return ToolOutput(text=text, untrusted=untrusted, source=source)
    said = f"\nIts last words: {result.text}" if result.text else ""
    text = f"{state.key.agent} did not finish the task ({result.outcome}): {result.error}{said}"
    text = with_refusals(text, result.refused)
    return ToolOutput(text=text, is_error=True, untrusted=untrusted, source=source)


async def _end(service: TurnService, session_id: str) -> None:
    """Stop what a delegate does and end its session; where that fails, it ends by its age."""
    try:
        await service.reset(session_id)
    except CoreError as error:
        logger.info(
            "the session of a delegate stays open",
            extra={"session_id": session_id, "error": str(error)},
        )


def _task(agent: str, task: str) -> str:
    return (
        f"[Task from the agent {agent}. Nobody reads along or can be asked: work alone, and end"
        f" with your conclusion; only your last message is handed back.]\n\n{task}"
    )


def _definition(agents: tuple[str, ...], default: str) -> ToolDefinition:
    schema: dict[str, Any] = parameters(DelegateArguments)
    if len(agents) == 1:
        del schema["properties"]["agent"]
    else:
        schema["properties"]["agent"] = {"type": "string", "enum": list(agents)}
        if not default:
            schema["required"].append("agent")
    return ToolDefinition(
        name=NAME,
        description=(
            "Have a task done apart from this conversation. The delegate sees nothing of it, and"
            " returns its conclusion. Several calls in one reply work side by side."
        ),
        parameters=schema,
    )
