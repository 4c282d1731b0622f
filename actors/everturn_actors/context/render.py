"""From a conversation and an agent to the request that a model gets. Pure.

The same conversation and spec always give the same bytes, so a restart goes on where the process
ended. A `Renderer` keeps what it built for the next request of the same session, so that a turn
costs what is new in it; a new one gives the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from everturn_actors.context.catalog import limits_of, policy_of
from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.estimation.calibration import (
    ModelStatistics,
    correction_tokens,
    prior_statistics,
    session_scale,
)
from everturn_actors.context.estimation.estimates import (
    Estimates,
    message_units,
    text_units,
    tools_units,
)
from everturn_actors.context.estimation.pictures import NO_PICTURES, Pictures, choose
from everturn_actors.context.fingerprint import Fingerprints
from everturn_actors.context.history import (
    History,
    outside_in,
    shown_history,
    shown_outside,
    with_files,
)
from everturn_actors.context.policy import Limits, Policy, Preamble
from everturn_actors.context.projection.projection import (
    PROJECTION_MESSAGES,
    PROJECTION_UNITS,
    Projection,
    Stage,
    Stored,
    projection_messages,
    projection_units,
)
from everturn_actors.context.projection.reductions import changes, event_of, shown_blocks
from everturn_actors.context.projection.turns import Block, flatten
from everturn_actors.context.prompt import system_prompt
from everturn_actors.events import EMERGENCY, ContextReduced
from everturn_actors.model import (
    AnyMessage,
    Conversation,
    ModelRequest,
    Notice,
    PromptFingerprint,
    ToolDefinition,
    ToolResult,
    Turn,
    UserMessage,
)
from everturn_actors.outside import NOTHING, Outside
from everturn_actors.spec import AgentSpec, ContextSpec

RECALL_TOOL = "recall_context"
SUMMARY_TRIES = 3
_BROKEN = "Your last reply could not be used: {}. Reply again."
KEEP_MESSAGES = 8  # newest messages that a summary on demand leaves as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A request, and how it came to be as it is."""

    request: ModelRequest
    policy: Policy[Any]
    limits: Limits
    budget: Budget
    projection: Projection
    "What the request shows of the conversation."
    fingerprint: PromptFingerprint
    "What the next request is compared with."
    preamble: Preamble
    tokens: int
    "What the prompt is predicted to cost: system prompt, tools and messages."
    outside: Outside = NOTHING
    "The text from outside that it shows."
    pictures: Pictures = NO_PICTURES
    "The images that it is to be sent with; the bytes are for who sends it."

    @property
    def omitted_messages(self) -> int:
        """Messages since the session began that are not in it: the number that is told."""
        return self.projection.omitted_messages

    def explain(self) -> str:
        """Return its parts in words, for people."""
        count = self.policy.estimates(self.limits)
        messages = len(self.request.messages)
        media = self.projection.media
        total = sum(count.message(m, media.get(m.seq, 0)) for m in self.request.messages)
        return (
            f"a system prompt of {count.text(self.request.system):,} tokens,"
            f" {len(self.request.tools)} tools of {self.budget.tools_tokens:,},"
            f" {messages} messages of {total:,},"
            f" and {self.budget.reserve_tokens:,} are kept free for the reply"
        )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """What a request can be made of."""

    policy: Policy[Any]
    limits: Limits
    budget: Budget
    projection: Projection
    turns: Sequence[Turn]
    "The finished turns of the projection, oldest first."
    system: str
    "The agent's own prompt, without a summary."
    preamble: Preamble
    request: ModelRequest
    "The whole of the projection, before the policy's ladder."
    fingerprint: PromptFingerprint
    estimates: Estimates
    pictures: Pictures
    outside: Outside
    "The text from outside that the projection shows."


def _request(
    spec: AgentSpec,
    preamble: Preamble,
    messages: tuple[AnyMessage, ...],
    tools: tuple[ToolDefinition, ...],
) -> ModelRequest:
    before: list[AnyMessage] = []
    if preamble.notice:
        before.append(Notice(text=preamble.notice))
    if preamble.preface:
        before.append(UserMessage(text=preamble.preface))
    return ModelRequest(
        model=spec.model.name,
        system=preamble.system,
        messages=(*before, *messages) if before else messages,
        tools=tools,
        max_output_tokens=spec.model.max_output_tokens,
        temperature=spec.model.temperature,
        reasoning_effort=spec.model.reasoning_effort,
    )


def _preamble_units(request: ModelRequest, messages: Sequence[AnyMessage]) -> int:
    """Return what a request costs beside `messages`, which are the end of its own."""
    before = request.messages[: len(request.messages) - len(messages)]
    fixed = text_units(request.system) + tools_units(request.tools)
    return fixed + sum(map(message_units, before))


