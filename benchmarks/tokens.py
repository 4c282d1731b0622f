"""How well tokens are counted: prompts predicted, windows used, requests refused. The bars beside.

    pip install bpe-openai           # o200k and cl100k; with Python 3.12 also: ctok (Claude's)
    PYTHONPATH=actors python benchmarks/tokens.py [--calls 25000] [--kinds english,sql]
        [--tokenizer NAME=tokenizer.json ...]      # more of them; needs: pip install tokenizers

Conversations of 44 kinds of text are carried on call by call, with tool results in between, as a
session does it: what has to be hidden is hidden before each call, the tokenizer counts the request,
and one that is larger than the window is refused, as providers refuse: with its size and the
window, with the window alone, or without a number. Windows are of 4,096, 16,384 and 65,536 tokens.
What is learnt of a model stays from one conversation to the next; each tokenizer and window begins
with nothing.

- first: the error of the first call of a new session of a known model; next: that of all calls from
  the fourth on; both p95, in percent of the prompt.
- in use: the share of the window that was really taken, the reply's reserve included, when turns of
  the history had to leave; the least of all kinds of text, each by the middle of its drops.
- refused, failed: of all calls.
- paste: what of a small history is still shown after a paste of six times the window.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from statistics import median

from figures import Figure, show_figures
from harness import show
from kinds import KINDS
from texts import Maker, code, logs, records

from everturn_actors.context.estimation.calibration import ModelStatistics, prior_statistics
from everturn_actors.context.estimation.window import window_messages
from everturn_actors.context.model_stats.refusals import Refusals
from everturn_actors.context.model_stats.reports import (
    as_priced,
    observed_in_refusal,
    observed_in_reply,
    observed_in_unnamed,
)
from everturn_actors.context.render import Renderer
from everturn_actors.context.rendered import Rendered
from everturn_actors.errors import ContextOverflowError
from everturn_actors.events import (
    Body,
    CallFinished,
    CallStarted,
    ContextReduced,
    Event,
    ModelReplied,
    Received,
    SessionStarted,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import (
    AnyMessage,
    ConversationKey,
    ModelRequest,
    Notice,
    Reply,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Usage,
    UserMessage,
)
from everturn_actors.spec import AgentSpec, ModelSpec, PromptSpec
from everturn_actors.state.apply import apply
from everturn_actors.state.session_state import SessionState

Count = Callable[[str], int]
WINDOWS = (4_096, 16_384, 65_536)
KNOWN_CALLS = 3  # of a session; from then on its next calls are measured
KNOWN_SESSIONS = 44  # of a model
PIECE_CHARACTERS = 50_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOOLS = tuple(
    ToolDefinition(
        name=name,
        description=f"{does}. Use it only where the answer cannot be given without it.",
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Relative to the workspace."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 500},
            },
            "required": ["path"],
        },
    )
    for name, does in (
        ("read_file", "Reads a text file"),
        ("search", "Finds lines that match an expression"),
        ("query", "Returns records of a table as JSON"),
    )
)
SYSTEM = (
    "You are a helpful assistant in a small company. Answer in the language of the question, be"
    " brief, say what you do not know, and never invent numbers. Use tools where they help."
)


@dataclass(slots=True)
class Measured:
    """What was seen with one tokenizer."""

    first: list[float] = field(default_factory=list[float])
    "Errors in percent of the prompt."
    following: list[float] = field(default_factory=list[float])
    in_use: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    "By kind of text, for each drop of history."
    calls: int = 0
    refused: int = 0
    failed: int = 0


@dataclass(slots=True)
class Session:
    """One conversation with a model behind a hard window."""

    spec: AgentSpec
    count: Count
    kind: str
    seen: Measured
    statistics: ModelStatistics
    refuses: int = 0
    "Which numbers its provider names: 0 = both, 1 = the window, 2 = none."
    is_known: bool = True
    renderer: Renderer = field(default_factory=Renderer)
    state: SessionState | None = None
    now: datetime = NOW
    calls: int = 0

    def __post_init__(self) -> None:
        key = ConversationKey(channel="bench", chat="bench", agent="bench")
        self.record(SessionStarted(session_id="20260101T000000000-00000000", key=key))

    @property
    def known(self) -> SessionState:
        """The present state."""
        assert self.state is not None
        return self.state

    @property
    def window(self) -> int:
        """What the provider takes."""
        assert self.spec.model.context_window is not None
        return self.spec.model.context_window

    def record(self, *bodies: Body) -> None:
        """Apply events."""
        for body in bodies:
            self.now += timedelta(seconds=1)
            seq = 1 if self.state is None else self.state.last_seq + 1
            self.state = apply(self.state, Event(seq=seq, at=self.now, body=body))

    def begin(self, text: str) -> None:
        """Begin a turn with a question."""
        number, held = self.known.turns + 1, window_messages(self.window)
        self.record(Received(text=text))
        seqs = (self.known.last_seq,)
        self.record(TurnStarted(turn=number, received=seqs, window_messages=held))

    def size(self, request: ModelRequest) -> int:
        """Return what the tokenizer needs for a request, and its chat template."""
        schemas = [{"name": t.name, "description": t.description, **t.parameters} for t in TOOLS]
        fixed = self.count(request.system) + self.count(json.dumps(schemas)) + 40
        return fixed + sum(4 + self.pieces(rendered(message)) for message in request.messages)

    def pieces(self, text: str) -> int:
        """Return the tokens of a text of any length: some tokenizers refuse very long ones."""
        if len(text) <= PIECE_CHARACTERS:
            return self.count(text)
        starts = range(0, len(text), PIECE_CHARACTERS)
        return sum(self.count(text[start : start + PIECE_CHARACTERS]) for start in starts)

    def call(self) -> Rendered | None:
        """Make the request of the next step, as a turn does; None where the call failed."""
        turn = self.known.open_turn
        step = len(turn.steps) + 1 if turn else 1
        self.record(StepStarted(turn=self.known.turns, step=step, model="bench"))
        made, refusals = self._prepared(), Refusals()
        self.calls += 1
        self.seen.calls += 1
        while (tokens := self.size(made.request)) > self.window:
            self.seen.refused += not refusals.times
            error = ContextOverflowError(
                window_tokens=self.window if self.refuses < 2 else None,
                prompt_tokens=tokens if not self.refuses else None,
            )
            self.statistics = observed_in_refusal(self.statistics, made, error, self.now)
            most = refusals.add(made, error)
            known = self.known.conversation, self.spec, TOOLS, self.statistics
            hidden = self.renderer.shrink(*known, most_units=most)
            if hidden is None:
                self.seen.failed += 1
                return None
            self.record(hidden[0])
            made = self._prepared()
        self._learn(made, tokens, refusals)
        return made

    def _prepared(self) -> Rendered:
        known = self.spec, TOOLS, self.statistics
        before = self.renderer.render(self.known.conversation, *known)
        hidden = self.renderer.reduce(self.known.conversation, *known)
        if any(isinstance(b, ContextReduced) and b.stage == "trim_turns" for b in hidden):
            taken = self.size(before.request) + before.budget.reserve_tokens
            self.seen.in_use[self.kind].append(min(taken / self.window, 1))
        self.record(*hidden)
        return self.renderer.render(self.known.conversation, *known)

    def _learn(self, made: Rendered, tokens: int, refusals: Refusals) -> None:
        error = 100 * abs(made.tokens - tokens) / tokens
        if self.calls == 1 and self.is_known:
            self.seen.first.append(error)
        elif self.calls > KNOWN_CALLS:
            self.seen.following.append(error)
        reply = Reply(usage=Usage(input_tokens=tokens))
        before = self.known.fingerprint, self.known.reported
        self.statistics = observed_in_reply(self.statistics, made, reply, before)
        if refusals.times:
            model, when = self.spec.model, (refusals, self.now)
            self.statistics = observed_in_unnamed(self.statistics, model, made, reply, when)

    def answer(self, reply: Reply, results: tuple[ToolResult, ...], made: Rendered) -> None:
        """Log the reply to a request, with what its calls gave."""
        usage = Usage(
            input_tokens=self.size(made.request), output_tokens=4 + self.count(rendered(reply))
        )
        fingerprint = as_priced(made, self.statistics)
        self.record(
            ModelReplied(text=reply.text, calls=reply.calls, usage=usage, fingerprint=fingerprint)
        )
        for result in results:
            path = f"{self.known.turns}-{self.calls}-1.txt"
            text = self.renderer.shorten_result(self.spec, TOOLS, self.statistics, result, path)
            kept = path if text != result.text else ""
            self.record(
                CallStarted(call_id=result.call_id),
                CallFinished(call_id=result.call_id, text=text, path=kept),
            )

    def play(self, make: Maker, rng: random.Random, calls: int) -> None:
        """Carry the conversation on for so many calls."""
        until = self.calls + calls
        while self.calls < until:
            self.begin(make(rng, rng.choice((20, 80, 300))))
            outcome = "answered" if self._turn(make, rng) else "failed"
            self.record(TurnFinished(turn=self.known.turns, outcome=outcome))

    def _turn(self, make: Maker, rng: random.Random) -> bool:
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
            if (made := self.call()) is None:
                return False
            path = f"{rng.choice(('src', 'docs', 'data'))}/{rng.randrange(1000)}.txt"
            arguments = json.dumps({"path": path, "limit": rng.randrange(1, 500)})
            tool = rng.choice(("read_file", "search", "query"))
            asked = ToolCall(call_id=f"call_{self.calls}", name=tool, arguments=arguments)
            give = rng.choice((make, make, make, records, logs, code))
            text = give(rng, rng.choice((40, 300, 1_500, 6_000)))
            result = ToolResult(call_id=asked.call_id, name=tool, text=text)
            self.answer(Reply(calls=(asked,)), (result,), made)
        if (made := self.call()) is None:
            return False
        self.answer(Reply(text=make(rng, rng.choice((60, 400, 1_500)))), (), made)
        return True


def spec_of(model: str, window: int) -> AgentSpec:
    """Return a plain agent."""
    return AgentSpec(
        name="bench",
        model=ModelSpec(provider="openai", name=model, context_window=window),
        prompt=PromptSpec(system_prompt=SYSTEM),
    )


def tokenizers(files: list[str]) -> Iterator[tuple[str, str, Count]]:
    """Yield name, a model's name for it, and the count of each tokenizer that is installed."""
    import bpe_openai  # noqa: PLC0415 - only here

    for name, model in (("o200k", "gpt-4o"), ("cl100k", "gpt-4")):
        encoding = bpe_openai.get_encoding(f"{name}_base")
        yield name, model, lambda text, encoding=encoding: len(encoding.encode_ordinary(text))
    try:
        import ctok  # noqa: PLC0415
    except ImportError:
        pass
    else:
        frame = ctok.token_count("")
        for version, model in (("3.0", "claude-sonnet-4"), ("4.7", "claude-opus-4-7")):
            yield (
                f"claude{version}",
                model,
                lambda text, version=version: ctok.token_count(text, version) - frame,
            )
    for each in files:
        import tokenizers as library  # noqa: PLC0415

        name, _, file = each.partition("=")
        loaded = library.Tokenizer.from_file(file)
        yield (
            name,
            name,
            lambda text, loaded=loaded: len(loaded.encode(text, add_special_tokens=False).ids),
        )


