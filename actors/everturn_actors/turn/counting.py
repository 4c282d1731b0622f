"""What the next request costs, asked of its provider where that decides what is hidden.

An estimate decides mostly: a provider that counts takes as long as a first word. It is asked only
near the edge of the window, where the estimate's doubt is larger than what is left. Then nothing
leaves that would have fitted, and nothing is sent that would be refused.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

import anyio

from everturn_actors.context.model_stats.reports import as_priced, observed_in_count
from everturn_actors.context.render import Renderer
from everturn_actors.context.rendered import Rendered
from everturn_actors.events import Body, PromptCounted
from everturn_actors.model import OpenTurn, ToolDefinition
from everturn_actors.ports import Agent, ModelStatisticsStore, PromptCounter, counter_of
from everturn_actors.state.session_state import SessionState

logger = logging.getLogger(__name__)

WAIT_S: Final = 3.0  # a provider has a deadline of its own; this one holds for whatever it does


class CountingHost(Protocol):
    """What is needed of the session; see `TurnHost`."""

    @property
    def state(self) -> SessionState:
        """The session's present state."""
        ...

    @property
    def renderer(self) -> Renderer:
        """Renders the session's requests."""
        ...

    @property
    def model_statistics(self) -> ModelStatisticsStore:
        """What was learnt about models."""
        ...

    async def record(self, *bodies: Body) -> None:
        """Make events durable and apply them; `state` is the new one when this returns."""
        ...


async def count_at_the_edge(
    host: CountingHost, turn: OpenTurn, agent: Agent, tools: tuple[ToolDefinition, ...]
) -> bool:
    """Have the next request counted where its estimate may be wrong by so much that it matters.

    What is counted is learnt, and an event. A boundary: what fails here costs nothing but the wait.

    Returns:
        Whether its provider was asked: what is known of model and session may be another then.
    """
    counter = counter_of(agent.provider)
    if counter is None:
        return False
    state, model = host.state, agent.spec.model
    statistics = host.model_statistics.of(model)
    rendered = host.renderer.doubtful(state.conversation, agent.spec, tools, statistics)
    if rendered is None:
        return False
    tokens = await _counted(counter, rendered)
    if tokens is None or tokens <= 0:
        return True
    observed = observed_in_count(statistics, rendered, tokens, (state.fingerprint, state.reported))
    if observed != statistics:
        host.model_statistics.record(model, observed)
    now = host.state
    if now.reductions is state.reductions and now.pins is state.pins and now.notes is state.notes:
        fingerprint = as_priced(rendered, host.model_statistics.of(model))
        await host.record(PromptCounted(turn=turn.number, tokens=tokens, fingerprint=fingerprint))
    return True


async def _counted(counter: PromptCounter, rendered: Rendered) -> int | None:
    """Return what the provider counts; None where it does not say, for whatever reason."""
    fields = {"model": rendered.request.model}
    try:
        with anyio.move_on_after(WAIT_S):
            return await counter.count_tokens(rendered.request)
    except Exception:
        logger.exception("a prompt could not be counted", extra=fields)
    return None