def _limits(
    policy: Policy[Any],
    spec: AgentSpec,
    statistics: ModelStatistics,
    system: str,
    tools: Sequence[ToolDefinition],
) -> tuple[Limits, tuple[int, int]]:
    """Return what is known of a model, and what prompt and tools cost it, in tokens."""
    limits = limits_of(spec, statistics)
    count = policy.estimates(limits)
    return limits, (count.text(system), count.tools(tools))


def _sent(
    last: PromptFingerprint, prints: tuple[str, str], request: ModelRequest, units: int
) -> PromptFingerprint:
    known, whole = prints
    return PromptFingerprint(
        prefix=whole,
        messages=len(request.messages),
        units=units,
        is_cache_miss=bool(last.prefix) and known != last.prefix,
    )


def _untold(conversation: Conversation) -> int:
    """Return how many messages are not shown that a summary could still tell of.

    What the session no longer holds, none can.
    """
    reductions = conversation.reductions
    untold = len(reductions.dropped)
    told = reductions.summary.last_turn if reductions.summary else 0
    if told + 1 < reductions.cut_turn:
        for turn in conversation.turns:
            if turn.number >= reductions.cut_turn:
                break
            untold += turn.size_messages if turn.number > told else 0
    return untold


def _of_summary(conversation: Conversation) -> Outside:
    """Return the text from outside behind the summary that is shown."""
    summary = conversation.reductions.summary
    return Outside(direct=summary.outside) if summary is not None else NOTHING


def _recalls(tools: Sequence[ToolDefinition]) -> bool:
    return any(tool.name == RECALL_TOOL for tool in tools)


def _fits(prepared: _Prepared, projection: Projection) -> bool:
    """Whether what the policy's ladder leaves of a projection fits, by the default estimate."""
    policy = prepared.policy
    for stage in policy.ladder(policy.numbers, prepared.limits):
        projection, _ = stage(projection, prepared.budget)
    count, budget = prepared.estimates, prepared.budget
    preamble = policy.preamble(
        prepared.system, projection.whole_summary, projection.omitted_messages
    )
    texts = (preamble.system, preamble.notice, preamble.preface)
    fixed = sum(map(count.text, texts)) + count.tools(prepared.request.tools)
    needed = fixed + count.tokens(projection_units(projection)) + budget.reserve_tokens
    return budget.window_tokens <= 0 or needed <= budget.window_tokens


def _hidden(
    prepared: _Prepared, projection: Projection, stages: Sequence[Stage]
) -> tuple[Projection, tuple[ContextReduced, ...]]:
    """Return what the stages leave of a projection, and one event for each that hid something."""
    bodies: list[ContextReduced] = []
    for stage in stages:
        made, done = stage(projection, prepared.budget)
        if made is projection:
            continue
        event = event_of(projection, made, done, prepared.turns)
        if event is not None:
            bodies.append(event)
        projection = made
    return projection, tuple(bodies)


