"""One model call of a turn: what is sent, how often, and what is learnt from it.

A request that would be too large is made smaller before it is sent. One that the provider refuses
all the same is made smaller until it is taken; a failure that may pass is tried again.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from math import inf
from typing import Protocol

import anyio
import anyio.lowlevel
from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.estimation.hints import with_tools_refused
from everturn_actors.context.estimation.windows import hint_notes
from everturn_actors.context.headroom import HIDINGS_MOST
from everturn_actors.context.model_stats.refusals import Refusals
from everturn_actors.context.model_stats.reports import (
    as_priced,
    observed_in_refusal,
    observed_in_reply,
    observed_in_unnamed,
)
from everturn_actors.context.projection.projection import Stored
from everturn_actors.context.render import LONG_MESSAGES
from everturn_actors.context.rendered import Rendered
from everturn_actors.errors import (
    CallTimeoutError,
    ContextDoesNotFitError,
    ContextOverflowError,
    ModelError,
    NotCalledError,
    ToolsRefusedError,
)
from everturn_actors.events import ContextReduced, ModelCallFailed, ModelReplied, ReplyBroken
from everturn_actors.ids import result_name
from everturn_actors.model import Conversation, OpenTurn, Reply, Resolution, ToolDefinition
from everturn_actors.ports import Agent, Clock, ToolContext
from everturn_actors.protocol.feed import LiveReply
from everturn_actors.scopes import loop_time, new_scope
from everturn_actors.spec import AgentSpec
from everturn_actors.turn.call_status import listening
from everturn_actors.turn.counting import CountingHost, count_at_the_edge
from everturn_actors.turn.media import keep_images
from everturn_actors.turn.model_retry import failed_call, quick_delay_s
from everturn_actors.turn.provider_boundary import reply_of
from everturn_actors.turn.reply_flaws import check_withheld, flaw_of

logger = logging.getLogger(__name__)


class TurnHost(CountingHost, Protocol):
    """What a turn needs from the session it runs in."""

    @property
    def tool_context(self) -> ToolContext:
        """Where its calls run."""
        ...

    async def read_media(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """Return the bytes of the session's images of these names; what is gone is not in it."""
        ...

    async def resolve(
        self, call_id: str, resolution: Resolution, *, by: str = "", answer: str = ""
    ) -> None:
        """Settle an approval, unless somebody did in the same moment."""
        ...

    async def until_changed(self) -> None:
        """Wait until something new is durable."""
        ...

    def begin_reply(self, turn: int, step: int) -> LiveReply:
        """Begin to show the text of a model call to followers."""
        ...

    def add_text(self, live: LiveReply, text: str) -> None:
        """Show a piece of it."""
        ...

    @property
    def partial(self) -> str:
        """What was shown of a model call that has not ended in a reply; empty = nothing."""
        ...


class Timing(Struct, frozen=True, kw_only=True):
    """How a turn waits between tries."""

    clock: Clock
    jitter: Callable[[], float]
    "A number from 0 to 1, anew with every call."


@contextmanager
def deadline_stopped(deadline: anyio.CancelScope) -> Generator[None]:
    """Let the deadline of a turn stand still while it waits for what nobody here can hasten."""
    left_s = deadline.deadline - anyio.current_time()
    deadline.deadline = inf
    try:
        yield
    finally:
        deadline.deadline = anyio.current_time() + left_s