def rendered(message: AnyMessage) -> str:
    """Return the text that a chat template makes of a message, without its four special tokens."""
    match message:
        case UserMessage(text=text) | Notice(text=text):
            return text
        case ToolResult(text=text):
            return f"<tool_response>\n{text}\n</tool_response>"
        case Reply(text=text, calls=calls):
            made = (f'{{"name": "{call.name}", "arguments": {call.arguments}}}' for call in calls)
            return "\n".join((text, *(f"<tool_call>\n{each}\n</tool_call>" for each in made)))


def carried(count: Count, model: str, kinds: list[str], calls: int) -> Measured:
    """Return what was seen with one tokenizer in so many calls of a session of each kind."""
    seen = Measured()
    for window in WINDOWS:
        statistics, rng = prior_statistics(model), random.Random(window)  # noqa: S311 - texts
        order = [*kinds, *rng.sample(kinds, len(kinds))]
        for number, kind in enumerate(order):
            session = Session(
                spec_of(model, window), count, kind, seen, statistics, number % 3,
                is_known=number >= len(kinds),
            )  # fmt: skip
            session.play(KINDS[kind], rng, calls)
            statistics = session.statistics
    return seen


def pasted(count: Count, model: str, window: int = 16_384) -> float:
    """Return the least share of a small history that a paste of six times the window leaves."""
    rng, shares = random.Random(0), list[float]()  # noqa: S311 - texts
    for kind, make in KINDS.items():
        session = Session(
            spec_of(model, window), count, kind, Measured(), prior_statistics(model), 0
        )
        for _ in range(10):
            session.begin(KINDS["english"](rng, 100))
            made = session.call()
            assert made is not None
            session.answer(Reply(text=KINDS["english"](rng, 200)), (), made)
            session.record(TurnFinished(turn=session.known.turns, outcome="answered"))
        held = len(
            session.renderer.render(session.known.conversation, session.spec).request.messages
        )
        piece = make(rng, window)
        session.begin(piece * (-(-6 * window // count(piece)) + 1))
        made = session.call()
        shown = 0 if made is None else len(made.request.messages) - 1
        shares.append(100 * shown / held)
    return min(shares)


def percentile(errors: list[float], share: float) -> float:
    """Return what so many of the errors stay below; 0 where there are none."""
    return sorted(errors)[int(len(errors) * share)] if errors else 0.0


def least_in_use(seen: Measured) -> tuple[float, str]:
    """Return the kind of text that fills its windows least, and how far; in percent."""
    by_kind = [(100 * median(shares), kind) for kind, shares in seen.in_use.items() if shares]
    return min(by_kind, default=(100.0, "none was dropped"))


def main() -> None:
    """Print a table for all tokenizers, and the bars."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--calls", type=int, default=25_000, help="of all sessions together")
    options.add_argument("--kinds", default=",".join(KINDS))
    options.add_argument("--tokenizer", action="append", default=[], metavar="NAME=FILE")
    given = options.parse_args()
    kinds, counts = given.kinds.split(","), list(tokenizers(given.tokenizer))
    each = -(-given.calls // (len(counts) * len(WINDOWS) * 2 * len(kinds)))
    rows: list[tuple[str, ...]] = []
    found: list[tuple[Measured, float]] = []
    for name, model, uncached in counts:
        count = cache(uncached)
        seen, paste = carried(count, model, kinds, each), pasted(count, model)
        found.append((seen, paste))
        used, kind = least_in_use(seen)
        rows.append(
            (name, f"{percentile(seen.first, 0.95):.1f}", f"{percentile(seen.following, 0.95):.2f}",
             f"{used:.1f} ({kind})", f"{seen.calls:,}", str(seen.refused), str(seen.failed),
             f"{paste:.0f}")
        )  # fmt: skip
        print(*rows[-1], flush=True)
    head = ("tokenizer", "first", "next", "in use, %", "calls", "refused", "failed", "paste, %")
    show("tokens", head, rows)
    all_seen = [seen for seen, _ in found]
    calls = sum(seen.calls for seen in all_seen)
    first, following = (
        [e for s in all_seen for e in s.first],
        [e for s in all_seen for e in s.following],
    )
    refused = 100 * sum(seen.refused for seen in all_seen) / max(calls, 1)
    failed = sum(seen.failed for seen in all_seen)
    used, paste = min(least_in_use(s)[0] for s in all_seen), min(paste for _, paste in found)
    bars = (
        ("first call of a session, p95", percentile(first, 0.95), "%", 15.0, False),
        ("from the fourth call on, p95", percentile(following, 0.95), "%", 3.0, False),
        ("window in use when history is dropped, least kind", used, "%", 85.0, True),
        ("refused", refused, "%", 0.05, False),
        ("failed", failed, "calls", 0.0, False),
        ("small history shown after a paste, least", paste, "%", 90.0, True),
    )
    show_figures(
        f"{len(kinds)} kinds of text, {len(counts)} tokenizers, {calls:,} calls",
        [
            Figure(what=what, value=value, unit=unit, bar=bar, is_least=least)
            for what, value, unit, bar, least in bars
        ],
    )


if __name__ == "__main__":
    main()