class Renderer:
    """Renders the requests of one session, one after the other."""

    def __init__(self) -> None:
        """Begin without anything kept."""
        self._chosen: tuple[ContextSpec, bool, Policy[Any]] | None = None
        self._history: History | None = None
        self._fingerprints = Fingerprints()
        self._last: (
            tuple[Conversation, AgentSpec, tuple[ToolDefinition, ...], ModelStatistics, _Prepared]
            | None
        ) = None

    def policy(self, spec: AgentSpec, tools: Sequence[ToolDefinition] = ()) -> Policy[Any]:
        """Return the agent's policy with the agent's numbers."""
        context = spec.session.context
        recalls = _recalls(tools)
        chosen = self._chosen
        if chosen is None or chosen[0] is not context or chosen[1] != recalls:
            chosen = self._chosen = (context, recalls, policy_of(context, recalls=recalls))
        return chosen[2]

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
            ContextDoesNotFitError: What cannot be hidden is larger than the window.
        """
        prepared = self._prepared(conversation, spec, tools, statistics)
        policy = prepared.policy
        projection, bodies = _hidden(
            prepared, prepared.projection, policy.lasting(policy.numbers, prepared.limits)
        )
        if policy.promises_fit or _fits(prepared, projection):
            return bodies
        # Its system leaves it to the provider to refuse a request; here none is sent that large.
        default = policy_of(ContextSpec(), recalls=_recalls(tools))
        count = prepared.estimates
        fixed = count.text(prepared.system), count.tools(tools)
        prepared = replace(
            prepared, budget=default.divide(default.numbers, prepared.limits, *fixed)
        )
        _, more = _hidden(prepared, projection, default.lasting(default.numbers, prepared.limits))
        return (*bodies, *more)

    def halve(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        statistics: ModelStatistics | None = None,
    ) -> tuple[ContextReduced, tuple[Stored, ...]] | None:
        """Return what is hidden after the provider found a request too long; None for nothing.

        With it, texts that leave the session and have to be kept before that is recorded.
        """
        prepared = self._prepared(conversation, spec, tools, statistics)
        policy = prepared.policy
        stage = policy.overflow(policy.numbers, prepared.limits)
        projection, bodies = _hidden(prepared, prepared.projection, [stage])
        return (replace(bodies[0], stage=EMERGENCY), projection.stored) if bodies else None

    def older_turns(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        statistics: ModelStatistics | None = None,
    ) -> int:
        """Return how many of the conversation's oldest turns a summary should stand for now."""
        prepared = self._prepared(conversation, spec, tools, statistics)
        policy = prepared.policy
        leaving = policy.older(
            policy.numbers, prepared.limits, prepared.projection, prepared.budget
        )
        reductions = conversation.reductions
        if leaving <= 0:
            # What had to leave to make such a policy's request fit is told of all the same.
            if policy.promises_fit or prepared.projection.unsummarised <= len(reductions.dropped):
                return 0
            return sum(1 for turn in conversation.turns if turn.number < reductions.cut_turn)
        last = 0
        for turn in prepared.turns:
            leaving -= len(shown_blocks(turn, reductions, policy.gap))
            if leaving < 0:
                break
            last = turn.number
        return sum(1 for turn in conversation.turns if turn.number <= last)

    def compactable_turns(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        statistics: ModelStatistics | None = None,
    ) -> int:
        """Return how many of the oldest turns a summary on demand would stand for; 0 = none."""
        prepared = self._prepared(conversation, spec, tools, statistics)
        numbers, window = prepared.policy.numbers, prepared.budget.window_tokens
        share = getattr(numbers, "compact_trigger", 0) * getattr(numbers, "summarize_trigger", 0)
        if prepared.estimates.tokens(prepared.fingerprint.units) < share * window:
            return 0
        keep = int(getattr(numbers, "compact_keep_messages", KEEP_MESSAGES))
        reductions = conversation.reductions
        shown = [turn for turn in conversation.turns if turn.number >= reductions.cut_turn]
        kept = 0 if conversation.current is None else conversation.current.size_messages
        while shown and kept < keep:
            kept += shown.pop().size_messages
        last = shown[-1].number if shown else reductions.cut_turn - 1
        if last <= (reductions.summary.last_turn if reductions.summary else 0):
            return 0
        return sum(1 for turn in conversation.turns if turn.number <= last)

    def intake(
        self,
        spec: AgentSpec,
        tools: Sequence[ToolDefinition],
        statistics: ModelStatistics,
        result: ToolResult,
        path: str,
    ) -> str:
        """Return what the session keeps of a new result; its whole text would stand at `path`."""
        policy = self.policy(spec, tools)
        return policy.intake(policy.numbers, limits_of(spec, statistics), result, path)

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
        for stage in policy.ladder(policy.numbers, prepared.limits):
            projection, _ = stage(projection, prepared.budget)
        preamble, request, fingerprint = prepared.preamble, prepared.request, prepared.fingerprint
        outside = prepared.outside
        if projection is not prepared.projection:
            messages = tuple(flatten(projection.blocks))
            units = projection_units(projection)
            gone = projection_messages(prepared.projection) - projection_messages(projection)
            projection = replace(
                projection, omitted_messages=prepared.projection.omitted_messages + gone
            )
            outside = outside_in(
                messages, {seq: b.disposition for seq, b in projection.changes.items()}
            )
            outside += _of_summary(conversation if projection.summary else Conversation())
            preamble = policy.preamble(
                prepared.system, projection.whole_summary, projection.omitted_messages
            )
            request = _request(spec, preamble, messages, tools)
            units += _preamble_units(request, messages)
            prints = Fingerprints().of(request, 0, max(conversation.fingerprint.messages, 0))
            fingerprint = _sent(conversation.fingerprint, prints, request, units)
        return Rendered(
            request=request,
            policy=policy,
            limits=prepared.limits,
            budget=prepared.budget,
            projection=projection,
            preamble=preamble,
            fingerprint=fingerprint,
            tokens=prepared.estimates.tokens(fingerprint.units) + prepared.limits.correction_tokens,
            outside=outside,
            pictures=prepared.pictures,
        )

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
        """Return how often a request that the provider found too long is halved and sent again."""
        return int(getattr(policy_of(spec.session.context).numbers, "overflow_retries", 1))

    def summary_limits(self, spec: AgentSpec) -> tuple[float, int]:
        """Return the deadline of one summary, in seconds, and how often a model is asked for it."""
        numbers = policy_of(spec.session.context).numbers
        timeout_s = getattr(numbers, "summarize_timeout_seconds", None)
        tries = getattr(numbers, "summarize_tries", SUMMARY_TRIES)
        return timeout_s or spec.session.context.summary_timeout_s, int(tries)

    # --- what a request is made of ---

    def _prepared(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...],
        statistics: ModelStatistics | None,
    ) -> _Prepared:
        """Return what a request can be made of; the last one is kept, for who asks twice."""
        statistics = statistics or prior_statistics(spec.model.name)
        known = self._last
        if (
            known is None
            or known[0] is not conversation
            or not (known[1] is spec or known[1] == spec)  # field by field only where it must be
            or known[2] != tools
            or not (known[3] is statistics or known[3] == statistics)
        ):
            prepared = self._made(conversation, spec, tools, statistics)
            known = self._last = (conversation, spec, tools, statistics, prepared)
        return known[4]

    def _made(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...],
        statistics: ModelStatistics,
    ) -> _Prepared:
        policy, current = self.policy(spec, tools), conversation.current
        reductions = conversation.reductions
        history = shown_history(conversation, policy, self._history)
        if history is not self._history:
            self._history, self._fingerprints = history, Fingerprints()
        running: tuple[Block, ...] = ()
        if current is not None:
            running = shown_blocks(current, reductions, policy.gap)
            if current.broken:
                running = (*running, UserMessage(text=f"[{_BROKEN.format(current.broken[-1])}]"))
        messages = (*history.messages, *flatten(running))
        now = messages[len(history.messages) :]
        shown = history.shown_messages + sum(1 for message in now if message.seq)
        omitted = conversation.left_messages + conversation.held_messages - shown
        summary = reductions.summary
        system = system_prompt(
            spec.prompt,
            instructions=conversation.instructions,
            at=None if current is None else current.started_at,
        )
        files = (*history.with_files, *with_files(now))
        fingerprint, reported = conversation.fingerprint, conversation.reported.input_tokens
        if not files:  # what images cost says nothing about words
            scale = session_scale(
                statistics, sent_units=fingerprint.units, reported_tokens=reported
            )
            statistics = replace(statistics, scale=scale)
        limits, fixed = _limits(policy, spec, statistics, system, tools)
        if (
            statistics.limit_tokens
            and policy.divide(policy.numbers, limits, *fixed).free_tokens <= 0
        ):
            # Only the provider fails a turn, not what it said once: prompt and tools alone are
            # larger than the limit that it named, so the request is made as if it had not.
            statistics = replace(statistics, limit=None)
            limits, fixed = _limits(policy, spec, statistics, system, tools)
        limits = replace(limits, window_messages=conversation.window_messages or None)
        count = policy.estimates(limits)
        pictures = NO_PICTURES
        if files:
            budget = policy.divide(policy.numbers, limits, *fixed)
            free = budget.free_tokens - count.text(summary.text if summary else "")
            room = free if budget.window_tokens > 0 else None
            pictures = choose(files, room_tokens=room, scale=statistics.scale)
        units = history.units + sum(map(message_units, now)) + pictures.units
        projection = Projection(
            blocks=(*history.blocks, *running),
            current=len(history.blocks),
            media=pictures.counts,
            changes=changes(reductions),
            omitted_messages=omitted,
            unsummarised=_untold(conversation),
            summary=summary.text if summary else "",
            note=reductions.note,
        )
        projection.memo.update({PROJECTION_UNITS: units, PROJECTION_MESSAGES: shown})
        preamble = policy.preamble(system, projection.whole_summary, omitted)
        request = _request(spec, preamble, messages, tools)
        plain = len(request.messages) == len(messages)  # nothing stands before them
        finished = len(history.messages) if plain else 0
        prints = self._fingerprints.of(request, finished, max(fingerprint.messages, 0))
        units += _preamble_units(request, messages)
        if fingerprint.prefix and fingerprint.prefix == prints[0]:
            limits = replace(
                limits,
                correction_tokens=correction_tokens(
                    statistics,
                    sent_units=fingerprint.units,
                    reported_tokens=reported,
                    now_units=units,
                ),
            )
        return _Prepared(
            policy=policy,
            limits=limits,
            budget=policy.divide(policy.numbers, limits, *fixed),
            projection=projection,
            turns=history.turns,
            preamble=preamble,
            system=system,
            request=request,
            fingerprint=_sent(conversation.fingerprint, prints, request, units),
            estimates=Estimates(statistics.scale),
            pictures=pictures,
            outside=shown_outside(now, reductions) + history.outside + _of_summary(conversation),
        )