async def call_model(
    host: TurnHost, turn: OpenTurn, agent: Agent, timing: Timing
) -> ModelReplied | ReplyBroken | ModelCallFailed:
    """Return the model's reply to the state as it stands, as an event.

    A transient failure is tried again, unless somebody has read a part of the reply: what was
    said cannot be taken back. The first tries follow each other at once; one that comes later is
    an event, and the call is made anew then. What the provider finds too long is made shorter, as
    often as the policy allows.

    Raises:
        ModelError: No try succeeded, or the failure is not transient.
    """
    rendered = await _prepare(host, agent, counted_for=turn)
    tries, refusals = 0, Refusals()
    while True:
        live = host.begin_reply(turn.number, len(turn.steps) + 1)
        tries += 1
        try:
            reply = await _complete(host, live, rendered, agent)
        except ContextOverflowError as error:
            _learn_refusal(host, agent, rendered, error, timing.clock.now())
            tried = refusals.times
            most_units = refusals.add(rendered, error)
            if live.was_read or tried == host.renderer.overflow_tries(agent.spec):
                why = f"and it was made shorter {tried} times for this call already"
                raise _too_long(host, agent, rendered, error, why) from error
            rendered = await _shorter(host, agent, rendered, error, most_units)
        except ToolsRefusedError as error:
            # A chat is better than nothing, and the next request knows.
            statistics = host.model_statistics.of(agent.spec.model)
            if not rendered.request.tools or not statistics.calls_tools:
                raise
            refused = with_tools_refused(statistics, said=str(error), now=timing.clock.now())
            host.model_statistics.record(agent.spec.model, refused)
            rendered = await _prepare(host, agent)
        except NotCalledError as error:
            # No try failed, as there was none: it waits on until the turn's own deadline.
            tries -= 1
            logger.warning("a model call waits for long", extra={"reason": str(error)})
        except ModelError as error:
            if not error.retryable or live.was_read:
                raise
            retry_for_s, jitter = _retry_for_s(turn, agent), timing.jitter()
            delay_s = quick_delay_s(turn.outage, error, tries, retry_for_s, jitter)
            if delay_s is None:
                return failed_call(turn, error, retry_for_s, timing.clock.now(), jitter)
            await timing.clock.sleep(delay_s)
        else:
            statistics = _learn(host, agent, (rendered, reply), refusals, timing.clock.now())
            check_withheld(reply)
            if reason := flaw_of(reply, turn.options, sent_files=turn.sent_files):
                return _broken(turn, reply, reason)
            images, told = await keep_images(reply, turn.options, host.tool_context)
            host.add_text(live, told)
            text = reply.text + told
            return replace(_replied(reply, rendered, statistics), text=text, images=images)


async def _complete(host: TurnHost, live: LiveReply, rendered: Rendered, agent: Agent) -> Reply:
    """Call the model once.

    Raises:
        NotCalledError: It was not called at all.
        ModelError: It gave no reply.
    """
    timeout_s = agent.spec.session.call_timeout_s
    with new_scope(loop_time() + timeout_s), listening(partial(setattr, live, "waiting_for")):
        return await reply_of(agent.provider, rendered.request, partial(host.add_text, live))
    if live.waiting_for:
        msg = f"the model was not called within {timeout_s:g} s: waited for {live.waiting_for}"
        raise NotCalledError(msg)
    msg = f"the model gave no reply within {timeout_s:g} s"
    raise CallTimeoutError(msg)


def _retry_for_s(turn: OpenTurn, agent: Agent) -> float:
    """Return for how long calls are made again in an outage, from its beginning on.

    Who sends a message may ask for less. Of a turn with several, whoever waits the longest counts:
    nobody's message is given up sooner than they want.
    """
    most = agent.spec.session.model_retry_for_s
    asked = [most if user.retry_for_s < 0 else min(user.retry_for_s, most) for user in turn.heard]
    return max(asked, default=most)


async def _prepare(
    host: TurnHost, agent: Agent, *, counted_for: OpenTurn | None = None
) -> Rendered:
    """Return the next request, having recorded what had to be hidden for it.

    Args:
        host: The session.
        agent: Who answers.
        counted_for: The turn for which its provider counts it, where that may decide what is
            hidden; None = it does not.

    Raises:
        ContextDoesNotFitError: What cannot be hidden is larger than the window.
    """
    statistics = host.model_statistics.of(agent.spec.model)
    tools = agent.offered(statistics, host.state.open_turn)
    conversation = await _begun(host, agent.spec, tools, statistics)
    if counted_for is not None and await count_at_the_edge(host, counted_for, agent, tools):
        statistics = host.model_statistics.of(agent.spec.model)
        tools = agent.offered(statistics, host.state.open_turn)
        conversation = await _begun(host, agent.spec, tools, statistics)
    is_hidden = False
    # What is left is estimated anew, and may be too much by that: then more is hidden now, instead
    # of before the next request, whose cache would be broken again.
    for _ in range(HIDINGS_MOST):
        hidden = await _hidden(host, conversation, agent, tools, statistics)
        if not hidden:
            break
        is_hidden = True
        await _keep(host, host.renderer.stored)
        await host.record(*hidden)
        conversation = await _begun(host, agent.spec, tools, statistics)
    rendered = host.renderer.render(conversation, agent.spec, tools, statistics)
    if is_hidden:  # all of it was made anew, and to write it down takes as long
        await anyio.lowlevel.checkpoint()
    await _keep(host, rendered.projection.stored)
    if not rendered.pictures.shown:
        return rendered
    # The newest first: they are the last to be left out.
    media = await host.read_media(reversed([*rendered.pictures.shown]))
    return replace(rendered, request=dataclasses.replace(rendered.request, media=media))


