"""A request as it was made for a conversation, and what is kept of how it was made. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.context.beside import outside_beside, prompt_beside
from everturn_actors.context.catalog import pictures_room, request_limits, with_least_room
from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.estimation.calibration import ModelStatistics, session_scale
from everturn_actors.context.estimation.classes import Counts, added, message_counts
from everturn_actors.context.estimation.estimates import (
    UNITS_PER_TOKEN,
    Estimates,
    message_units,
    prompt_units,
    tools_units,
)
from everturn_actors.context.estimation.forecast import Forecast, Sizes, forecast_of
from everturn_actors.context.estimation.pictures import NO_PICTURES, Pictures, choose
from everturn_actors.context.estimation.windows import input_window
from everturn_actors.context.fingerprint import Fingerprints
from everturn_actors.context.history import History, shown_outside, with_files
from everturn_actors.context.policy import AnyPolicy, Limits, Preamble
from everturn_actors.context.projection.markers import RECALL_TOOL
from everturn_actors.context.projection.projection import (
    PROJECTION_MESSAGES,
    PROJECTION_UNITS,
    Projection,
    Stage,
)
from everturn_actors.context.projection.reductions import changes, event_of, shown_blocks
from everturn_actors.context.projection.turns import Block, flatten
from everturn_actors.context.prompt import system_prompt
from everturn_actors.events import ContextReduced
from everturn_actors.model import (
    DEFAULT_OPTIONS,
    AnyMessage,
    CallOptions,
    Conversation,
    ModelRequest,
    Notice,
    PromptFingerprint,
    Reductions,
    ToolDefinition,
    Turn,
    UserMessage,
)
from everturn_actors.outside import NOTHING, Outside
from everturn_actors.spec import AgentSpec

BROKEN = "Your last reply could not be used: {}. Reply again."


class Rendered(Struct, frozen=True, kw_only=True):
    """A request, and how it came to be as it is."""

    request: ModelRequest
    policy: AnyPolicy
    limits: Limits
    budget: Budget
    projection: Projection
    "What the request shows of the conversation."
    fingerprint: PromptFingerprint
    "What the next request is compared with."
    preamble: Preamble
    tokens: int
    "What the prompt is predicted to cost: system prompt, tools and messages."
    forecast: Forecast | None = None
    "How that was predicted; None where the policy's ladder changed what it is."
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


class Prepared(Struct, frozen=True, kw_only=True):
    """What a request can be made of."""

    policy: AnyPolicy
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
    forecast: Forecast
    pictures: Pictures
    outside: Outside
    "The text from outside that the projection shows."


def request_of(
    spec: AgentSpec,
    preamble: Preamble,
    messages: tuple[AnyMessage, ...],
    tools: tuple[ToolDefinition, ...],
    options: CallOptions = DEFAULT_OPTIONS,
) -> ModelRequest:
    """Return the request for messages as they are sent, with what its turn's caller asks for."""
    before: list[AnyMessage] = []
    if preamble.block is not None:
        before.append(preamble.block)
    if preamble.notice:
        before.append(Notice(text=preamble.notice))
    if preamble.preface:
        before.append(UserMessage(text=preamble.preface))
    model = spec.model
    temperature, most = model.temperature, model.max_output_tokens
    if options.temperature is not None:
        temperature = options.temperature
    if options.max_output_tokens is not None:
        most = min(options.max_output_tokens, most or options.max_output_tokens)
    return ModelRequest(
        model=model.name,
        system=preamble.system,
        messages=(*before, *messages) if before else messages,
        tools=tools,
        max_output_tokens=most,
        temperature=temperature,
        reasoning_effort=options.reasoning_effort or model.reasoning_effort,
        makes_images=model.makes_images,
        options=options,
    )


def preamble_units(request: ModelRequest, messages: Sequence[AnyMessage]) -> int:
    """Return what a request costs beside `messages`, which are the end of its own."""
    before = request.messages[: len(request.messages) - len(messages)]
    fixed = prompt_units(request.system) + tools_units(request.tools)
    return fixed + sum(map(message_units, before))


def as_sent(
    last: PromptFingerprint,
    prints: tuple[str, str],
    request: ModelRequest,
    units: int,
    tokens: int = 0,
) -> PromptFingerprint:
    """Return what is kept of a request, to compare the next one with."""
    known, whole = prints
    return PromptFingerprint(
        prefix=whole,
        messages=len(request.messages),
        units=units,
        tokens=tokens,
        is_cache_miss=bool(last.prefix) and known != last.prefix,
    )


def untold(conversation: Conversation) -> int:
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


def outside_of_summary(conversation: Conversation) -> Outside:
    """Return the text from outside behind the summary that is shown, and behind what is beside."""
    summary = conversation.reductions.summary
    found = Outside(direct=summary.outside) if summary is not None else NOTHING
    return found + outside_beside(conversation)


def _summary_of(reductions: Reductions, *, opens: bool) -> str:
    """Return the summary that is shown; where the model can ask, it says what it stands for."""
    summary = reductions.summary
    if summary is None or not opens:
        return summary.text if summary is not None else ""
    last = summary.last_turn
    return f"[Turns 1 to {last}; {RECALL_TOOL}(summary={last}) opens them]\n\n{summary.text}"


def can_recall(tools: Sequence[ToolDefinition]) -> bool:
    """Whether the agent has the tool that reads back what is hidden."""
    return RECALL_TOOL in [tool.name for tool in tools]


