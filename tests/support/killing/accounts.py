"""What has become of a world: its logs and chats in a form that two runs can be compared in.

`audit` says what must never be so, whatever happened. `Account` is what was said and done without
numbers, times and ids. `compare` holds the account of a run that was killed against that of one
that was not, and says which of the documented differences it needed (docs/recovery.md).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

from everturn_actors.state.recovery import INTERRUPTED

Json: TypeAlias = dict[str, Any]
REPEAT: Final = "(This may be a repeat.)\n"
READERS: Final = frozenset({"read_file", "list_files", "search_files"})
"Tools that only read: after a kill they are run again."
FROM_GATEWAY: Final = "[From the gateway"
_HANDLE: Final = re.compile(r"\bp[0-9a-f]{10}\b")
_SECONDS: Final = re.compile(r"\b\d+\.\d+ s\b")
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_REPEATED: Final = re.compile(r"(\w)\1{9,}|(\w+ )\2{9,}|((?:\d+\n){9})(?:\d+\n){9,}")

Rule: TypeAlias = Literal[
    "interrupted", "repeated", "regrouped", "summary", "lost process", "closed"
]
"""A documented difference. interrupted: a call was closed as of unknown outcome. repeated: a
message of unknown outcome was sent once more, each time that it was. regrouped: a burst became two
turns, or what was to steer a turn came after it. summary: it was made after a later turn. lost
process: one whose start was cut short never began, and that was told, unless it was cut short
before it had a record. closed: the message of a question that was answered says no more than that
it is closed."""
CLOSED: Final = "This question is closed."
_SETTLED: Final = re.compile(r"\n\n(Allowed|Denied)[^\n]*\Z")
_QUESTION: Final = "May "


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What was said in one turn."""

    messages: tuple[str, ...]
    steps: tuple[Json, ...]
    "Each with `text`, `calls` and `results`."
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One conversation."""

    turns: tuple[Turn, ...]
    outbox: tuple[tuple[int, tuple[str, ...]], ...]
    "Of each thing that was pending: how many chunks it had, and what became of each."
    announced: tuple[str, ...]
    decided: tuple[str, ...]
    summaries: tuple[int, ...]
    "How far each summary reaches."
    hidden: tuple[str, ...]
    "The stage of each reduction."


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A whole world."""

    talks: Mapping[str, Talk]
    "By channel, chat and agent."
    chats: Mapping[str, tuple[str, ...]]
    "What the bot's messages in each chat say now, oldest first."
    witness: Mapping[str, int] = field(default_factory=dict[str, int])
    "How often each side effect happened."
    answers: tuple[str, ...] = ()
    "What HTTP clients were answered."
    runs: tuple[str, ...] = ()
    "How scheduled runs came out."
    unknown: int = 0
    "Chunks that were marked as of unknown outcome."
    is_lost: bool = False
    "Whether a process was told as lost."
    surplus: Mapping[str, int] = field(default_factory=dict[str, int])
    "By chat: the bot's messages there, less the chunks that the log knows as sent."


# --- what must never be so ---


