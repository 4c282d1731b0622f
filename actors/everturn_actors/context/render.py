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
    ModelFacts,
    cold_facts,
    correction_tokens,
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
from everturn_actors.context.policy import Limits, Opening, Policy
from everturn_actors.context.projection.reductions import became, event_of, shown_blocks
from everturn_actors.context.projection.turns import Block, flatten
from everturn_actors.context.projection.view import (
    VIEW_MESSAGES,
    VIEW_UNITS,
    Stage,
    Stored,
    View,
    view_messages,
    view_units,
)
from everturn_actors.context.prompt import system_prompt
from everturn_actors.events import EMERGENCY, ContextReduced
from everturn_actors.model import (
    AnyMessage,
    Conversation,
    ModelRequest,
    Notice,
    Sent,
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
    view: View
    "What the request shows of the conversation."
    sent: Sent
    "What the next request is compared with."
    opening: Opening
    tokens: int
    "What the prompt is predicted to cost: system prompt, tools and messages."
    outside: Outside = NOTHING
    "The text from outside that it shows."
    pictures: Pictures = NO_PICTURES
    "The images that it is to be sent with; the bytes are for who sends it."

    @property
    def omitted_messages(self) -> int:
        """Messages since the session began that are not in it: the number that is told."""
        return self.view.omitted_messages

    def explain(self) -> str:
        """Return its parts in words, for people."""
        count = self.policy.estimates(self.limits)
        messages = len(self.request.messages)
        media = self.view.media
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
    facts: ModelFacts | None = None,
) -> Rendered:
    """Return the request for the next step of the conversation's current turn.

    What has to be hidden for it was hidden before, see `Renderer.reduce`.

    Raises:
        ContextDoesNotFitError: What cannot be left out is larger than the window; the text names
            the parts and says what to change.
    """
    return Renderer().render(conversation, spec, tools, facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """What a request can be made of."""

    policy: Policy[Any]
    limits: Limits
    budget: Budget
    view: View
    turns: Sequence[Turn]
    "The finished turns of the view, oldest first."
    system: str
    "The agent's own prompt, without a summary."
    opening: Opening
    request: ModelRequest
    "The whole of the view, before the policy's ladder."
    sent: Sent
    estimates: Estimates
    pictures: Pictures
    outside: Outside
    "The text from outside that the view shows."


def _request(
    spec: AgentSpec,
    opening: Opening,
    messages: tuple[AnyMessage, ...],
    tools: tuple[ToolDefinition, ...],
) -> ModelRequest:
    before: list[AnyMessage] = []
    if opening.notice:
        before.append(Notice(text=opening.notice))
    if opening.preface:
        before.append(UserMessage(text=opening.preface))
    return ModelRequest(
        model=spec.model.name,
        system=opening.system,
        messages=(*before, *messages) if before else messages,
        tools=tools,
        max_output_tokens=spec.model.max_output_tokens,
        temperature=spec.model.temperature,
        reasoning_effort=spec.model.reasoning_effort,
    )


def _opening_units(request: ModelRequest, messages: Sequence[AnyMessage]) -> int:
    """Return what a request costs beside `messages`, which are the end of its own."""
    before = request.messages[: len(request.messages) - len(messages)]
    fixed = text_units(request.system) + tools_units(request.tools)
    return fixed + sum(map(message_units, before))


def _limits(
    policy: Policy[Any],
    spec: AgentSpec,
    facts: ModelFacts,
    system: str,
    tools: Sequence[ToolDefinition],
) -> tuple[Limits, tuple[int, int]]:
    """Return what is known of a model, and what prompt and tools cost it, in tokens."""
    limits = limits_of(spec, facts)
    count = policy.estimates(limits)
    return limits, (count.text(system), count.tools(tools))


def _sent(last: Sent, prints: tuple[str, str], request: ModelRequest, units: int) -> Sent:
    known, whole = prints
    return Sent(
        prefix=whole,
        messages=len(request.messages),
        units=units,
        drifted=bool(last.prefix) and known != last.prefix,
    )


def _untold(conversation: Conversation) -> int:
    """Return how many messages are not shown that a summary could still tell of.

    What the session no longer holds, none can.
    """
    standing = conversation.standing
    untold = len(standing.dropped)
    told = standing.summary.last_turn if standing.summary else 0
    if told + 1 < standing.cut_turn:
        for turn in conversation.turns:
            if turn.number >= standing.cut_turn:
                break
            untold += turn.size_messages if turn.number > told else 0
    return untold


def _of_summary(conversation: Conversation) -> Outside:
    """Return the text from outside behind the summary that is shown."""
    summary = conversation.standing.summary
    return Outside(direct=summary.outside) if summary is not None else NOTHING


def _recalls(tools: Sequence[ToolDefinition]) -> bool:
    return any(tool.name == RECALL_TOOL for tool in tools)


def _fits(scene: _Scene, view: View) -> bool:
    """Whether what the policy's ladder leaves of a view fits, by the default estimate."""
    policy = scene.policy
    for stage in policy.ladder(policy.numbers, scene.limits):
        view, _ = stage(view, scene.budget)
    count, budget = scene.estimates, scene.budget
    opening = policy.opening(scene.system, view.whole_summary, view.omitted_messages)
    texts = (opening.system, opening.notice, opening.preface)
    fixed = sum(map(count.text, texts)) + count.tools(scene.request.tools)
    needed = fixed + count.tokens(view_units(view)) + budget.reserve_tokens
    return budget.window_tokens <= 0 or needed <= budget.window_tokens


def _hidden(
    scene: _Scene, view: View, stages: Sequence[Stage]
) -> tuple[View, tuple[ContextReduced, ...]]:
    """Return what the stages leave of a view, and one event for each that hid something."""
    bodies: list[ContextReduced] = []
    for stage in stages:
        made, done = stage(view, scene.budget)
        if made is view:
            continue
        event = event_of(view, made, done, scene.turns)
        if event is not None:
            bodies.append(event)
        view = made
    return view, tuple(bodies)


class Renderer:
    """Renders the requests of one session, one after the other."""

    def __init__(self) -> None:
        """Begin without anything kept."""
        self._chosen: tuple[ContextSpec, bool, Policy[Any]] | None = None
        self._history: History | None = None
        self._fingerprints = Fingerprints()
        self._last: (
            tuple[Conversation, AgentSpec, tuple[ToolDefinition, ...], ModelFacts, _Scene] | None
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
        facts: ModelFacts | None = None,
    ) -> tuple[ContextReduced, ...]:
        """Return what has to be hidden for good before the next request; mostly nothing.

        Applied to the state, one after the other, they leave nothing more to hide.

        Raises:
            ContextDoesNotFitError: What cannot be hidden is larger than the window.
        """
        scene = self._scene(conversation, spec, tools, facts)
        policy = scene.policy
        view, bodies = _hidden(scene, scene.view, policy.lasting(policy.numbers, scene.limits))
        if policy.promises_fit or _fits(scene, view):
            return bodies
        # Its system leaves it to the provider to refuse a request; here none is sent that large.
        default = policy_of(ContextSpec(), recalls=_recalls(tools))
        count = scene.estimates
        fixed = count.text(scene.system), count.tools(tools)
        scene = replace(scene, budget=default.divide(default.numbers, scene.limits, *fixed))
        _, more = _hidden(scene, view, default.lasting(default.numbers, scene.limits))
        return (*bodies, *more)

    def halve(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        facts: ModelFacts | None = None,
    ) -> tuple[ContextReduced, tuple[Stored, ...]] | None:
        """Return what is hidden after the provider found a request too long; None for nothing.

        With it, texts that leave the session and have to be kept before that is recorded.
        """
        scene = self._scene(conversation, spec, tools, facts)
        policy = scene.policy
        stage = policy.overflow(policy.numbers, scene.limits)
        view, bodies = _hidden(scene, scene.view, [stage])
        return (replace(bodies[0], stage=EMERGENCY), view.stored) if bodies else None

    def older_turns(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        facts: ModelFacts | None = None,
    ) -> int:
        """Return how many of the conversation's oldest turns a summary should stand for now."""
        scene = self._scene(conversation, spec, tools, facts)
        policy = scene.policy
        leaving = policy.older(policy.numbers, scene.limits, scene.view, scene.budget)
        standing = conversation.standing
        if leaving <= 0:
            # What had to leave to make such a policy's request fit is told of all the same.
            if policy.promises_fit or scene.view.unsummarised <= len(standing.dropped):
                return 0
            return sum(1 for turn in conversation.turns if turn.number < standing.cut_turn)
        last = 0
        for turn in scene.turns:
            leaving -= len(shown_blocks(turn, standing, policy.gap))
            if leaving < 0:
                break
            last = turn.number
        return sum(1 for turn in conversation.turns if turn.number <= last)

    def compactable_turns(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        facts: ModelFacts | None = None,
    ) -> int:
        """Return how many of the oldest turns a summary on demand would stand for; 0 = none."""
        scene = self._scene(conversation, spec, tools, facts)
        numbers, window = scene.policy.numbers, scene.budget.window_tokens
        share = getattr(numbers, "compact_trigger", 0) * getattr(numbers, "summarize_trigger", 0)
        if scene.estimates.tokens(scene.sent.units) < share * window:
            return 0
        keep = int(getattr(numbers, "compact_keep_messages", KEEP_MESSAGES))
        standing = conversation.standing
        shown = [turn for turn in conversation.turns if turn.number >= standing.cut_turn]
        kept = 0 if conversation.current is None else conversation.current.size_messages
        while shown and kept < keep:
            kept += shown.pop().size_messages
        last = shown[-1].number if shown else standing.cut_turn - 1
        if last <= (standing.summary.last_turn if standing.summary else 0):
            return 0
        return sum(1 for turn in conversation.turns if turn.number <= last)

    def intake(
        self,
        spec: AgentSpec,
        tools: Sequence[ToolDefinition],
        facts: ModelFacts,
        result: ToolResult,
        path: str,
    ) -> str:
        """Return what the session keeps of a new result; its whole text would stand at `path`."""
        policy = self.policy(spec, tools)
        return policy.intake(policy.numbers, limits_of(spec, facts), result, path)

    def render(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        facts: ModelFacts | None = None,
    ) -> Rendered:
        """See `render`."""
        scene = self._scene(conversation, spec, tools, facts)
        policy, view = scene.policy, scene.view
        for stage in policy.ladder(policy.numbers, scene.limits):
            view, _ = stage(view, scene.budget)
        opening, request, sent = scene.opening, scene.request, scene.sent
        outside = scene.outside
        if view is not scene.view:
            messages = tuple(flatten(view.blocks))
            units = view_units(view)
            gone = view_messages(scene.view) - view_messages(view)
            view = replace(view, omitted_messages=scene.view.omitted_messages + gone)
            outside = outside_in(messages, {seq: b.fate for seq, b in view.became.items()})
            outside += _of_summary(conversation if view.summary else Conversation())
            opening = policy.opening(scene.system, view.whole_summary, view.omitted_messages)
            request = _request(spec, opening, messages, tools)
            units += _opening_units(request, messages)
            prints = Fingerprints().of(request, 0, max(conversation.sent.messages, 0))
            sent = _sent(conversation.sent, prints, request, units)
        return Rendered(
            request=request,
            policy=policy,
            limits=scene.limits,
            budget=scene.budget,
            view=view,
            opening=opening,
            sent=sent,
            tokens=scene.estimates.tokens(sent.units) + scene.limits.correction_tokens,
            outside=outside,
            pictures=scene.pictures,
        )

    def predicted_tokens(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...] = (),
        facts: ModelFacts | None = None,
    ) -> int:
        """Return what the next prompt would cost, the next question left out."""
        return self.render(conversation, spec, tools, facts).tokens

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

    def _scene(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...],
        facts: ModelFacts | None,
    ) -> _Scene:
        """Return what a request can be made of; the last one is kept, for who asks twice."""
        facts = facts or cold_facts(spec.model.name)
        known = self._last
        if (
            known is None
            or known[0] is not conversation
            or not (known[1] is spec or known[1] == spec)  # field by field only where it must be
            or known[2] != tools
            or not (known[3] is facts or known[3] == facts)
        ):
            scene = self._made(conversation, spec, tools, facts)
            known = self._last = (conversation, spec, tools, facts, scene)
        return known[4]

    def _made(
        self,
        conversation: Conversation,
        spec: AgentSpec,
        tools: tuple[ToolDefinition, ...],
        facts: ModelFacts,
    ) -> _Scene:
        policy, current = self.policy(spec, tools), conversation.current
        standing = conversation.standing
        history = shown_history(conversation, policy, self._history)
        if history is not self._history:
            self._history, self._fingerprints = history, Fingerprints()
        running: tuple[Block, ...] = ()
        if current is not None:
            running = shown_blocks(current, standing, policy.gap)
            if current.broken:
                running = (*running, UserMessage(text=f"[{_BROKEN.format(current.broken[-1])}]"))
        messages = (*history.messages, *flatten(running))
        now = messages[len(history.messages) :]
        shown = history.shown_messages + sum(1 for message in now if message.seq)
        omitted = conversation.left_messages + conversation.held_messages - shown
        summary = standing.summary
        system = system_prompt(
            spec.prompt,
            instructions=conversation.instructions,
            at=None if current is None else current.started_at,
        )
        files = (*history.with_files, *with_files(now))
        sent, reported = conversation.sent, conversation.reported.input_tokens
        if not files:  # what images cost says nothing about words
            scale = session_scale(facts, sent_units=sent.units, reported_tokens=reported)
            facts = replace(facts, scale=scale)
        limits, fixed = _limits(policy, spec, facts, system, tools)
        if facts.limit_tokens and policy.divide(policy.numbers, limits, *fixed).free_tokens <= 0:
            # Only the provider fails a turn, not what it said once: prompt and tools alone are
            # larger than the limit that it named, so the request is made as if it had not.
            facts = replace(facts, limit=None)
            limits, fixed = _limits(policy, spec, facts, system, tools)
        limits = replace(limits, window_messages=conversation.window_messages or None)
        count = policy.estimates(limits)
        pictures = NO_PICTURES
        if files:
            budget = policy.divide(policy.numbers, limits, *fixed)
            free = budget.free_tokens - count.text(summary.text if summary else "")
            room = free if budget.window_tokens > 0 else None
            pictures = choose(files, room_tokens=room, scale=facts.scale)
        units = history.units + sum(map(message_units, now)) + pictures.units
        view = View(
            blocks=(*history.blocks, *running),
            current=len(history.blocks),
            media=pictures.counts,
            became=became(standing),
            omitted_messages=omitted,
            unsummarised=_untold(conversation),
            summary=summary.text if summary else "",
            note=standing.note,
        )
        view.memo.update({VIEW_UNITS: units, VIEW_MESSAGES: shown})
        opening = policy.opening(system, view.whole_summary, omitted)
        request = _request(spec, opening, messages, tools)
        plain = len(request.messages) == len(messages)  # nothing stands before them
        finished = len(history.messages) if plain else 0
        prints = self._fingerprints.of(request, finished, max(sent.messages, 0))
        units += _opening_units(request, messages)
        if sent.prefix and sent.prefix == prints[0]:
            limits = replace(
                limits,
                correction_tokens=correction_tokens(
                    facts,
                    sent_units=sent.units,
                    reported_tokens=reported,
                    now_units=units,
                ),
            )
        return _Scene(
            policy=policy,
            limits=limits,
            budget=policy.divide(policy.numbers, limits, *fixed),
            view=view,
            turns=history.turns,
            opening=opening,
            system=system,
            request=request,
            sent=_sent(conversation.sent, prints, request, units),
            estimates=Estimates(facts.scale),
            pictures=pictures,
            outside=shown_outside(now, standing) + history.outside + _of_summary(conversation),
        )