def hidden_by(
    prepared: Prepared, projection: Projection, stages: Sequence[Stage]
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


def running_blocks(conversation: Conversation, policy: AnyPolicy) -> tuple[Block, ...]:
    """Return the blocks of the turn that runs."""
    current = conversation.current
    if current is None:
        return ()
    shown = shown_blocks(current, conversation.reductions, policy.gap)
    if not current.broken:
        return shown
    return (*shown, UserMessage(text=f"[{BROKEN.format(current.broken[-1])}]"))


def prepared_of(
    asked: tuple[Conversation, AgentSpec, tuple[ToolDefinition, ...], ModelStatistics],
    policy: AnyPolicy,
    history: History,
    fingerprints: Fingerprints,
) -> Prepared:
    """Return what a request can be made of; `history` is of the conversation's finished turns."""
    conversation, spec, tools, statistics = asked
    reductions = conversation.reductions
    running = running_blocks(conversation, policy)
    messages = (*history.messages, *flatten(running))
    now = messages[len(history.messages) :]
    shown = history.shown_messages + len([message for message in now if message.seq])
    omitted = conversation.left_messages + conversation.held_messages - shown
    summary = _summary_of(reductions, opens=policy.opens_summaries and can_recall(tools))
    window_tokens = input_window(spec.model, statistics)
    system, options = _system_of(conversation, spec)
    if conversation.notes.text or conversation.pins:
        shown_seqs = {each.seq for each in messages} - reductions.replaced.keys()
        seqs = None if policy.hides_for_one_request else shown_seqs
        beside = prompt_beside(conversation, seqs, window_units=window_tokens * UNITS_PER_TOKEN)
        system = "\n\n".join(part for part in (system, beside) if part)
    files = (*history.with_files, *with_files(now))
    fingerprint = conversation.fingerprint
    pictures = NO_PICTURES
    if files:
        limits, fixed = request_limits(policy, spec, statistics, system, tools)
        room = pictures_room(policy, limits, fixed, summary)
        pictures = choose(files, room_tokens=room, scale=statistics.scale)
    units = history.units + sum(map(message_units, now)) + pictures.units
    projection = _projection_of(conversation, history, running, pictures, (summary, omitted))
    projection.memo.update({PROJECTION_UNITS: units, PROJECTION_MESSAGES: shown})
    preamble = _preamble(policy, reductions, projection, system)
    request = request_of(spec, preamble, messages, tools, options)
    before = request.messages[: len(request.messages) - len(messages)]
    finished = 0 if before else len(history.messages)
    prints = fingerprints.of(request, finished, max(fingerprint.messages, 0))
    units += preamble_units(request, messages)
    sizes = Sizes(
        units=units,
        image_units=pictures.units,
        window_tokens=window_tokens,
        is_next=bool(fingerprint.prefix) and fingerprint.prefix == prints[0],
    )

    def count() -> Counts:
        return added(history.counts(), message_counts((*before, *now)))

    forecast = forecast_of(statistics, conversation, request, sizes, count)
    statistics, correction = _scaled(statistics, forecast, units, has_files=bool(files))
    limits, fixed = request_limits(policy, spec, statistics, system, tools)
    held = conversation.window_messages or None
    limits = replace(limits, window_messages=held, correction_tokens=correction)
    budget = policy.divide(policy.numbers, limits, *fixed)
    tokens = round(forecast.prompt_tokens)
    return Prepared(
        policy=policy,
        limits=limits,
        budget=with_least_room(budget) if policy.shrink else budget,
        projection=projection,
        turns=history.turns,
        preamble=preamble,
        system=system,
        request=request,
        fingerprint=as_sent(fingerprint, prints, request, units, tokens),
        estimates=Estimates(statistics.scale),
        forecast=forecast,
        pictures=pictures,
        outside=shown_outside(now, reductions) + history.outside + outside_of_summary(conversation),
    )


def _preamble(
    policy: AnyPolicy, reductions: Reductions, projection: Projection, system: str
) -> Preamble:
    """Return what stands before the messages; a provider's own summary stands among them."""
    summary, omitted = reductions.summary, projection.omitted_messages
    if not policy.compacts or summary is None or not summary.opaque:
        return policy.preamble(system, projection.whole_summary, omitted)
    block = Notice(text=policy.prompt("", projection.summary), opaque=summary.opaque)
    return replace(policy.preamble(system, projection.note, omitted), block=block)


def _projection_of(
    conversation: Conversation,
    history: History,
    running: tuple[Block, ...],
    pictures: Pictures,
    gone: tuple[str, int],
) -> Projection:
    """Return what the conversation's policy works on.

    `gone` is the summary, and how many messages are not shown.
    """
    reductions, (summary, omitted) = conversation.reductions, gone
    return Projection(
        blocks=(*history.blocks, *running),
        current=len(history.blocks),
        media=pictures.counts,
        changes=changes(reductions),
        omitted_messages=omitted,
        unsummarised=untold(conversation),
        summary=summary,
        note=reductions.note,
    )


def _scaled(
    statistics: ModelStatistics, forecast: Forecast, units: int, *, has_files: bool
) -> tuple[ModelStatistics, int]:
    """Return the scale that a request asks for, and what it is to be corrected by beside it."""
    if has_files:  # what images cost says nothing about words
        return statistics, round(forecast.tokens - statistics.scale * units / UNITS_PER_TOKEN)
    return replace(statistics, scale=session_scale(forecast.tokens, units)), 0


def _system_of(conversation: Conversation, spec: AgentSpec) -> tuple[str, CallOptions]:
    """Return the agent's prompt as it is for the turn that runs, and what its caller asks for."""
    current = conversation.current
    options = DEFAULT_OPTIONS if current is None else current.options
    at = None if current is None else current.started_at
    told = "\n\n".join(filter(None, (conversation.instructions, options.instructions)))
    return system_prompt(spec.prompt, instructions=told, at=at), options