def audit(logs: Mapping[str, Sequence[Json]], chats: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what is wrong with logs and chats, in words."""
    wrong: list[str] = []
    for name, log in logs.items():
        wrong += [f"{name}: {fault}" for fault in _faults(log)]
    for chat, texts in chats.items():
        most = _most_doubts(logs, chat)
        labelled = [text for text in texts if text.startswith(REPEAT)]
        times = Counter(labelled).items()
        doubled = [text for text, copies in times if copies > max(most, 1)]
        wrong += [f"{chat}: repeated more than it was in doubt: {t[:60]!r}" for t in doubled]
    return wrong


def _marks(logs: Mapping[str, Sequence[Json]], chat: str) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield which chunk of a chat was marked, and how."""
    for name, log in logs.items():
        if name.split("/")[1:2] == [chat]:
            marked = (event for event in log if event["type"] == "chunk_marked")
            yield from (((name, e["item"], e["chunk"]), e["mark"]) for e in marked)


def _most_doubts(logs: Mapping[str, Sequence[Json]], chat: str) -> int:
    """Return how often the chunk of a chat that was in doubt the most often was so."""
    doubts = Counter(chunk for chunk, mark in _marks(logs, chat) if mark == "unknown")
    return max(doubts.values(), default=0)


def _faults(log: Sequence[Json]) -> Iterator[str]:
    if [event["seq"] for event in log] != [*range(1, len(log) + 1)]:
        yield "the log has a hole"
    received = [event["seq"] for event in log if event["type"] == "received"]
    keys = Counter(e["idempotency_key"] for e in log if e.get("idempotency_key"))
    yield from (f"taken twice: {key}" for key, times in keys.items() if times > 1)
    kinds = {"turn_started", "steered", "discarded"}
    read = [seq for e in log if e["type"] in kinds for seq in e["received"]]
    if sorted(read) != received:
        yield f"received {received}, read {read}"
    if any(event["type"] == "discarded" for event in log):
        yield "a message was discarded"
    started = [e["turn"] for e in log if e["type"] == "turn_started"]
    finished = [e["turn"] for e in log if e["type"] == "turn_finished"]
    if not started == finished == [*range(1, len(started) + 1)]:
        yield f"turns begin {started} and end {finished}"
    yield from _call_faults(log)
    yield from _delivery_faults(log)


def _call_faults(log: Sequence[Json]) -> Iterator[str]:
    asked = [call for e in log if e["type"] == "model_replied" for call in e.get("calls", ())]
    names = {call["call_id"]: call["name"] for call in asked}
    results = [e["call_id"] for e in log if e["type"] == "call_finished"]
    if results != [call["call_id"] for call in asked]:
        yield f"calls {[*names]}, results {results}"
    begun = Counter(e["call_id"] for e in log if e["type"] == "call_started")
    for call_id, times in begun.items():
        if times > 1 and names.get(call_id) not in READERS:
            yield f"{names.get(call_id)} was begun {times} times"


def _delivery_faults(log: Sequence[Json]) -> Iterator[str]:
    outbox = {e["seq"] for e in log if e["type"] == "model_replied" and e.get("text")}
    delivers = any(e.get("delivers") for e in log if e["type"] == "turn_started")
    plans = {e["item"]: len(e["chunks"]) for e in log if e["type"] == "delivery_planned"}
    if delivers and not outbox <= plans.keys():
        yield f"never rendered: {sorted(outbox - plans.keys())}"
    if len(plans) != sum(e["type"] == "delivery_planned" for e in log):
        yield "something was rendered twice"
    marks: dict[tuple[int, int], list[str]] = {}
    for event in log:
        if event["type"] == "chunk_marked":
            marks.setdefault((event["item"], event["chunk"]), []).append(event["mark"])
    for item, count in plans.items():
        for chunk in range(count):
            seen = marks.get((item, chunk), [])
            name = f"chunk {chunk} of {item}"
            if not seen or seen[-1] not in {"sent", "closed"}:
                yield f"{name} ends as {seen}"
            if "sent" in seen and "sending" in seen[seen.index("sent") :]:
                yield f"{name} was sent again: {seen}"
            # Doubt stays pending: each comes of a sending of its own, and another one follows it.
            if any(after != "sending" for mark, after in pairwise(seen) if mark == "unknown"):
                yield f"{name} was in doubt and not sent again: {seen}"


# --- what was said and done ---


def account(
    logs: Mapping[str, Sequence[Json]],
    chats: Mapping[str, Sequence[str]],
    **more: Any,
) -> Account:
    """Return the account of logs and chats; `more` are fields of `Account`."""
    every = [event for log in logs.values() for event in log]
    return Account(
        talks={name: _talk(log) for name, log in logs.items()},
        chats={name: tuple(map(_plain, texts)) for name, texts in chats.items()},
        unknown=sum(e["type"] == "chunk_marked" and e["mark"] == "unknown" for e in every),
        surplus={name: len(texts) - _sent(logs, name) for name, texts in chats.items()},
        is_lost=any(e["type"] == "received" and ", lost" in e["text"] for e in every),
        **more,
    )


def _sent(logs: Mapping[str, Sequence[Json]], chat: str) -> int:
    """Return how many chunks are known to have been sent to a chat."""
    return len({chunk for chunk, mark in _marks(logs, chat) if mark == "sent"})


def _plain(text: str) -> str:
    """Return a text without what differs from run to run, and without what fills it."""
    text = _SECONDS.sub("some s", _HANDLE.sub("p-handle", _INSTANT.sub("then", text)))
    return _REPEATED.sub(r"\1\2\3...", text)


def _talk(log: Sequence[Json]) -> Talk:
    texts = {e["seq"]: _plain(e["text"]) for e in log if e["type"] == "received"}
    turns: list[Turn] = []
    messages: list[str] = []
    steps: list[Json] = []
    for event in log:
        match event["type"]:
            case "turn_started":
                messages, steps = [texts[seq] for seq in event["received"]], []
            case "steered":
                messages += [texts[seq] for seq in event["received"]]
            case "model_replied":
                calls = [[call["name"], call["arguments"]] for call in event.get("calls", ())]
                steps.append({"text": _plain(event["text"]), "calls": calls, "results": []})
            case "call_finished":
                steps[-1]["results"].append(_plain(event["text"]))
            case "turn_finished":
                done = Turn(messages=(*messages,), steps=(*steps,), outcome=event["outcome"])
                turns.append(done)
            case _:
                pass
    last: dict[tuple[int, int], str] = {}
    for event in log:
        if event["type"] == "chunk_marked":
            last[event["item"], event["chunk"]] = event["mark"]
    plans = sorted((e["item"], len(e["chunks"])) for e in log if e["type"] == "delivery_planned")
    return Talk(
        turns=tuple(turns),
        outbox=tuple((n, tuple(last.get((p, c), "") for c in range(n))) for p, n in plans),
        announced=tuple(e["text"] for e in log if e["type"] == "announced"),
        decided=tuple(e["decision"] for e in log if e["type"] == "approval_decided"),
        summaries=tuple(e["last_turn"] for e in log if e["type"] == "summarised"),
        hidden=tuple(e["stage"] for e in log if e["type"] == "context_reduced"),
    )


# --- comparing ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How two accounts stand to each other."""

    rules: tuple[Rule, ...] = ()
    "The documented differences that there are."
    difference: str = ""
    "What is left; empty = nothing."


def compare(expected: Account, got: Account, allowed: frozenset[Rule]) -> Comparison:
    """Hold the account of a run that was killed against that of one that was not."""
    for chat, surplus in got.surplus.items():
        more = surplus - expected.surplus.get(chat, 0)
        if not 0 <= more <= got.unknown:
            why = f"{chat}: {more} messages more than chunks, and {got.unknown} were in doubt"
            return Comparison(difference=why)
    if _bare(expected) == _bare(got):
        return Comparison(rules=("repeated",) if got.unknown else ())
    rules: list[Rule] = []
    tried: tuple[Rule, ...] = ("repeated", "closed", "interrupted", "lost process", "summary")
    may_be_cut = bool(_interrupted(got)) or got.is_lost
    for rule in tried:
        if rule == "lost process" and not (may_be_cut and rule in allowed):
            continue
        changed = _without(rule, expected, got)
        if changed is not None and changed != (expected, got):
            rules.append(rule)
            expected, got = changed
        if _bare(expected) == _bare(got):
            break
    if _bare(expected) != _bare(got) and "regrouped" in allowed:
        rules.append("regrouped")
        expected, got = _ungrouped(expected), _ungrouped(got)
    difference = "" if _bare(expected) == _bare(got) else _shown(_bare(expected), _bare(got))
    beyond = [rule for rule in rules if rule not in allowed]
    if beyond and not difference:
        difference = f"not expected here: {', '.join(beyond)}"
    return Comparison(rules=tuple(rules), difference=difference)


def _bare(account: Account) -> Account:
    return replace(account, unknown=0, is_lost=False, surplus={})


def _without(rule: Rule, expected: Account, got: Account) -> tuple[Account, Account] | None:
    """Return both without a documented difference; None where there is none."""
    match rule:
        case "repeated" if got.unknown:
            return expected, replace(
                got, chats={name: _once(texts, got.unknown) for name, texts in got.chats.items()}
            )
        case "interrupted" if _interrupted(got):
            return _forgiving(expected, got), _forgiving(got, got)
        case "closed" if any(CLOSED in text for texts in got.chats.values() for text in texts):
            return _without_outcomes(expected), _without_outcomes(got)
        case "lost process":
            return _without_endings(expected), _without_endings(got)
        case "summary":
            return _without_summaries(expected), _without_summaries(got)
        case _:
            return None


def _once(texts: Sequence[str], most: int) -> tuple[str, ...]:
    """Return messages without those that are repeated, and labels, at most so many of either.

    Of a question only the repeat is known to the gateway: it loses its label when it is answered.
    """
    kept: list[str] = []
    for number, text in enumerate(texts):
        bare = text.removeprefix(REPEAT)
        about = text.partition("}")[0]
        is_asked_again = any(later.partition("}")[0] == about for later in texts[number + 1 :])
        if most and text.startswith(_QUESTION) and is_asked_again:
            most -= 1
            continue
        if bare != text and most:
            most -= 1
            if bare in kept:
                continue
            kept.append(bare)
        else:
            kept.append(text)
    return tuple(kept)


def _without_outcomes(account: Account) -> Account:
    """Return an account in which questions do not say how they were answered."""
    chats = {
        name: tuple(_SETTLED.sub(f"\n\n{CLOSED}", text) for text in texts)
        for name, texts in account.chats.items()
    }
    return replace(account, chats=chats)


def _interrupted(account: Account) -> set[tuple[str, int, int, int]]:
    """Return where calls were closed as of unknown outcome."""
    return {
        (name, t, s, c)
        for name, talk in account.talks.items()
        for t, turn in enumerate(talk.turns)
        for s, step in enumerate(turn.steps)
        for c, result in enumerate(step["results"])
        if result == INTERRUPTED
    }


def _forgiving(account: Account, by: Account) -> Account:
    """Return an account without the results, and the effects, of calls of unknown outcome."""
    where = _interrupted(by)
    talks: dict[str, Talk] = {}
    for name, talk in account.talks.items():
        turns: list[Turn] = []
        for t, turn in enumerate(talk.turns):
            steps = [
                {
                    **step,
                    "results": [
                        "?" if (name, t, s, c) in where else result
                        for c, result in enumerate(step["results"])
                    ],
                }
                for s, step in enumerate(turn.steps)
            ]
            turns.append(replace(turn, steps=tuple(steps)))
        talks[name] = replace(talk, turns=tuple(turns))
    # It may have happened, or not; more than once is never forgiven.
    witness = {name: max(times, 1) for name, times in account.witness.items()}
    return replace(account, talks=talks, witness=witness)


def _without_endings(account: Account) -> Account:
    """Return an account without what was told of processes, and said to that."""
    talks: dict[str, Talk] = {}
    said: set[str] = set()
    for name, talk in account.talks.items():
        told = [turn for turn in talk.turns if turn.messages[0].startswith(FROM_GATEWAY)]
        said |= {str(step["text"]) for turn in told for step in turn.steps}
        turns = tuple(turn for turn in talk.turns if turn not in told)
        talks[name] = replace(talk, turns=turns, outbox=talk.outbox[: len(talk.outbox) - len(told)])
    chats = {n: tuple(t for t in texts if t not in said) for n, texts in account.chats.items()}
    witness = {name: max(times, 1) for name, times in account.witness.items()}
    return replace(account, talks=talks, chats=chats, witness=witness)


def _without_summaries(account: Account) -> Account:
    talks = {n: replace(t, summaries=(), hidden=()) for n, t in account.talks.items()}
    return replace(account, talks=talks)


def _ungrouped(account: Account) -> Account:
    """Return an account in which it does not matter which messages were answered together."""
    talks: dict[str, Talk] = {}
    for name, talk in account.talks.items():
        messages = tuple(text for turn in talk.turns for text in turn.messages)
        calls = tuple(step for turn in talk.turns for step in turn.steps if step["calls"])
        outcome = "/".join(sorted({turn.outcome for turn in talk.turns}))
        ends = tuple(sorted({end for _, ends in talk.outbox for end in ends}))
        one = Turn(messages=messages, steps=calls, outcome=outcome)
        talks[name] = replace(talk, turns=(one,), outbox=((0, ends),))
    chats = {name: texts[-1:] for name, texts in account.chats.items()}
    return replace(account, talks=talks, chats=chats)


def _shown(expected: Account, got: Account) -> str:
    """Return what differs, shortened."""
    lines: list[str] = []
    for name in ("talks", "chats", "witness", "answers", "runs"):
        one, other = getattr(expected, name), getattr(got, name)
        if one == other:
            continue
        if isinstance(one, Mapping):
            keys = sorted({*one, *other})
            pairs = [(f"{name}[{k}]", one.get(k), other.get(k)) for k in keys]
        else:
            pairs = [(name, one, other)]
        for where, first, second in pairs:
            if first != second:
                lines += [
                    f"{where}:",
                    f"    expected {first!s:.4000}",
                    f"    got      {second!s:.4000}",
                ]
    return "\n".join(lines)
