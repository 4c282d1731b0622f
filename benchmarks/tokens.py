"""How well the next prompt's size is predicted, against real tokenizers.

    pip install bpe-openai           # o200k and cl100k; with Python 3.12 also: ctok (Claude's)
    PYTHONPATH=actors python benchmarks/tokens.py [--conversations 8] [--turns 30]
        [--tokenizer NAME=tokenizer.json ...]      # more of them; needs: pip install tokenizers

Conversations of each kind of text are carried on call by call, with tool results in between. Before
each call the tokens of the prompt are predicted as a session does it; then the tokenizer says what
they are, which is the provider's report. Shown is the error in percent of the prompt, p50 / p95.

- alone: a model of which nothing is known but its name, in one conversation. `first` is the error
  of its first call, `next` that of all calls after the third report, `cut` that of the same calls
  where the older half of the history has just left.
- together: one memory of the model for conversations of all kinds, in turns; `first` is the error
  of the first call of each conversation.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from texts import TEXTS, Maker, code, logs, records

from everturn_actors.context.estimation.calibration import (
    ModelStatistics,
    correction_tokens,
    learn,
    prior_statistics,
    session_scale,
)
from everturn_actors.context.estimation.estimates import (
    Estimates,
    message_units,
    text_units,
    tools_units,
)
from everturn_actors.model import (
    AnyMessage,
    Notice,
    Reply,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UserMessage,
)

Count = Callable[[str], int]
KNOWN_REPORTS = 3  # from then on the goal holds
GOAL_PERCENT = 5.0
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
class Errors:
    """Relative errors in percent; positive = predicted too much."""

    first: list[float] = field(default_factory=list[float])
    following: list[float] = field(default_factory=list[float])
    cut: list[float] = field(default_factory=list[float])


@dataclass(slots=True)
class Conversation:
    """One conversation with a model, and what its session knows of it."""

    news: Iterator[list[AnyMessage]]
    count: Count
    errors: Errors
    units: list[int] = field(default_factory=list[int])
    "Of system prompt and tools, then of each message."
    tokens: list[int] = field(default_factory=list[int])
    calls: int = 0
    sent_units: int = 0
    reported_tokens: int = 0

    def __post_init__(self) -> None:
        schemas = [{"name": t.name, "description": t.description, **t.parameters} for t in TOOLS]
        self.units.append(text_units(SYSTEM) + tools_units(TOOLS))
        self.tokens.append(self.count(SYSTEM) + self.count(json.dumps(schemas)) + 40)

    def call(self, facts: ModelStatistics) -> ModelStatistics | None:
        """Make the next call; return what is known of the model then, None at the end."""
        new = next(self.news, None)
        if new is None:
            return None
        self.units += map(message_units, new)
        self.tokens += (4 + self.count(rendered(message)) for message in new)
        units, tokens = sum(self.units), sum(self.tokens)
        self._predict(facts, units, tokens)
        before_units, before_tokens = self.sent_units, self.reported_tokens
        self.calls, self.sent_units, self.reported_tokens = self.calls + 1, units, tokens
        return learn(facts, units=units - before_units, tokens=tokens - before_tokens)

    def _predict(self, facts: ModelStatistics, units: int, tokens: int) -> None:
        sent, reported = self.sent_units, self.reported_tokens
        scale = session_scale(facts, sent_units=sent, reported_tokens=reported)
        correction = correction_tokens(
            facts, sent_units=sent, reported_tokens=reported, now_units=units
        )
        predicted = Estimates(facts.scale).tokens(units) + correction
        error = 100 * (predicted - tokens) / tokens
        if not self.calls:
            self.errors.first.append(error)
        elif self.calls >= KNOWN_REPORTS:
            self.errors.following.append(error)
            gone = slice(1, len(self.units) // 2)
            tokens -= sum(self.tokens[gone])
            predicted = Estimates(scale).tokens(units - sum(self.units[gone]))
            self.errors.cut.append(100 * (predicted - tokens) / tokens)


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


def conversation(rng: random.Random, make: Maker, turns: int) -> Iterator[list[AnyMessage]]:
    """Yield what each model call has more than the call before, the last reply included."""
    news: list[AnyMessage] = []
    for turn in range(turns):
        news.append(UserMessage(text=make(rng, rng.choice((20, 80, 300)))))
        yield news
        news = []
        for step in range(rng.choice((0, 0, 1, 1, 2, 3))):
            call_id = f"call_{turn}_{step}"
            path = f"{rng.choice(('src', 'docs', 'data'))}/{rng.randrange(1000)}.txt"
            arguments = json.dumps({"path": path, "limit": rng.randrange(1, 500)})
            tool = rng.choice(("read_file", "search", "query"))
            give = rng.choice((make, make, make, records, logs, code))
            size_chars = rng.choice((40, 300, 1500, 6000))
            yield [
                Reply(calls=(ToolCall(call_id=call_id, name=tool, arguments=arguments),)),
                ToolResult(call_id=call_id, name=tool, text=give(rng, size_chars)),
            ]
        news = [Reply(text=make(rng, rng.choice((60, 400, 1500))))]


def alone(count: Count, model: str, make: Maker, given: argparse.Namespace) -> Errors:
    """Carry conversations of one kind on, each with a model that nothing is known of."""
    errors = Errors()
    for seed in range(given.conversations):
        news = conversation(random.Random(seed), make, given.turns)  # noqa: S311 - texts
        one, facts = Conversation(news, count, errors), prior_statistics(model)
        while (learnt := one.call(facts)) is not None:
            facts = learnt
    return errors


def together(count: Count, model: str, given: argparse.Namespace) -> dict[str, Errors]:
    """Carry conversations of all kinds on by turns, with what is known of one model."""
    errors = {kind: Errors() for kind in KINDS}
    going = [
        Conversation(
            conversation(random.Random(seed), make, given.turns),  # noqa: S311 - texts
            count,
            errors[kind],
        )
        for kind, make in KINDS.items()
        for seed in range(given.conversations)
    ]
    rng, facts = random.Random(0), prior_statistics(model)  # noqa: S311 - texts
    while going:
        one = rng.choice(going)
        learnt = one.call(facts)
        facts = learnt or facts
        if learnt is None:
            going.remove(one)
    return errors


def percentile(errors: list[float], share: float) -> float:
    """Return what so many of the errors stay below, signs left out."""
    return sorted(map(abs, errors))[int(len(errors) * share)]


def _shown(errors: Errors) -> str:
    columns = (errors.first, errors.following, errors.cut)
    return "".join(f"{percentile(e, 0.5):7.1f} /{percentile(e, 0.95):5.1f}" for e in columns)


def mixed(rng: random.Random, size_chars: int) -> str:
    """Return a text of any kind."""
    return rng.choice(list(TEXTS.values()))(rng, size_chars)


KINDS = {**TEXTS, "mixed": mixed}


def main() -> None:
    """Print a table for each tokenizer."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--conversations", type=int, default=8, help="of each kind")
    options.add_argument("--turns", type=int, default=30)
    options.add_argument("--tokenizer", action="append", default=[], metavar="NAME=FILE")
    given = options.parse_args()
    missed: list[str] = []
    for name, model, uncached in tokenizers(given.tokenizer):
        count = cache(uncached)
        heads = "".join(f"{head:>14}" for head in ("first", "next", "cut") * 2)
        print(f"\n{name:10}{'alone':>14}{'together':>42}\n{'':10}{heads}")
        shared = together(count, model, given)
        for kind, make in KINDS.items():
            own = alone(count, model, make, given)
            print(f"{kind:10}{_shown(own)}{_shown(shared[kind])}")
            worst = max(percentile(each.following, 0.95) for each in (own, shared[kind]))
            missed += [f"{name}/{kind}"] if worst > GOAL_PERCENT else []
    print(
        f"\ngoal (p95 of next at most {GOAL_PERCENT:g} %) missed by: {', '.join(missed) or 'none'}"
    )


if __name__ == "__main__":
    main()
