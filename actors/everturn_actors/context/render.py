"""From a conversation and an agent to the request that a model gets. Pure.

The same conversation and spec always give the same bytes, so a restart goes on where the process
ended. A `Renderer` keeps what it built for the next request: a turn costs what is new in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import structs

from everturn_actors.context.catalog import limits_of, policy_of
from everturn_actors.context.estimation.calibration import ModelStatistics, prior_statistics
from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN
from everturn_actors.context.estimation.forecast import Forecast, surely_far
from everturn_actors.context.estimation.windows import input_window
from everturn_actors.context.fingerprint import Fingerprints
from everturn_actors.context.headroom import (
    Asked,
    Hidden,
    is_doubtful,
    is_far,
    lastingly_hidden,
    older_of,
)
from everturn_actors.context.history import History, begun_history, outside_in, shown_history
from everturn_actors.context.policy import NO_HEADROOM, AnyPolicy
from everturn_actors.context.projection.projection import (
    Stored,
    projection_messages,
    projection_units,
)
from everturn_actors.context.projection.turns import flatten
from everturn_actors.context.rendered import (
    Prepared,
    Rendered,
    as_sent,
    can_recall,
    hidden_by,
    outside_of_summary,
    preamble_units,
    prepared_of,
    request_of,
)
from everturn_actors.events import EMERGENCY, ContextReduced
from everturn_actors.model import Conversation, ToolDefinition, ToolResult
from everturn_actors.spec import AgentSpec, ContextSpec

OVERFLOW_TRIES_MAX = 40  # each of them halves at least: far beyond the largest window
LONG_MESSAGES = 500  # of a history that is built for some milliseconds
TURNS_AT_ONCE = 100  # are built in a millisecond


def render(
    conversation: Conversation,
    spec: AgentSpec,
    tools: tuple[ToolDefinition, ...] = (),
    statistics: ModelStatistics | None = None,
) -> Rendered:
    """Return the request for the next step of the conversation's current turn.

    What has to be hidden for it was hidden before, see `Renderer.reduce`.

    Raises:
        ContextDoesNotFitError: What cannot be left out is larger than the window; the text names
            the parts and says what to change.
    """
    return Renderer().render(conversation, spec, tools, statistics)


class Renderer:
    """Renders the requests of one session, one after the other."""

    def __init__(self) -> None:
        """Begin without anything kept."""
        self._chosen: tuple[ContextSpec, bool, AnyPolicy] | None = None
        self._history: History | None = None
        self._fingerprints = Fingerprints()
        self._last: tuple[Asked, Prepared] | None = None
        self._headroom = NO_HEADROOM
        "Of the last one, by its policy, where that was asked."
        self.stored: tuple[Stored, ...] = ()
        "Texts that the last `reduce` moves to files: kept before its events are recorded."

    def policy(self, spec: AgentSpec, tools: Sequence[ToolDefinition] = ()) -> AnyPolicy:
        """Return the agent's policy with the agent's numbers."""
        context = spec.session.context
        recalls = can_recall(tools)
        chosen = self._chosen
        # By identity: an agent that is read again has another value, whatever changed in it.
        if chosen is None or chosen[0] is not context or chosen[1] != recalls:
            chosen = self._chosen = (context, recalls, policy_of(context, recalls=recalls))
        return chosen[2]

    def begin(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        statistics: ModelStatistics | None = None,
    ) -> Iterator[None]:
        """Build what later requests go on from, where that takes long; yield after each part."""
        if conversation.held_messages < LONG_MESSAGES:
            return
        known = self._history
        history, turns = begun_history(conversation, self.policy(spec, tools), known)
        if history is known:
            return
        for number, turn in enumerate(turns, 1):
            history.add(turn)
            if number % TURNS_AT_ONCE == 0:
                yield
        self._history, self._fingerprints = history, Fingerprints()
        yield
        # What does not go on from the last request is counted as a whole: a history that changed,
        # and one of which no provider has counted anything.
        is_told = conversation.fingerprint.prefix and conversation.reported.input_tokens
        if known is not None or not is_told:
            window = input_window(spec.model, statistics or prior_statistics(spec.model.name))
            if not surely_far(history.units, window * UNITS_PER_TOKEN):
                yield from history.counting()
        self._prepared(conversation, spec, tools, statistics)
        yield

    def reduce(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        statistics: ModelStatistics | None = None,
    ) -> tuple[ContextReduced, ...]:
        """Return what has to be hidden for good before the next request; mostly nothing.

        Applied to the state, one after the other, they leave nothing more to hide.

        Raises:
            ContextDoesNotFitError: What cannot be hidden is larger than the window, by a policy
                that does not leave that to the provider.
        """
        hiding = self.hiding(conversation, spec, tools, statistics)
        return () if hiding is None else self.hidden(hiding())

    def hiding(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        statistics: ModelStatistics | None = None,
    ) -> Callable[[], Hidden] | None:
        """Return what finds out, in any thread, what has to be hidden; None = nothing has."""
        prepared = self._prepared(conversation, spec, tools, statistics)
        policy = prepared.policy
        self.stored = ()
        limits, projection = prepared.limits, prepared.projection
        self._headroom = policy.headroom(policy.numbers, limits, projection, prepared.budget)
        # The policy said how much room is left: most requests need nothing hidden.
        if self._headroom.lasting > 1 and policy.promises_fit:
            return None
        return lambda: lastingly_hidden(prepared, tools)

    def hidden(self, found: Hidden) -> tuple[ContextReduced, ...]:
        """Take what `hiding` found, and return the events that hide it."""
        self.stored = found[0].stored
        return found[1]

    def shrink(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        statistics: ModelStatistics | None = None,
        *,
        most_units: int,
    ) -> tuple[ContextReduced, tuple[Stored, ...]] | None:
        """Return what is hidden after the provider found a request too long; None for nothing.

        With it, texts that leave the session and have to be kept before that is recorded.

        Args:
            conversation: What the request was made of.
            spec: The agent.
            tools: Its tools.
            statistics: What is known about its model.
            most_units: What messages may cost then, where the policy goes by that.
        """
        prepared = self._prepared(conversation, spec, tools, statistics)
        policy, limits = prepared.policy, prepared.limits
        stage = (
            policy.overflow(policy.numbers, limits)
            if policy.shrink is None
            else policy.shrink(policy.numbers, limits, most_units)
        )
        projection, bodies = hidden_by(prepared, prepared.projection, [stage])
        return (structs.replace(bodies[0], stage=EMERGENCY), projection.stored) if bodies else None

    def is_far(
        self, conversation: Conversation, spec: AgentSpec, statistics: ModelStatistics | None = None
    ) -> bool:
        """Return whether no summary can be due, with the tools of the last request.

        Where these change after a turn, the next one asks anew.
        """
        return is_far(self._last, self._headroom, (conversation, spec, statistics))

    def older_turns(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        statistics: ModelStatistics | None = None,
        *,
        is_cold: bool = False,
    ) -> int:
        """Return how many of the conversation's oldest turns a summary should stand for now.

        `is_cold` says that the provider's cache of the last request is about to go.
        """
        finding = self.finding_older(conversation, spec, tools, statistics, is_cold=is_cold)
        return finding() if finding is not None else 0

    def finding_older(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        statistics: ModelStatistics | None = None,
        *,
        is_cold: bool = False,
    ) -> Callable[[], int] | None:
        """Return what finds `older_turns` out, in any thread; None = none are."""
        is_known = self._last is not None and self._last[0][2] == tools
        if not is_cold and is_known and self.is_far(conversation, spec, statistics):
            return None
        prepared = self._prepared(conversation, spec, tools, statistics)
        return lambda: older_of(prepared, conversation, is_cold=is_cold)

    def compactable_turns(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        statistics: ModelStatistics | None = None,
    ) -> int:
        """Return how many of the oldest turns a summary on demand would stand for; 0 = none."""
        prepared = self._prepared(conversation, spec, tools, statistics)
        policy, window = prepared.policy, prepared.budget.window_tokens
        share = policy.compact_share(policy.numbers)
        if prepared.estimates.tokens(prepared.fingerprint.units) < share * window:
            return 0
        keep = policy.compact_keep(policy.numbers)
        reductions = conversation.reductions
        shown = [turn for turn in conversation.turns if turn.number >= reductions.cut_turn]
        kept = 0 if conversation.current is None else conversation.current.size_messages
        # The newest messages stay as they were said, by number and not by tokens.
        while shown and kept < keep:
            kept += shown.pop().size_messages
        last = shown[-1].number if shown else reductions.cut_turn - 1
        if last <= (reductions.summary.last_turn if reductions.summary else 0):
            return 0
        return sum(1 for turn in conversation.turns if turn.number <= last)

    def shorten_result(
        self,
        spec: AgentSpec,
        tools: Sequence[ToolDefinition],
        statistics: ModelStatistics,
        result: ToolResult,
        path: str,
    ) -> str:
        """Return what the session keeps of a new result; its whole text would stand at `path`."""
        policy = self.policy(spec, tools)
        return policy.shorten_result(policy.numbers, limits_of(spec, statistics), result, path)

    def render(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        statistics: ModelStatistics | None = None,
    ) -> Rendered:
        """See `render`."""
        prepared = self._prepared(conversation, spec, tools, statistics)
        policy, projection = prepared.policy, prepared.projection
        # For this request alone: none of these steps is recorded.
        for stage in policy.ladder(policy.numbers, prepared.limits):
            projection, _ = stage(projection, prepared.budget)
        preamble, request, fingerprint = prepared.preamble, prepared.request, prepared.fingerprint
        outside = prepared.outside
        forecast: Forecast | None = prepared.forecast
        # What a step changed has to be counted and hashed anew; mostly none has.
        if projection is not prepared.projection:
            messages = tuple(flatten(projection.blocks))
            units = projection_units(projection)
            gone = projection_messages(prepared.projection) - projection_messages(projection)
            projection = structs.replace(
                projection, omitted_messages=prepared.projection.omitted_messages + gone
            )
            outside = outside_in(
                messages, {seq: b.disposition for seq, b in projection.changes.items()}
            )
            outside += outside_of_summary(conversation if projection.summary else Conversation())
            preamble = policy.preamble(
                prepared.system, projection.whole_summary, projection.omitted_messages
            )
            request = request_of(spec, preamble, messages, tools, prepared.request.options)
            units += preamble_units(request, messages)
            prints = Fingerprints().of(request, 0, max(conversation.fingerprint.messages, 0))
            fingerprint = as_sent(conversation.fingerprint, prints, request, units)
            # A request that was reduced on the way says nothing of how the next one grows.
            forecast = None
        return Rendered(
            request=request,
            policy=policy,
            limits=prepared.limits,
            budget=prepared.budget,
            projection=projection,
            preamble=preamble,
            fingerprint=fingerprint,
            tokens=prepared.estimates.tokens(fingerprint.units) + prepared.limits.correction_tokens,
            forecast=forecast,
            outside=outside,
            pictures=prepared.pictures,
        )

    def doubtful(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        statistics: ModelStatistics | None = None,
    ) -> Rendered | None:
        """Return the next request where its estimate decides and may be wrong; else None."""
        known = statistics or prior_statistics(spec.model.name)
        if not is_doubtful(self._prepared(conversation, spec, tools, statistics), known):
            return None
        return self.render(conversation, spec, tools, statistics)

    def predicted_tokens(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        statistics: ModelStatistics | None = None,
    ) -> int:
        """Return what the next prompt would cost, the next question left out."""
        return self.render(conversation, spec, tools, statistics).tokens

    def overflow_tries(self, spec: AgentSpec) -> int:
        """Return how often a request that the provider found too long is made smaller."""
        policy = policy_of(spec.session.context)
        return OVERFLOW_TRIES_MAX if policy.shrink else policy.overflow_tries(policy.numbers)

    def summary_limits(self, spec: AgentSpec) -> tuple[float, int]:
        """Return the deadline of one summary, in seconds, and how often a model is asked for it."""
        policy = policy_of(spec.session.context)
        timeout_s = policy.summary_timeout_s(policy.numbers)
        tries = policy.summary_tries(policy.numbers)
        return timeout_s or spec.session.context.summary_timeout_s, tries

    # --- what a request is made of ---

    def _prepared(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...],
        statistics: ModelStatistics | None,
    ) -> Prepared:
        """Return what a request can be made of; the last one is kept, for who asks twice."""
        statistics = statistics or prior_statistics(spec.model.name)
        # The loop, the report and the summariser ask for the same within one step.
        if self._last is not None:
            known, prepared = self._last
            if (
                known[0] is conversation
                and (known[1] is spec or known[1] == spec)  # field by field only where it must be
                and known[2] == tools
                and (known[3] is statistics or known[3] == statistics)
            ):
                return prepared
        prepared = self._made(conversation, spec, tools, statistics)
        self._last = (conversation, spec, tools, statistics), prepared
        self._headroom = NO_HEADROOM
        return prepared

    def _made(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...],
        statistics: ModelStatistics,
    ) -> Prepared:
        policy = self.policy(spec, tools)
        history = shown_history(conversation, policy, self._history)
        # Fingerprints go on from the last request, and so only as long as its history does.
        if history is not self._history:
            self._history, self._fingerprints = history, Fingerprints()
        asked = (conversation, spec, tools, statistics)
        return prepared_of(asked, policy, history, self._fingerprints)