async def _hidden(
    host: TurnHost,
    conversation: Conversation,
    agent: Agent,
    tools: tuple[ToolDefinition, ...],
    statistics: ModelStatistics,
) -> tuple[ContextReduced, ...]:
    """Return what has to be hidden; of a long conversation it is found out beside the loop.

    Raises:
        ContextDoesNotFitError: What cannot be hidden is larger than the window.
    """
    hiding = host.renderer.hiding(conversation, agent.spec, tools, statistics)
    if hiding is None:
        return ()
    is_long = conversation.held_messages >= LONG_MESSAGES
    return host.renderer.hidden(await to_thread.run_sync(hiding) if is_long else hiding())


async def _begun(
    host: TurnHost,
    spec: AgentSpec,
    tools: tuple[ToolDefinition, ...],
    statistics: ModelStatistics,
) -> Conversation:
    """Return the conversation, of which what takes long to build was built in parts."""
    for _ in host.renderer.begin(host.state.conversation, spec, tools, statistics):
        await anyio.lowlevel.checkpoint()  # what comes next may take as long: others go in between
    return host.state.conversation


async def _shorter(
    host: TurnHost,
    agent: Agent,
    rendered: Rendered,
    error: ContextOverflowError,
    most_units: int,
) -> Rendered:
    """Return a shorter request after the provider found `rendered` too long.

    Raises:
        ContextDoesNotFitError: Nothing more can be hidden; names what is left.
    """
    statistics = host.model_statistics.of(agent.spec.model)
    tools = agent.offered(statistics, host.state.open_turn)
    known = (agent.spec, tools, statistics)
    hidden = host.renderer.shrink(host.state.conversation, *known, most_units=most_units)
    if hidden is None:
        why = "and nothing more can be left out"
        raise _too_long(host, agent, rendered, error, why) from error
    body, stored = hidden
    await _keep(host, stored)
    await host.record(body)
    return await _prepare(host, agent)


async def _keep(host: TurnHost, stored: Sequence[Stored]) -> None:
    """Keep texts that a marker in the request will name, once each.

    Raises:
        JournalError: One could not be kept; the request must not go out.
    """
    context = host.tool_context if stored else None
    for each in stored:
        assert context is not None
        name = result_name(each.path)
        if await context.store.read_result(context.session_id, name) != each.text:
            await context.store.save_result(context.session_id, name, each.text)


def _learn_refusal(
    host: TurnHost, agent: Agent, rendered: Rendered, error: ContextOverflowError, now: datetime
) -> None:
    model = agent.spec.model
    statistics = host.model_statistics.of(model)
    observed = observed_in_refusal(statistics, rendered, error, now)
    if observed == statistics:
        return
    host.model_statistics.record(model, observed)
    if error.window_tokens:
        fields = {
            "model": model.name,
            "tokens": error.window_tokens,
            "believed": observed.limit_tokens == error.window_tokens,
        }
        logger.warning("a provider named a limit", extra=fields)


def _too_long(
    host: TurnHost, agent: Agent, rendered: Rendered, error: ContextOverflowError, why: str
) -> ContextDoesNotFitError:
    msg = (
        f"{error}; {why}: the request has {rendered.explain()};"
        " send less at once, shorten the prompt, or choose a model with a larger window"
    )
    model = agent.spec.model
    return ContextDoesNotFitError(
        "; ".join((msg, *hint_notes(model, host.model_statistics.of(model))))
    )


def _learn(
    host: TurnHost,
    agent: Agent,
    answered: tuple[Rendered, Reply],
    refusals: Refusals,
    now: datetime,
) -> ModelStatistics:
    """Take note of what an answered request tells of the model, and of those refused before it.

    Returns:
        What is known of the model now.
    """
    rendered, reply = answered
    model, before = agent.spec.model, (host.state.fingerprint, host.state.reported)
    known = host.model_statistics.of(model)
    if reply.fallback:  # another model's tokens say nothing about this one's
        return known
    observed = observed_in_reply(known, rendered, reply, before)
    if refusals.times:
        observed = observed_in_unnamed(observed, model, rendered, reply, (refusals, now))
    if observed != known:
        host.model_statistics.record(model, observed)
    return observed


def _broken(turn: OpenTurn, reply: Reply, reason: str) -> ReplyBroken:
    return ReplyBroken(
        turn=turn.number,
        step=len(turn.steps) + 1,
        reason=reason,
        text=reply.text,
        usage=reply.usage,
        model=reply.model,
    )


def _replied(reply: Reply, rendered: Rendered, statistics: ModelStatistics) -> ModelReplied:
    return ModelReplied(
        text=reply.text,
        reasoning=reply.reasoning,
        calls=reply.calls,
        usage=reply.usage,
        stop_reason=reply.stop_reason,
        model=reply.model,
        fingerprint=as_priced(rendered, statistics),
        opaque=reply.opaque,
        fallback=reply.fallback,
        outside=rendered.outside.sources,
        retells=rendered.outside.is_retold,
    )
