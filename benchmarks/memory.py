"""How much of what was said long ago is found again. No model, no network.

.venv/bin/python benchmarks/memory.py [--locomo FOLDER] [--questions 400] [--index 500000]

Long conversations are carried through each context policy, then questions are asked whose evidence
is known. The first table says for how many the evidence stands in the request: as it is, and where
the question is asked in it and older messages are quoted with it (`asked`); and for how many it was
found after three calls of `recall_context`: the question as it is, and the next two pages of the
answer. `old search` is what stood there before: all words as substrings, newest first, asked for
the words of the question, then its two longest, then the longest. `two places` are questions that
need all of two places or more. Summaries tell nothing here: what a policy shows word for word is
all that counts.

Without `--locomo` the conversations are made here: facts said once, in passing, and asked for in
other words. With it they are those of LoCoMo (Maharana et al. 2024, data/locomo10.zip of
github.com/snap-research/locomo, CC BY-NC 4.0, which is why none of it stands here): ten
conversations of two people over months, the questions that have evidence, those meant to mislead
left out, every so manieth of them.

The second table is the index alone: made from so many messages, appended to, and searched; all but
the first column is CPU time of its thread. The mean holds the merging of its parts, which some of
the appends do for the others.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
from context import FACTS, POLICIES, RECALL, spec_of
from harness import show
from msgspec import Struct, structs

from everturn_actors.context.estimation.window import window_messages
from everturn_actors.context.render import Renderer
from everturn_actors.context.summaries import summary_task
from everturn_actors.errors import ToolFailedError
from everturn_actors.events import (
    Body,
    Event,
    ModelReplied,
    OlderQuoted,
    Received,
    SessionStarted,
    StepStarted,
    Summarised,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import ConversationKey, Reply, ToolCall
from everturn_actors.ports import SessionStore, ToolContext
from everturn_actors.ports.search import MessageQuery
from everturn_actors.spec import AgentSpec
from everturn_actors.state.apply import apply
from everturn_actors.state.session_state import SessionState
from everturn_gateway.clock import SystemClock
from everturn_gateway.search.index import open_message_index
from everturn_gateway.search.table import Batch, IndexedMessage, IndexedSession, MessageTable
from everturn_gateway.search.words import words_of
from everturn_gateway.tools.environment import ServiceLink
from everturn_gateway.tools.recall import PAGE_CHARACTERS, RecallContext
from everturn_gateway.tools.recall.older import OlderQuotes
from everturn_gateway.tools.recall.selection import recall_page

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = ConversationKey(channel="bench", chat="bench", agent="bench")
SESSION_ID = "20260101T000000000-00000000"
CALLS = 3
NOTHING_SAID = "People went on talking about their lives."


class Line(Struct, frozen=True, kw_only=True):
    """Something that somebody said."""

    text: str
    who: str
    at: datetime
    by_agent: bool


class Question(Struct, frozen=True, kw_only=True):
    """A question, and the lines that answer it."""

    text: str
    evidence: tuple[str, ...]


class Talk(Struct, frozen=True, kw_only=True):
    """A conversation and what is asked about it."""

    lines: tuple[Line, ...]
    questions: tuple[Question, ...]


# --- conversations ---


def locomo(folder: Path) -> list[Talk]:
    """Read the conversations of LoCoMo."""
    return [_locomo(json.loads(each.read_text())) for each in sorted(folder.rglob("*.json"))]


def _locomo(data: dict[str, Any]) -> Talk:
    lines: dict[str, Line] = {}
    for number in range(1, 100):
        said, when = data.get(f"session_{number}"), data.get(f"session_{number}_date_time")
        if not said or not when:
            continue
        at = datetime.strptime(when, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for second, each in enumerate(said):
            lines[each["dia_id"]] = Line(
                text=each.get("clean_text") or each["text"],
                who=each["speaker"],
                at=at + timedelta(minutes=second),
                by_agent=each["speaker"] == data["speaker_b"],
            )
    questions: list[Question] = []
    for each in data["qa"]:
        names = dict.fromkeys(re.findall(r"D\d+:\d+", " ".join(each.get("evidence", ()))))
        evidence = tuple(lines[name].text for name in names if name in lines)
        if evidence and each["category"] != 5 and len(evidence) == len(names):
            questions.append(Question(text=each["question"], evidence=evidence))
    return Talk(lines=tuple(lines.values()), questions=tuple(questions))


THINGS = (
    ("My sister {n} moved to {p} for a nursing job", "Where does {n}, the nurse, live now?"),
    ("{n} finally adopted a dog from the shelter in {p}", "Who has been adopting dogs in {p}?"),
    ("We booked the cottage in {p} for {n}'s birthday", "What did we book in {p} for {n}?"),
    ("{n} plays cello in an orchestra over in {p}", "In which town is {n} playing the cello?"),
    ("The landlord {n} wants the deposit for {p} by March", "When is {n} paid the {p} deposit?"),
    ("I lent my bicycle to {n} who cycles through {p}", "Who borrowed the bicycles for {p}?"),
)
PAIRS = (
    ("{n} is allergic to walnuts", "{n} comes to dinner in {p}", "Why no walnuts in {p} with {n}?"),
    ("{n} sold the old van", "{n} needs a lift to {p}", "Is the van of {n} going to {p}?"),
)
TALK = (
    "how was your day today my friend",
    "it was fine and rather busy at work",
    "the weather has been strange this week",
    "I should cook something nice tonight",
    "did you see the match on Sunday",
    "my phone keeps losing its battery",
    "let us talk about it some other time",
    "I read a good book on the train",
)


def generated(count: int = 10, turns: int = 400) -> list[Talk]:
    """Make conversations in which facts are said once, in passing."""
    return [_generated(random.Random(seed), turns) for seed in range(count)]  # noqa: S311


def _generated(made: random.Random, turns: int) -> Talk:
    def name(length: int) -> str:
        letters = ("bdfgklmnprstvz", "aeiou")
        return "".join(made.choice(letters[at % 2]) for at in range(length)).capitalize()

    said: list[str] = [". ".join(made.choices(TALK, k=made.randint(2, 5))) for _ in range(turns)]
    questions: list[Question] = []
    for _ in range(30):
        fact, question = made.choice(THINGS)
        names = {"n": name(6), "p": name(8)}
        questions.append(_told(made, said, [fact.format(**names)], question.format(**names)))
    for _ in range(10):
        one, two, question = made.choice(PAIRS)
        names = {"n": name(6), "p": name(8)}
        facts = [one.format(**names), two.format(**names)]
        questions.append(_told(made, said, facts, question.format(**names)))
    lines = (
        Line(
            text=text,
            who="Ana" if at % 2 == 0 else "agent",
            at=NOW + timedelta(hours=at),
            by_agent=at % 2 == 1,
        )
        for at, text in enumerate(said)
    )
    return Talk(lines=tuple(lines), questions=tuple(questions))


def _told(made: random.Random, said: list[str], facts: Sequence[str], question: str) -> Question:
    for fact in facts:
        at = made.randrange(len(said))
        said[at] = f"{said[at]}. {fact}."
    return Question(text=question, evidence=tuple(facts))


# --- carrying a conversation through a policy ---


class Carried:
    """One conversation under one policy."""

    def __init__(self, policy: str, window: int) -> None:
        self.spec, self.window = spec_of(policy, window), window
        self.renderer = Renderer()
        self.events: list[Event] = []
        self.state: SessionState | None = None
        self.at = NOW
        self.record(SessionStarted(session_id=SESSION_ID, key=KEY))

    def record(self, *bodies: Body) -> None:
        """Append events."""
        for body in bodies:
            event = Event(seq=len(self.events) + 1, at=self.at, body=body)
            self.events.append(event)
            self.state = apply(self.state, event)

    @property
    def known(self) -> SessionState:
        """The state; there is one."""
        assert self.state is not None
        return self.state

    def carry(self, lines: Sequence[Line]) -> None:
        """Let it be said, turn by turn."""
        for users, reply in _turns(lines):
            self.at = users[0].at if users else reply[0].at
            self.begin([(each.text, each.who) for each in users] or [("...", "")])
            self.call()
            text = "\n".join(each.text for each in reply) or "..."
            self.record(ModelReplied(text=text))
            self.record(TurnFinished(turn=self.known.turns, outcome="answered"))
            self.summarise()

    def begin(self, said: Sequence[tuple[str, str]]) -> None:
        """Begin a turn."""
        first = self.known.last_seq + 1
        self.record(*(Received(text=text, sender=who) for text, who in said))
        self.record(
            TurnStarted(
                turn=self.known.turns + 1,
                received=tuple(range(first, first + len(said))),
                window_messages=window_messages(self.window),
            )
        )

    def call(self) -> str:
        """Make the next request; return all that it says."""
        self.record(StepStarted(turn=self.known.turns, step=1, model="bench"))
        conversation = self.known.conversation
        self.record(*self.renderer.reduce(conversation, self.spec, (RECALL,), FACTS))
        made = self.renderer.render(self.known.conversation, self.spec, (RECALL,), FACTS)
        texts = [made.request.system]
        for message in made.request.messages:
            texts.append(message.text)
            if isinstance(message, Reply):
                texts += [call.arguments for call in message.calls]
        return "\n".join(texts)

    def summarise(self) -> None:
        """Do what happens after a turn; the summary tells nothing that is asked for."""
        older = self.renderer.older_turns(self.known.conversation, self.spec, (RECALL,), FACTS)
        task = summary_task(self.known.conversation, older_turns=older) if older else None
        if task is not None:
            self.record(
                Summarised(last_turn=task.last_turn, messages=task.messages, text=NOTHING_SAID * 30)
            )


def _turns(lines: Sequence[Line]) -> Iterator[tuple[list[Line], list[Line]]]:
    users, reply = list[Line](), list[Line]()
    for line in lines:
        if not line.by_agent and reply:
            yield users, reply
            users, reply = [], []
        (reply if line.by_agent else users).append(line)
    if users or reply:
        yield users, reply


# --- asking ---


def old_search(lines: Sequence[str], question: str) -> str:
    """Return what three calls of the old search gave: all words, newest first, a page each."""
    words = sorted((term.text for term in words_of(question).any_of), key=len, reverse=True)
    given: list[str] = []
    for wanted in (words, words[:2], words[:1]):
        hits = (each for each in reversed(lines) if all(word in each.casefold() for word in wanted))
        given.append("\n".join(each[:240] for each in hits)[:PAGE_CHARACTERS])
    return "\n".join(given)


async def three_calls(recall: RecallContext, context: ToolContext, question: str) -> str:
    """Return what three calls of the tool gave."""
    given: list[str] = []
    for page in range(1, CALLS + 1):
        call = ToolCall(
            call_id="r",
            name="recall_context",
            arguments=json.dumps({"search": question[:500], "page": page}),
        )
        try:
            found = await recall.run(call, context)
        except ToolFailedError:
            break  # there are no more pages
        given.append(found if isinstance(found, str) else found.text)
    return "\n".join(given)


def is_there(evidence: str, text: str) -> bool:
    """Whether a line stands in a text, whole or cut at its end, as answers show it."""
    return _plain(evidence)[:200] in _plain(text)


def _plain(text: str) -> str:
    return " ".join(text.split())


class Tally(Struct):
    """How often."""

    asked: int = 0
    found: int = 0
    asked_two: int = 0
    found_two: int = 0

    def add(self, question: Question, text: str) -> None:
        """Count one question: all of its evidence has to be there."""
        is_found = all(is_there(each, text) for each in question.evidence)
        if len(question.evidence) == 1:
            self.asked += 1
            self.found += is_found
        else:
            self.asked_two += 1
            self.found_two += is_found

    @property
    def cells(self) -> tuple[str, str]:
        """As a table has it."""
        two = f"{self.found_two / self.asked_two:.0%}" if self.asked_two else "-"
        return f"{self.found / max(self.asked, 1):.0%}", two


async def measure(talks: Sequence[Talk], policies: Sequence[str], window: int) -> None:
    """Print how much is found."""
    rows: list[tuple[str, ...]] = []
    asked = sum(len(talk.questions) for talk in talks)
    for policy in policies:
        in_request = Tally()
        for talk in talks:
            carried = Carried(policy, window)
            carried.carry(talk.lines)
            carried.begin([("And now?", "")])
            text = carried.call()
            for question in talk.questions:
                in_request.add(question, text)
        rows.append((f"{policy}: in the request", str(asked), *in_request.cells))
    quoted = Tally()
    for talk in talks:
        await _quoted(Carried("everturn", window), talk, quoted)
    rows.append(("everturn: in the request, asked", str(asked), *quoted.cells))
    old, new = Tally(), Tally()
    for talk in talks:
        carried = Carried("everturn", 10**9)
        carried.carry(talk.lines)
        async with open_memory_store(MemoryDisk()) as store:
            await store.append(SESSION_ID, carried.events, expected_seq=0)
            await _ask(store, talk, old, new, spec_of("everturn", window))
    rows.append((f"old search: {CALLS} calls", str(asked), *old.cells))
    rows.append((f"recall_context: {CALLS} calls", str(asked), *new.cells))
    show(f"found, window {window:,}", ("", "questions", "one place", "two places"), rows)


async def _quoted(carried: Carried, talk: Talk, tally: Tally) -> None:
    """Ask each question at the end of a conversation, with the older messages that are quoted."""
    carried.carry(talk.lines)
    async with open_memory_store(MemoryDisk()) as store:
        await store.append(SESSION_ID, carried.events, expected_seq=0)
        async with open_message_index(None, store, SystemClock()) as index:
            link = ServiceLink()
            link.messages = index
            quotes = OlderQuotes(link=link, window_tokens=carried.window)
            state, size = carried.state, len(carried.events)
            for question in talk.questions:
                carried.begin([(question.text, "")])
                context = ToolContext(
                    session_id=SESSION_ID,
                    key=KEY,
                    store=store,
                    conversation=carried.known.conversation,
                )
                found = await quotes(context)
                if found is not None:
                    turn = carried.known.turns
                    carried.record(OlderQuoted(turn=turn, text=found.text, quoted=found.seqs))
                tally.add(question, carried.call())
                carried.state, carried.renderer = state, Renderer()
                del carried.events[size:]


async def _ask(store: SessionStore, talk: Talk, old: Tally, new: Tally, spec: AgentSpec) -> None:
    lines = [line.text for line in talk.lines]
    async with open_message_index(None, store, SystemClock()) as index:
        link = ServiceLink()
        link.messages = index
        context = ToolContext(session_id=SESSION_ID, key=KEY, store=store)
        recall = RecallContext(page=recall_page(spec), link=link)
        for question in talk.questions:
            old.add(question, old_search(lines, question.text))
            new.add(question, await three_calls(recall, context, question.text))


# --- the index alone ---


def measure_index(messages: int) -> None:
    """Print what the index costs."""
    made = random.Random(1)  # noqa: S311 - the same texts each time
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(made.choices(letters, k=made.randint(3, 9))) for _ in range(50_000)]
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(words))))
    texts = [" ".join(made.choices(words, cum_weights=weights, k=25)) for _ in range(20_000)]
    with tempfile.TemporaryDirectory() as folder:
        table = MessageTable(Path(folder) / "search.sqlite")
        began, cpu = time.perf_counter(), time.thread_time()
        for at in range(0, messages, 500):
            table.put([_batch(at // 1000, at % 1000, 500, texts, made)])
        took_s, cpu_s = time.perf_counter() - began, time.thread_time() - cpu
        appends: list[float] = []
        together: list[float] = []
        for count, rounds, costs in ((1, 4_000, appends), (20, 500, together)):
            for place in range(2_000 * count, 2_000 * count + rounds):
                batches = [_batch(each, place, 1, texts, made) for each in range(count)]
                began = time.thread_time()
                table.put(batches)
                costs.append((time.thread_time() - began) / count)
        searches: list[float] = []
        for number in range(200):
            asked = " ".join(made.choices(words[:: 1 + number % 40], k=8))
            began = time.thread_time()
            table.search(MessageQuery(text=asked))
            searches.append(time.thread_time() - began)
        size = (Path(folder) / "search.sqlite").stat().st_size
        table.close()
    show(
        f"the index, {messages:,} messages",
        (
            "made, s",
            "of CPU",
            "an append, ms: median",
            "mean",
            "of 20 in a second",
            "mean",
            "a search, median",
            "p95",
            "MB",
        ),
        [
            (
                f"{took_s:.1f}",
                f"{cpu_s:.1f}",
                f"{statistics.median(appends) * 1000:.2f}",
                f"{statistics.mean(appends) * 1000:.2f}",
                f"{statistics.median(together) * 1000:.2f}",
                f"{statistics.mean(together) * 1000:.2f}",
                f"{statistics.median(searches) * 1000:.1f}",
                f"{sorted(searches)[int(len(searches) * 0.95)] * 1000:.1f}",
                f"{size / 1e6:.0f}",
            )
        ],
    )


def _batch(
    session: int, first: int, count: int, texts: Sequence[str], made: random.Random
) -> Batch:
    at = NOW + timedelta(minutes=session)
    key = structs.replace(KEY, chat=f"chat {session}")
    messages = tuple(
        IndexedMessage(seq, at, "user", "Ana", made.choice(texts))
        for seq in range(first + 1, first + count + 1)
    )
    known = IndexedSession(session_id=f"session-{session}", key=key, created_at=at)
    return Batch(session=known, last_seq=first + count, messages=messages)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locomo", type=Path, default=None)
    parser.add_argument("--window", type=int, default=16_000)
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--index", type=int, default=500_000)
    parser.add_argument("--policies", default=",".join(POLICIES))
    options = parser.parse_args()
    talks = generated() if options.locomo is None else locomo(options.locomo)
    whole = sum(len(talk.questions) for talk in talks)
    step = max(whole // max(options.questions, 1), 1)
    talks = [structs.replace(talk, questions=talk.questions[::step]) for talk in talks]
    if options.questions:
        anyio.run(measure, talks, options.policies.split(","), options.window)
    if options.index:
        measure_index(options.index)


if __name__ == "__main__":
    main()
