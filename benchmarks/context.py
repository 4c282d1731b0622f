"""What each context policy costs and keeps, over long conversations made here. No model, no disk.

.venv/bin/python benchmarks/context.py [--turns 200] [--window 32000] [--policies everturn,jutul]

Three tables. The first: the time to render one request at 20, 200, 2,000 and 20,000 messages: cold
(nothing is known of any message), again (what single messages cost is known), next (one more turn,
rendered by who rendered the last one), in milliseconds. The second, over 200 turns with tools in a
window of 32,000 tokens: tokens sent in all requests, the share of each request that is the same
beginning as the request before, the same of those before which the provider's cache was not cold
(what it can serve), requests above the window, and
of all facts that were said, how many stand in the last request, and how many can be read back
because the request says how. Tokens are those of the default estimate, for all policies. Summaries
are the deterministic ones that stand where no model answers. The third: what these turns cost in
dollars by the price list that comes with the gateway, where the provider caches the beginning that
a request shares with the one before, but for each tenth turn, before which its cache is cold; what
the cache saved of that; and what it would cost if nothing were cached.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from harness import show

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.estimation.estimates import Estimates, message_units, text_units
from everturn_actors.context.estimation.window import window_messages
from everturn_actors.context.render import Renderer
from everturn_actors.context.rendered import Rendered
from everturn_actors.context.summaries import digest, summary_task
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.events import (
    Body,
    CallFinished,
    CallStarted,
    Event,
    ModelReplied,
    Received,
    SessionStarted,
    StepStarted,
    Summarised,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import (
    Conversation,
    ConversationKey,
    OpenTurn,
    Reply,
    Step,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Turn,
    Usage,
    UserMessage,
)
from everturn_actors.spec import AgentSpec, ContextSpec, ModelSpec, PromptSpec, SessionSpec
from everturn_actors.state.apply import apply
from everturn_actors.state.session_state import SessionState
from everturn_gateway.plugins import installed
from everturn_gateway.usage.price_table import ANTHROPIC, OPENAI
from everturn_gateway.usage.prices import NANODOLLARS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FACTS = ModelStatistics(scale=1.0, reports=3)
RECALL = ToolDefinition(name="recall_context", description="Read back.", parameters={})
SIZES = (20, 200, 2_000, 20_000)
POLICIES = {plugin.name: plugin.policy for plugin in installed().policies.all()}
REPLY_TOKENS = 100
COLD_TURNS = 10  # each so many turns come after a pause in which every cache was lost
PRICES = {
    "claude-sonnet-5": ANTHROPIC["claude-sonnet-5"],
    "gpt-5.4-mini": OPENAI["gpt-5.4-mini"],
}
FACT = re.compile(r"fact-\d{5}")
WORDS = ("the", "gateway", "keeps", "every", "message", "until", "it", "is", "answered")


def spec_of(policy: str, window: int) -> AgentSpec:
    """Return a plain agent with this policy."""
    return AgentSpec(
        name="bench",
        model=ModelSpec(
            provider="openai", name="bench", context_window=window, max_output_tokens=2_000
        ),
        prompt=PromptSpec(system_prompt="You are a benchmark. " * 20),
        session=SessionSpec(context=ContextSpec(policy=POLICIES[policy])),
    )


# --- time ---


def conversation(messages: int) -> Conversation:
    """Return a conversation of so many messages; a fifth of them are calls and results."""
    turns: list[Turn] = []
    seq = 0
    while seq < messages - 5:
        number = len(turns) + 1
        call = ToolCall(call_id=f"call_{number}", name="search", arguments='{"q": "gateway"}')
        users = (UserMessage(seq=seq + 1, text=f"question {number}: " + "word " * 20),)
        steps = [
            Step(
                reply=Reply(seq=seq + 2, text="let me look", calls=(call,)),
                results=(
                    ToolResult(
                        seq=seq + 3,
                        call_id=call.call_id,
                        name="search",
                        text=f"line {number} of many\n" * 20,
                    ),
                ),
            ),
            Step(reply=Reply(seq=seq + 4, text="answer " * 40)),
        ]
        turns.append(Turn(number=number, users=users, steps=tuple(steps)))
        seq += 4
    current = OpenTurn(
        number=len(turns) + 1,
        users=(UserMessage(seq=seq + 1, text="and now?"),),
        started_at=NOW,
    )
    return Conversation(
        turns=tuple(turns), current=current, window_messages=10 * messages, counted_messages=seq + 1
    )


def longer(before: Conversation) -> Conversation:
    """Return the conversation one turn later."""
    current = before.current
    assert current is not None
    seq = current.users[0].seq
    done = Turn(
        number=current.number,
        users=current.users,
        steps=(Step(reply=Reply(seq=seq + 1, text="now")),),
    )
    return Conversation(
        turns=(*before.turns, done),
        current=OpenTurn(
            number=current.number + 1,
            users=(UserMessage(seq=seq + 2, text="and then?"),),
            started_at=NOW,
        ),
        window_messages=before.window_messages,
        reductions=before.reductions,
        counted_messages=(before.counted_messages or 0) + 2,
    )


def prepare(renderer: Renderer, what: Conversation, spec: AgentSpec) -> float:
    """Do what is done before each model call; return the milliseconds that took."""
    begun = time.perf_counter()
    hidden = renderer.reduce(what, spec, (RECALL,), FACTS)
    renderer.render(what, spec, (RECALL,), FACTS)
    took = (time.perf_counter() - begun) * 1000
    assert not hidden, "the window is large enough"
    return took


def timed(policy: str, messages: int) -> list[float]:
    """Return the best of five: cold, again, next."""
    spec = spec_of(policy, 100_000_000)
    rows: list[tuple[float, float, float]] = []
    for _ in range(5):
        what, renderer = conversation(messages), Renderer()
        cold = prepare(Renderer(), what, spec)
        again = prepare(renderer, what, spec)
        rows.append((cold, again, prepare(renderer, longer(what), spec)))
    return [min(column) for column in zip(*rows, strict=True)]


# --- what is sent, and what is kept ---


@dataclass(slots=True)
class Simulated:
    """One conversation under one policy, as the actor of a session would carry it."""

    spec: AgentSpec
    renderer: Renderer = field(default_factory=Renderer)
    state: SessionState | None = None
    now: datetime = NOW
    sent_tokens: int = 0
    requests: int = 0
    kept_tokens: int = 0
    "Of all requests but the first: the same beginning as the request before."
    comparable_tokens: int = 0
    warm_tokens: int = 0
    "The same of requests whose cache is not cold: of those before them."
    served_tokens: int = 0
    "What of it their beginning shares."
    too_large: int = 0
    refused: int = 0
    last: Rendered | None = None
    is_cold: bool = False
    "Whether the provider has forgotten the request before: more time went by than it caches for."
    usages: list[Usage] = field(default_factory=list[Usage])
    "Of each request, as a provider with a cache would report it."

    @property
    def known(self) -> SessionState:
        """The present state."""
        assert self.state is not None
        return self.state

    def record(self, *bodies: Body) -> None:
        """Apply events."""
        for body in bodies:
            self.now += timedelta(seconds=1)
            seq = 1 if self.state is None else self.state.last_seq + 1
            self.state = apply(self.state, Event(seq=seq, at=self.now, body=body))

    def call(self) -> Rendered | None:
        """Make the request of the open step; None where none fits."""
        self.record(
            StepStarted(
                turn=self.known.turns,
                step=len(self.known.open_turn.steps) + 1 if self.known.open_turn else 1,
                model="bench",
            )
        )
        try:
            self.record(*self.renderer.reduce(self.known.conversation, self.spec, (RECALL,), FACTS))
            made = self.renderer.render(self.known.conversation, self.spec, (RECALL,), FACTS)
        except ContextDoesNotFitError:
            self.refused += 1
            return None
        self.count(made)
        return made

    def count(self, made: Rendered) -> None:
        """Add a request to the sums."""
        tokens = Estimates(1.0).tokens(made.fingerprint.units)
        self.requests += 1
        self.sent_tokens += tokens
        self.too_large += tokens + made.budget.reserve_tokens > made.budget.window_tokens
        shared = 0 if self.last is None else shared_tokens(self.last, made)
        cached = 0 if self.is_cold else shared
        if self.last is not None:
            before = Estimates(1.0).tokens(self.last.fingerprint.units)
            self.comparable_tokens += before
            self.kept_tokens += shared
            self.warm_tokens += 0 if self.is_cold else before
            self.served_tokens += cached
        self.is_cold = False
        self.usages.append(
            Usage(
                input_tokens=tokens,
                output_tokens=REPLY_TOKENS,
                cached_tokens=cached,
                cache_written_tokens=tokens - cached,
            )
        )
        self.last = made

    def answer(self, turn: int, made: random.Random, text: Callable[[int], str]) -> bool:
        """Carry a turn to its last reply; whether every request of it fitted."""
        for step in range(made.choice((0, 0, 1, 1, 2, 6))):
            rendered = self.call()
            if rendered is None:
                return False
            call = ToolCall(
                call_id=f"call_{turn}_{step}",
                name="read_page",
                arguments=json.dumps({"text": text(made.choice((3, 3, 3, 400)))}),
            )
            whole = "\n".join(text(20) for _ in range(made.choice((1, 3, 10, 40, 400))))
            result = ToolResult(call_id=call.call_id, name=call.name, text=whole)
            path = f"{turn}-{step}-1.txt"
            short = self.renderer.shorten_result(self.spec, (RECALL,), FACTS, result, path)
            self.record(
                ModelReplied(
                    text="", calls=(call,), fingerprint=rendered.fingerprint, usage=usage(rendered)
                ),
                CallStarted(call_id=call.call_id),
                CallFinished(call_id=call.call_id, text=short, path=path if short != whole else ""),
            )
        rendered = self.call()
        if rendered is None:
            return False
        words = made.randint(10, 200)
        self.record(
            ModelReplied(text=text(words), fingerprint=rendered.fingerprint, usage=usage(rendered))
        )
        return True

    def summarise(self, *, is_cold: bool = False) -> None:
        """Do what happens after a turn, or when a conversation rests."""
        conversation = self.known.conversation
        older = self.renderer.older_turns(
            conversation, self.spec, (RECALL,), FACTS, is_cold=is_cold
        )
        task = summary_task(conversation, older_turns=older) if older else None
        if task is not None:
            self.record(
                Summarised(
                    last_turn=task.last_turn,
                    messages=task.messages,
                    text=digest(task),
                    source="digest",
                )
            )


def shared_tokens(one: Rendered, two: Rendered) -> int:
    """Return the tokens of the longest beginning that two requests share."""
    if one.request.system != two.request.system:
        pairs = enumerate(zip(one.request.system, two.request.system, strict=False))
        end = next((at for at, (a, b) in pairs if a != b), 0)
        return Estimates(1.0).tokens(text_units(one.request.system[:end]))
    units = text_units(one.request.system)
    for a, b in zip(one.request.messages, two.request.messages, strict=False):
        if a is not b and a != b:
            break
        units += message_units(a)
    return Estimates(1.0).tokens(units)


def carried(policy: str, turns: int, window: int) -> tuple[Simulated, set[str]]:
    """Return a conversation of so many turns under a policy, and all facts that were said in it."""
    made = random.Random(20261122)  # noqa: S311 - the same texts each time
    said: set[str] = set()
    facts: Iterator[str] = (f"fact-{number:05}" for number in range(100_000))
    spec = spec_of(policy, window)
    key = ConversationKey(channel="bench", chat="bench", agent="bench")
    chat = Simulated(spec)
    chat.record(SessionStarted(session_id="20260101T000000000-00000000", key=key))

    def text(words: int) -> str:
        fact = next(facts)
        said.add(fact)
        return " ".join([*made.choices(WORDS, k=words), fact])

    for turn in range(1, turns + 1):
        chat.is_cold = turn % COLD_TURNS == 1
        if chat.is_cold and turn > 1:
            chat.summarise(is_cold=True)
        chat.record(
            Received(text=text(made.randint(5, 60))),
            TurnStarted(
                turn=turn,
                received=(chat.known.last_seq + 1,),
                window_messages=window_messages(window),
            ),
        )
        if chat.answer(turn, made, text):
            chat.record(TurnFinished(turn=turn, outcome="answered"))
        else:
            chat.record(TurnFinished(turn=turn, outcome="failed", error="too large"))
        chat.summarise()
    return chat, said


def usage(rendered: Rendered) -> Usage:
    """Return what a provider with the tokenizer of the estimate would report."""
    return Usage(input_tokens=Estimates(1.0).tokens(rendered.fingerprint.units), output_tokens=100)


def found(made: Rendered | None) -> set[str]:
    """Return the facts that stand in a request."""
    if made is None:
        return set()
    texts = [made.request.system]
    for message in made.request.messages:
        texts.append(message.text)
        if isinstance(message, Reply):
            texts += [call.arguments for call in message.calls]
    return set(FACT.findall("\n".join(texts)))


def says_how(made: Rendered | None) -> bool:
    """Whether a request tells how to read back what is hidden."""
    if made is None:
        return False
    texts = [made.request.system, *(message.text for message in made.request.messages)]
    return any("recall_context" in text for text in texts)


def dollars(policy: str, chat: Simulated) -> Iterator[tuple[str, ...]]:
    """Yield what a conversation costs with each model, and what a cache saves of it."""
    for model, price in PRICES.items():
        cost = sum(map(price.nanodollars, chat.usages)) / NANODOLLARS
        plain = (
            Usage(input_tokens=each.input_tokens, output_tokens=each.output_tokens)
            for each in chat.usages
        )
        without = sum(map(price.nanodollars, plain)) / NANODOLLARS
        yield policy, model, f"{cost:.2f}", f"{1 - cost / without:.0%}", f"{without:.2f}"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--policies", default=",".join(POLICIES))
    options = parser.parse_args()
    policies: Sequence[str] = options.policies.split(",")
    times = [
        (name, f"{messages:,}", *(f"{took:.3f}" for took in timed(name, messages)))
        for name in policies
        for messages in SIZES
    ]
    show("render, ms", ("policy", "messages", "cold", "again", "next"), times)
    rows: list[tuple[str, ...]] = []
    chats: list[tuple[str, Simulated]] = []
    for name in policies:
        chat, said = carried(name, options.turns, options.window)
        chats.append((name, chat))
        visible = found(chat.last) & said
        recallable = len(said) if says_how(chat.last) else len(visible)
        rows.append(
            (
                name,
                f"{chat.requests:,}",
                f"{chat.sent_tokens:,}",
                f"{chat.kept_tokens / max(chat.comparable_tokens, 1):.1%}",
                f"{chat.served_tokens / max(chat.warm_tokens, 1):.1%}",
                str(chat.too_large),
                str(chat.refused),
                str(chat.known.cache_misses),
                f"{len(visible) / len(said):.1%}",
                f"{recallable / len(said):.1%}",
            )
        )
    costs = [cost for name, chat in chats for cost in dollars(name, chat)]
    head = (
        "policy",
        "requests",
        "tokens sent",
        "prefix kept",
        "while warm",
        "too large",
        "refused",
        "cache_misses",
        "facts visible",
        "visible or recallable",
    )
    show(f"{options.turns} turns in a window of {options.window:,}", head, rows)
    show("dollars", ("policy", "model", "cost", "saved by the cache", "without a cache"), costs)


if __name__ == "__main__":
    main()
