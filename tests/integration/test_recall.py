"""`recall_context` over real stores: whatever was said can be read back, also after a restart."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from support.agents import MINIMAL, write_agent, write_folder
from support.stores import MemoryWorld, World, on_each_store
from support.tables import table

from everturn_actors.context.summaries import covered_text, summary_task
from everturn_actors.errors import JournalError, ToolFailedError
from everturn_actors.events import (
    AmbientStored,
    Announced,
    Body,
    CallFinished,
    CallStarted,
    Discarded,
    Edited,
    Event,
    ModelReplied,
    Received,
    SessionStarted,
    StepStarted,
    Summarised,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import (
    Compaction,
    Conversation,
    ConversationKey,
    IncomingMessage,
    ModelRequest,
    Reply,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from everturn_actors.ports import (
    ModelProvider,
    SessionStore,
    Tool,
    ToolCapabilities,
    ToolContext,
    ToolOutput,
)
from everturn_actors.spec import ModelSpec
from everturn_actors.state.apply import apply
from everturn_actors.state.queue import WITHDRAWN
from everturn_actors.state.recovery import recover
from everturn_actors.state.session_state import SessionState
from everturn_actors.testing import ScriptedProvider, TestService, calling, open_test_service
from everturn_gateway.specs import open_library
from everturn_gateway.tools.recall import RecallContext
from everturn_gateway.tools.recall import tool as recall_tool
from everturn_gateway.tools.recall.log import CHUNK_EVENTS
from everturn_gateway.tools.recall.pages import PageSize

SESSION_ID = "20261121T224956123-3f9a2c1b"
OTHER_ID = "20261121T224956124-3f9a2c1b"
KEY = ConversationKey(channel="test", chat="chat", agent="test")
AT = datetime(2026, 11, 21, 22, 49, tzinfo=UTC)
LONG = "".join(f"line {number:05} of a long result 漢字 🔥\n" for number in range(3000))


@dataclass(kw_only=True)
class Call:
    """One call of a scripted step, and its result."""

    call_id: str
    result: str
    name: str = "bash"
    arguments: str = "{}"
    whole: str = ""
    "What went to a file; the result is then what the log keeps."
    path: str = ""


@dataclass(kw_only=True)
class Talk:
    """Writes a session's log, many events at once, and asks about it as a tool call does."""

    store: SessionStore
    session_id: str = SESSION_ID
    page_characters: int = 6000
    state: SessionState | None = None
    unwritten: list[Event] = field(default_factory=list[Event])
    answered: str | ToolOutput = ""
    "What the tool gave last."

    def log(self, *bodies: Body) -> int:
        """Add events to the log and return the number of the last one."""
        for body in bodies:
            seq = self.state.last_seq + 1 if self.state else 1
            event = Event(seq=seq, at=AT + timedelta(milliseconds=seq), body=body)
            self.state = apply(self.state, event)
            self.unwritten.append(event)
        assert self.state is not None
        return self.state.last_seq

    async def write(self) -> SessionState:
        """Append what was added, and return the state after it."""
        if self.unwritten:
            before = self.unwritten[0].seq - 1
            await self.store.append(self.session_id, self.unwritten, expected_seq=before)
            self.unwritten = []
        assert self.state is not None
        return self.state

    def begin(self, text: str, *, sender: str = "") -> int:
        """Start a turn and return the number of its question."""
        if self.state is None:
            self.log(SessionStarted(session_id=self.session_id, key=KEY))
        seq = self.log(Received(text=text, sender=sender))
        assert self.state is not None
        number = self.state.turns + 1
        self.log(TurnStarted(turn=number, received=(seq,), window_messages=1000))
        return seq

    async def step(self, text: str, *calls: Call) -> list[int]:
        """Take one step of the open turn; return the numbers of its reply and its results."""
        assert self.state is not None
        assert self.state.open_turn is not None
        turn = self.state.open_turn
        made = tuple(ToolCall(call_id=c.call_id, name=c.name, arguments=c.arguments) for c in calls)
        begin = StepStarted(turn=turn.number, step=len(turn.steps) + 1, model="m")
        seqs = [self.log(begin, ModelReplied(text=text, calls=made))]
        for call in calls:
            if call.whole:
                await self.write()
                await self.store.save_result(self.session_id, call.path, call.whole)
            done = CallFinished(call_id=call.call_id, text=call.result, path=call.path)
            seqs.append(self.log(CallStarted(call_id=call.call_id), done))
        return seqs

    def end(self) -> None:
        """Finish the open turn."""
        assert self.state is not None
        assert self.state.open_turn is not None
        self.log(TurnFinished(turn=self.state.open_turn.number, outcome="answered"))

    async def turn(self, text: str, *calls: Call, answer: str = "done") -> list[int]:
        """Say one whole turn; return the numbers of question, reply, results and answer."""
        seqs = [self.begin(text)]
        if calls:
            seqs += await self.step("", *calls)
        seqs += await self.step(answer)
        self.end()
        return seqs

    @property
    def context(self) -> ToolContext:
        """Where a call of this session runs."""
        return ToolContext(
            session_id=self.session_id,
            key=KEY,
            store=self.store,
            conversation=self.state.conversation if self.state else Conversation(),
        )

    async def recall(self, **arguments: Any) -> str:
        """Call the tool. `from_` stands for `from`."""
        given = {name.rstrip("_"): value for name, value in arguments.items()}
        call = ToolCall(call_id="r", name="recall_context", arguments=json.dumps(given))
        await self.write()
        answer = await RecallContext(
            page=PageSize(tokens=self.page_characters, characters=self.page_characters)
        ).run(call, self.context)
        self.answered = answer
        return answer if isinstance(answer, str) else answer.text

    async def refused(self, **arguments: Any) -> str:
        """Call the tool and return why it refuses."""
        with pytest.raises(ToolFailedError) as failure:
            await self.recall(**arguments)
        return str(failure.value)

    async def all_pages(self, **arguments: Any) -> str:
        """Return what all pages quote, put together, reading as the answers say."""
        text, page = "", 1
        while True:
            answer = await self.recall(**arguments, page=page)
            text += quoted(answer)
            further = re.search(r"ask with page=(\d+)", answer)
            if further is None:
                return text
            assert int(further[1]) == page + 1
            page += 1


def quoted(answer: str) -> str:
    """Return what an answer quotes."""
    found = re.fullmatch(r".*?<(quote-\w+)>\n(.*)\n</\1>", answer, re.DOTALL)
    assert found is not None, answer
    return found[2]


# --- one message ---


@on_each_store
async def test_a_long_result_is_read_back_whole_in_pages(world: World) -> None:
    """Principle 3: whatever was hidden can be read back, to its last character."""
    async with world.open() as store:
        talk = Talk(store=store)
        call = Call(call_id="c1", result=LONG, arguments='{"command": "cat log"}')
        seqs = await talk.turn("look", call)
        first = await talk.recall(message=seqs[2])
        text = await talk.all_pages(message=seqs[2])

        assert first.startswith(
            f"[result of bash (call c1), message {seqs[2]}, 2026-11-21 22:49 UTC, page 1 of "
        )
        assert text == f'-> bash {{"command": "cat log"}} (c1)\n\n{LONG}'
        assert len(first.encode()) < 32_000


@on_each_store
async def test_questions_and_replies_are_read_back_with_who_wrote_them(world: World) -> None:
    """A quote has to say whose it is, or the model takes a result for the user's wish."""
    async with world.open() as store:
        talk = Talk(store=store)
        question = talk.begin("what is in the log?", sender="ann")
        reply, _ = await talk.step("I look.", Call(call_id="c1", result="r", arguments='{"a": 1}'))
        user, said = await talk.recall(message=question), await talk.recall(message=reply)

        assert user.startswith(f"[user ann, message {question}, ")
        assert quoted(user) == "what is in the log?"
        assert said.startswith(f"[assistant, message {reply}, ")
        assert quoted(said) == 'I look.\n\n-> bash {"a": 1} (c1)'


@on_each_store
async def test_a_number_that_is_no_message_leads_to_one(world: World) -> None:
    """A model that miscounts by one is told the number to ask for, not sent away."""
    async with world.open() as store:
        talk = Talk(store=store)
        seqs = await talk.turn("hello")

        assert f"the nearest is {seqs[0]}" in await talk.refused(message=seqs[0] + 1)
        assert "numbers go up to" in await talk.refused(message=10_000)
        assert "there is no page 9; the last one is 1" in await talk.refused(
            message=seqs[0], page=9
        )


@on_each_store
async def test_the_newest_result_of_a_call_comes_with_all_its_arguments(world: World) -> None:
    """Providers reuse ids from step to step; the last one is meant."""
    async with world.open() as store:
        talk = Talk(store=store)
        await talk.turn("one", Call(call_id="c1", result="old"))
        arguments = json.dumps({"text": "w" * 3000})
        new = Call(call_id="c1", result="new", name="write", arguments=arguments)
        await talk.turn("two", new)
        for number in range(CHUNK_EVENTS // 4):  # so that it stands in another chunk of the log
            await talk.turn(f"more {number}")
        answer = await talk.recall(call_id="c1")

        assert quoted(answer) == f"-> write {arguments} (c1)\n\nnew"
        assert "no call has the id 'c9'" in await talk.refused(call_id="c9")


@on_each_store
async def test_a_call_that_still_runs_has_no_result_yet(world: World) -> None:
    """It must not be mistaken for one that never was, nor for an older one of the same id."""
    async with world.open() as store:
        talk = Talk(store=store)
        await talk.turn("one", Call(call_id="c1", result="old"))
        talk.begin("two")
        call = ToolCall(call_id="c1", name="bash")
        talk.log(StepStarted(turn=2, step=1, model="m"), ModelReplied(text="", calls=(call,)))

        assert "has no result yet" in await talk.refused(call_id="c1")


# --- ranges ---


@on_each_store
async def test_a_range_is_a_transcript_with_numbers(world: World) -> None:
    """The marker of a summary names a range; reading it must show who said what."""
    async with world.open() as store:
        talk = Talk(store=store)
        one = await talk.turn("first", Call(call_id="c1", result="r1", arguments='{"a": 1}'))
        two = await talk.turn("second")
        text = quoted(await talk.recall(from_=one[0], to=two[0]))

        assert text.splitlines() == [
            f"[{one[0]}] user: first",
            f'[{one[1]}] assistant: -> bash {{"a": 1}} (c1)',
            f"[{one[2]}] result of bash (call c1): r1",
            f"[{one[3]}] assistant: done",
            f"[{two[0]}] user: second",
        ]
        assert quoted(await talk.recall(from_=two[0])).splitlines()[-1].endswith("done")


@on_each_store
async def test_a_range_that_begins_with_a_result_still_names_its_tool(world: World) -> None:
    """Ranges are cut anywhere, also between a call and its result."""
    async with world.open() as store:
        talk = Talk(store=store)
        calls = [
            Call(call_id=f"c{number}", result=f"gave {number}", name=f"t{number}")
            for number in range(150)
        ]
        seqs = await talk.turn("go", *calls)
        last = seqs[-2]
        line = f"[{last}] result of t149 (call c149): gave 149"

        assert quoted(await talk.recall(from_=last, to=last)) == f"{line}\n"
        line = f"[{last}, 2026-11-21] result of t149 (call c149): gave 149"
        assert line in quoted(await talk.recall(search='"gave 149"')).splitlines()
        assert "result of t149" in await talk.recall(message=last)


@on_each_store
async def test_all_pages_of_a_range_are_the_transcript(world: World) -> None:
    """Pages of a transcript are cut while the log is read; none of it may get lost."""
    async with world.open() as store:
        talk = Talk(store=store, page_characters=500)
        for number in range(120):
            await talk.turn(f"question {number} 漢字 🔥", Call(call_id="c1", result=f"r{number}"))
        text = await talk.all_pages(from_=1, to=100_000)
        talk.page_characters = 10**6

        assert text == quoted(await talk.recall(from_=1, to=100_000))
        assert text.count("result of bash (call c1)") == 120


@on_each_store
async def test_an_empty_range_says_where_there_is_something(world: World) -> None:
    """Numbers have gaps, and a model cannot know how far they go."""
    async with world.open() as store:
        talk = Talk(store=store)
        seqs = await talk.turn("hello")

        assert "numbers go from 1 to" in await talk.refused(from_=seqs[-1] + 5)
        assert "nothing was said there" in await talk.refused(from_=seqs[0] + 1, to=seqs[0] + 1)


# --- files ---


@on_each_store
async def test_a_result_that_went_to_a_file_is_read_back_from_it(world: World) -> None:
    """The log keeps a shortened text; the number and the file's name both give the whole."""
    async with world.open() as store:
        talk = Talk(store=store)
        call = Call(call_id="c1", result="[too large]", whole=LONG, path="1-1-1.txt")
        seqs = await talk.turn("look", call)
    async with world.open() as store:
        talk.store = store
        by_name = await talk.recall(file="1-1-1.txt")

        assert by_name.startswith(
            f"[file 1-1-1.txt, the whole result of bash (call c1), message {seqs[2]}, page 1 of "
        )
        assert await talk.all_pages(file="1-1-1.txt") == LONG
        assert (await talk.all_pages(message=seqs[2])).endswith(f"\n\n{LONG}")


async def test_a_file_that_made_room_for_others_is_said_to_be_gone(tmp_path: Path) -> None:
    """The retention limit removes the oldest; the model must not think the rest is the whole."""
    async with open_file_store(tmp_path, results_max_bytes=2 * len(LONG.encode())) as store:
        talk = Talk(store=store)
        old = await talk.turn("1", Call(call_id="c1", result="[cut 1]", whole=LONG, path="a.txt"))
        for name in ("b", "c"):
            path = f"{name}.txt"
            call = Call(call_id=name, result=f"[cut {name}]", whole=LONG, path=path)
            await talk.turn(name, call)
        gone = "The file a.txt was removed to make room; this is what the log kept."
        by_number, by_name = await talk.recall(message=old[2]), await talk.recall(file="a.txt")
        found = await talk.recall(search="cut")

        assert gone in by_number
        assert gone in by_name
        assert quoted(by_number) == quoted(by_name) == "-> bash {} (c1)\n\n[cut 1]"
        assert "[cut 1]" in found


@on_each_store
async def test_a_file_that_never_was_leads_to_those_that_are(world: World) -> None:
    """A model that misremembers a name is told the names there are."""
    async with world.open() as store:
        talk = Talk(store=store)
        await talk.turn("1", Call(call_id="c1", result="[cut]", whole="whole", path="1-1-1.txt"))
        told = await talk.refused(file="2-1-1.txt")

        assert "there is no file '2-1-1.txt'" in told
        assert 'recall_context(file="1-1-1.txt")' in told


# --- search ---


@on_each_store
async def test_a_search_finds_whatever_was_said_the_best_first(world: World) -> None:
    """Questions, replies, arguments and results: a model knows a word, not where it stood."""
    async with world.open() as store:
        talk = Talk(store=store)
        arguments = json.dumps({"path": "Needle-漢字.txt"})
        one = await talk.turn(
            "find the needle", Call(call_id="c1", result="r", arguments=arguments)
        )
        two = await talk.turn("and?", Call(call_id="c2", result="no\nNEEDLE here"), answer="none")
        lines = quoted(await talk.recall(search="needle")).splitlines()
        both = quoted(await talk.recall(search="漢字 NEEDLE")).splitlines()

        assert sorted(
            (line for line in lines if line[0] == "["),
            key=lambda line: int(line[1:].split(",")[0]),
        ) == [
            f"[{one[0]}, 2026-11-21] user: find the needle",
            f'[{one[1]}, 2026-11-21] assistant: bash {{"path": "Needle-漢字.txt"}}',
            f"[{two[2]}, 2026-11-21] result of bash (call c2): no NEEDLE here",
        ]
        assert "Needle-漢字" in next(line for line in both if line[0] == "[")


@on_each_store
async def test_a_search_looks_into_files_and_names_the_page(world: World) -> None:
    """A hit deep inside a large result is of use only if the model can turn to it."""
    async with world.open() as store:
        talk = Talk(store=store, page_characters=500)
        text = LONG.replace("line 02000", "line needle")
        arguments = json.dumps({"command": "x" * 900})  # stands before the text, on pages 1 and 2
        call = Call(call_id="c1", arguments=arguments, result="[cut]", whole=text, path="1.txt")
        seqs = await talk.turn("1", call)
        line = quoted(await talk.recall(search="NEEDLE"))
        place = re.search(r"\[(\d+), page (\d+), [\d-]+\] result of bash \(call c1\): …", line)

        assert place is not None, line
        assert int(place[1]) == seqs[2]
        assert "needle" in quoted(await talk.recall(message=seqs[2], page=int(place[2])))


@on_each_store
async def test_a_search_does_not_find_itself(world: World) -> None:
    """The call that searches holds the words too; so does what earlier searches gave."""
    async with world.open() as store:
        talk = Talk(store=store)
        call = Call(
            call_id="c1",
            name="recall_context",
            arguments='{"search": "needle"}',
            result="[3] user: needle",
        )
        await talk.turn("look it up", call)
        answer = await talk.recall(search="needle")

        assert answer.startswith("Nothing that was said here holds any of these words: needle.")


@on_each_store
async def test_a_search_with_many_hits_gives_the_best(world: World) -> None:
    """A word that stands everywhere must not fill the memory."""
    async with world.open() as store:
        talk = Talk(store=store)
        for number in range(150):
            await talk.turn(f"needle {number}", answer=f"needle too {number} {'word ' * 50}")
        answer = await talk.recall(search="needle")
        lines = (await talk.all_pages(search="needle")).splitlines()

        assert "found, the best first" in answer
        assert "fit less well; other words find others" in answer
        assert 60 <= len([line for line in lines if "needle" in line]) <= 180


# --- what is there ---


@on_each_store
async def test_the_overview_counts_messages_and_names_files(world: World) -> None:
    """A model that knows of nothing begins here."""
    async with world.open() as store:
        talk = Talk(store=store)
        await talk.turn("1", Call(call_id="c1", result="[cut]", whole="whole", path="1-1-1.txt"))
        await talk.turn("2")
        talk.begin("3")
        talk.log(Summarised(last_turn=1, messages=4, text="they talked"))
        text = quoted(await talk.recall())

        assert text.startswith("7 messages since this conversation began")
        assert "The oldest 4 are not shown: recall_context(from=1, to=" in text
        assert "4 (to the end of turn 1) are summarised by a model." in text
        assert 'recall_context(file="1-1-1.txt") is the result of bash (call c1)' in text


@on_each_store
async def test_a_summary_that_was_replaced_can_be_read_by_its_number(world: World) -> None:
    """Chained summaries lose a little each time; the earlier ones stay in the log."""
    async with world.open() as store:
        talk = Talk(store=store)
        await talk.turn("1")
        seq = talk.log(Summarised(last_turn=1, messages=2, text="they said hello"))
        answer = await talk.recall(message=seq)

        assert answer.startswith(f"[summary up to turn 1, message {seq}, ")
        assert quoted(answer) == "they said hello"


@table("compaction", ["archive", "disabled"])
@on_each_store
async def test_what_moved_to_the_archive_is_read_like_the_rest(
    world: World, compaction: Compaction
) -> None:
    """Compaction must not change what can be read back, nor a restart."""
    async with world.open() as store:
        talk = Talk(store=store)
        for number in range(60):
            await talk.turn(f"question {number}", Call(call_id=f"c{number}", result=f"r{number}"))
        before = [
            await talk.all_pages(from_=1, to=10_000),
            await talk.recall(search="question 3"),
            await talk.recall(call_id="c2"),
        ]
        await store.save_snapshot(await talk.write(), compaction=compaction)
    async with world.open() as store:
        talk.store = store
        await talk.turn("newer")
        text = await talk.all_pages(from_=1, to=10_000)

        assert text.startswith(before[0])
        assert text.endswith("user: newer\n" + text.splitlines()[-1] + "\n")
        assert [await talk.recall(search="question 3"), await talk.recall(call_id="c2")] == before[
            1:
        ]


@on_each_store
async def test_what_was_discarded_is_said_to_be_gone_and_read_from_its_file(world: World) -> None:
    """With `compaction: discard` the log forgets; the model must learn that, and what is left."""
    async with world.open() as store:
        talk = Talk(store=store)
        seqs = await talk.turn("where is the `needle`?", answer="in the haystack")
        await _summarise(talk)
        await talk.turn("and the thread?", answer="beside it")
        path = await _summarise(talk)
        await store.save_snapshot(await talk.write(), compaction="discard")
        newer = talk.begin("go on")
        told = f"Numbers below {newer} were discarded from the log"
        left = f'what was summarised stands in recall_context(file="{path}")'
        gone = await talk.refused(message=seqs[0])
        rest = await talk.recall(from_=1, to=newer)
        found = await talk.recall(search="needle")

        for answer in (gone, rest, found, await talk.recall(), await talk.refused(call_id="c1")):
            assert told in answer
            assert left in answer
        assert told in await talk.refused(from_=1, to=2)
        assert quoted(rest) == f"[{newer}] user: go on\n"
        assert 'recall_context(file="turns-1-1.md")] ' in quoted(found)
        assert "where is the `needle`?" in quoted(found)
        assert "in the haystack" in quoted(await talk.recall(file="turns-1-1.md"))


async def _summarise(talk: Talk) -> str:
    """Let a summary take the place of all that was said, as with `compaction: discard`."""
    assert talk.state is not None
    task = summary_task(talk.state.conversation, older_turns=len(talk.state.held_turns))
    assert task is not None
    path = f"turns-{task.turns[0].number}-{task.last_turn}.md"
    await talk.write()
    await talk.store.save_result(talk.session_id, path, covered_text(task))
    body = Summarised(last_turn=task.last_turn, messages=task.messages, text="s", path=path)
    talk.log(body)
    await talk.write()
    return path


@on_each_store
async def test_no_other_session_can_be_read(world: World) -> None:
    """Two chats with one agent share a store, and nothing else."""
    async with world.open() as store:
        other, talk = Talk(store=store, session_id=OTHER_ID), Talk(store=store)
        await other.turn("secret", Call(call_id="c1", result="x", whole="secret", path="1-1-1.txt"))
        await talk.turn("hello")

        assert "secret" not in quoted(await talk.recall(from_=1))
        assert (await talk.recall(search="secret")).startswith("Nothing that was said")
        assert "there is no file" in await talk.refused(file="1-1-1.txt")


# --- when things go wrong, and when they are large ---


class LargeStore:
    """A log of a hundred thousand events that is nowhere, and how it was read."""

    EVENTS = 100_000

    def __init__(self) -> None:
        self.reads: list[int] = []

    async def read(self, _session_id: str, *, after: int, limit: int) -> tuple[Event, ...]:
        """Return events as they are asked for."""
        await anyio.lowlevel.checkpoint()
        seqs = range(after + 1, min(after + limit, self.EVENTS) + 1)
        self.reads.append(len(seqs))
        return tuple(Event(seq=seq, at=AT, body=self._body(seq)) for seq in seqs)

    @staticmethod
    def _body(seq: int) -> Body:
        if seq % 2 == 0:
            return TurnStarted(turn=seq // 2, received=(seq - 1,), window_messages=100)
        return Received(text=f"word {seq}{' needle' if seq == 777 else ''}")


def ask_about(store: object, session_id: str = SESSION_ID) -> ToolContext:
    """Return the context of a call on a store that can only read."""
    return ToolContext(session_id=session_id, key=KEY, store=cast("SessionStore", store))


def a_call(**arguments: Any) -> ToolCall:
    """Return a call of the tool."""
    return ToolCall(call_id="r", name="recall_context", arguments=json.dumps(arguments))


async def test_a_log_of_a_hundred_thousand_events_is_read_in_chunks() -> None:
    """Memory must not grow with the log: only a chunk of it is held at a time."""
    for arguments in ({"from": 1, "page": 2}, {"call_id": "c1"}):
        store = LargeStore()
        try:
            answer = await RecallContext().run(a_call(**arguments), ask_about(store))
        except ToolFailedError as failure:
            answer = str(failure)

        assert answer
        assert max(store.reads) <= CHUNK_EVENTS
        assert sum(store.reads) < 1.1 * store.EVENTS


async def test_what_is_found_soon_does_not_cost_the_whole_log() -> None:
    """One message of a long conversation is one read away; a common word is found at its end."""
    for arguments, at_most in (
        ({"message": 777}, 30),
        ({"from": 1, "to": 100}, 2 * CHUNK_EVENTS),
        ({}, 20_000),
    ):
        store = LargeStore()
        answer = await RecallContext().run(a_call(**arguments), ask_about(store))

        assert answer
        assert sum(store.reads) <= at_most, arguments
        assert len(store.reads) < 100, arguments


class FailingStore:
    """A store whose disk fails."""

    async def read(self, _session_id: str, **_range: int) -> tuple[Event, ...]:
        """Fail."""
        msg = "disk /secret/path failed"
        raise JournalError(msg)

    async def read_result(self, session_id: str, _name: str) -> str | None:
        """Fail."""
        await self.read(session_id)
        return None


@table(
    "arguments", [{"message": 1}, {"from": 1}, {"search": "x"}, {"call_id": "c"}, {"file": "f"}, {}]
)
async def test_a_failing_disk_is_told_to_the_model_without_its_paths(
    arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The turn goes on without what was asked for; the operator reads why in the log."""
    with pytest.raises(ToolFailedError) as failure:
        await RecallContext().run(a_call(**arguments), ask_about(FailingStore()))

    assert "cannot be read now" in str(failure.value)
    assert "secret" not in str(failure.value)
    assert "what was said cannot be read back" in caplog.messages


async def test_a_store_that_hangs_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every wait has a deadline: a turn must not wait for a disk for ever."""

    class HangingStore:
        async def read(self, _session_id: str, *, after: int, limit: int) -> tuple[Event, ...]:
            await anyio.sleep_forever()
            raise AssertionError(after, limit)

    monkeypatch.setattr(recall_tool, "DEADLINE_S", 0.01)
    with pytest.raises(ToolFailedError, match="took longer than"):
        await RecallContext().run(a_call(message=1), ask_about(HangingStore()))


async def test_a_file_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    """One damaged file must not make a search, or its own message, fail."""
    async with open_file_store(tmp_path) as store:
        talk = Talk(store=store)
        bad = await talk.turn("1", Call(call_id="c1", result="[cut]", whole="x", path="bad.txt"))
        await talk.turn("2", Call(call_id="c2", result="[cut]", whole="needle", path="good.txt"))
        file = anyio.Path(tmp_path / "sessions" / SESSION_ID / "results" / "bad.txt")
        await file.write_bytes(b"\xff\xfe\xff")
        found, message = await talk.recall(search="needle"), await talk.recall(message=bad[2])

        assert "result of bash (call c2): needle" in quoted(found)
        assert "The file bad.txt cannot be read; this is what the log kept." in message


# --- in a conversation ---


class Printer:
    """A tool that prints what it was made with."""

    definition = ToolDefinition(name="print", description="Print.", parameters={"type": "object"})
    capabilities = ToolCapabilities(repeatable=True)

    def __init__(self, text: str) -> None:
        self._text = text

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        """Return the text."""
        del call, context
        await anyio.lowlevel.checkpoint()
        return self._text


def recalling(call_id: str, **arguments: Any) -> Reply:
    """Return a reply that calls the tool."""
    call = ToolCall(call_id=call_id, name="recall_context", arguments=json.dumps(arguments))
    return Reply(calls=(call,), stop_reason="tool_calls")


async def say(test: TestService, text: str) -> str:
    """Submit a message and return its answer."""
    inbound = IncomingMessage(text=text, key=test.key())
    return (await (await test.service.submit(inbound)).result()).text


def results(request: ModelRequest) -> Sequence[ToolResult]:
    """Return the tool results of a request, oldest first."""
    return [message for message in request.messages if isinstance(message, ToolResult)]


async def test_a_model_reads_back_what_was_said_before_a_restart() -> None:
    """The whole way: the model asks by number, range, file and word, and gets it."""
    disk, text = MemoryDisk(), "".join(f"{number}: some output\n" for number in range(200))
    tools: dict[str, Tool] = {"print": Printer(text), "recall_context": RecallContext()}
    async with open_test_service(
        provider=ScriptedProvider(calling(("c1", "print")), "printed"), tools=tools, disk=disk
    ) as test:
        assert await say(test, "please print") == "printed"
    session_id = next(iter(disk.sessions))
    events = [*disk.sessions[session_id].archive, *disk.sessions[session_id].log]
    seq = next(event.seq for event in events if isinstance(event.body, CallFinished))
    script = ScriptedProvider(
        recalling("r1", message=seq),
        recalling("r2", **{"from": 1, "to": seq}),
        recalling("r3", search="please PRINT"),
        recalling("r4", file="missing.txt"),
        recalling("r5"),
        "read",
    )
    async with open_test_service(provider=script, tools=tools, disk=disk) as test:
        assert await say(test, "what did you print?") == "read"
    given = {result.call_id: result for result in results(script.requests[-1])}

    assert quoted(given["r1"].text) == f"-> print {{}} (c1)\n\n{text}"
    assert "user: please print" in quoted(given["r2"].text)
    assert "user: please print" in quoted(given["r3"].text)
    assert given["r4"].is_error
    assert "there is no file" in given["r4"].text
    assert not given["r5"].is_error
    assert re.search(r"^1\d messages since", quoted(given["r5"].text))


async def test_a_marker_of_the_gateway_leads_to_the_whole_result() -> None:
    """What the default policy writes in place of a large result is a call that works."""
    disk, text = MemoryDisk(), LONG
    tools: dict[str, Tool] = {"print": Printer(text), "recall_context": RecallContext()}
    script = ScriptedProvider(calling(("c1", "print")), "printed")

    def follow(request: ModelRequest) -> Reply:
        shown = results(request)[0].text
        assert len(shown) < len(text)
        found = re.search(r'recall_context\((message=(\d+)|file="([^"]+)")', shown)
        assert found is not None, shown[-300:]
        if found[3]:
            return recalling("r1", file=found[3], page=2)
        return recalling("r1", message=int(found[2]), page=2)

    script.script += [follow, "read"]
    async with open_test_service(provider=script, tools=tools, disk=disk) as test:
        await say(test, "please print")
        assert await say(test, "go on") == "read"
    page = quoted(results(script.requests[-1])[-1].text)

    assert page in text
    assert "page 2 of" in results(script.requests[-1])[-1].text


async def test_agents_get_the_tool_with_their_file(tmp_path: Path) -> None:
    """What the agent's file says is what its model is offered, also after a reload."""
    write_agent(tmp_path, "plain")
    yaml = MINIMAL.format(name="clever").replace("builtin", "openai")
    folder = write_folder(tmp_path / "clever", yaml)

    def make(_model: ModelSpec, _folder: Path) -> ModelProvider:
        return ScriptedProvider()

    library = await open_library(tmp_path, {}, make)

    assert not library.faults()
    assert not library.get("plain").tools
    assert list(library.get("clever").tools) == ["recall_context"]

    write_folder(folder, f"{yaml}  session:\n    context:\n      recall: false\n")
    await library.reload()

    assert not library.get("clever").tools


async def test_recovery_gives_the_tool_the_same_answers() -> None:
    """What the tool is told of the session follows from its log alone."""
    world = MemoryWorld()
    async with world.open() as store:
        talk = Talk(store=store)
        for number in range(30):
            await talk.turn(f"question {number}")
        talk.begin("now")
        before = await talk.recall()
    async with world.open() as store:
        loaded = await store.load(SESSION_ID)
        assert loaded is not None
        recovered = recover(loaded.snapshot, loaded.events)
        assert recovered is not None
        talk.store, talk.state = store, recovered.state

        assert await talk.recall() == before


@on_each_store
async def test_what_is_read_back_of_text_from_outside_is_marked(world: World) -> None:
    """A page that was cleared comes back by this tool, and with it the orders in it."""
    page = "the page https://a.example/"
    async with world.open() as store:
        talk = Talk(store=store)
        talk.begin("read it")
        call = ToolCall(call_id="p", name="web_fetch")
        talk.log(StepStarted(turn=1, step=1, model="m"), ModelReplied(text="", calls=(call,)))
        done = CallFinished(call_id="p", text="canary of a page", untrusted=True, source=page)
        read = talk.log(CallStarted(call_id="p"), done)
        reply = ModelReplied(text="canary of an answer", outside=(page,))
        said = talk.log(StepStarted(turn=1, step=2, model="m"), reply)
        talk.end()
        retold = ModelReplied(text="later", outside=(page,), retells=True)
        asked = talk.begin("and then?")
        later = talk.log(StepStarted(turn=2, step=1, model="m"), retold)
        talk.end()

        for arguments in (
            {"message": read},
            {"message": said},
            {"call_id": "p"},
            {"from_": 1},
            {"search": "canary"},
        ):
            await talk.recall(**arguments)
            assert isinstance(talk.answered, ToolOutput), arguments
            assert talk.answered.untrusted
            assert talk.answered.source == f"what was read back of {page}"
        for arguments in ({"message": asked}, {"message": later}, {"from_": asked}, {}):
            await talk.recall(**arguments)
            assert isinstance(talk.answered, str), arguments


@on_each_store
async def test_a_summary_opens_into_its_turns_and_the_one_before(world: World) -> None:
    """Each says which turns it stands for; what a model reads there has a number to ask for."""
    async with world.open() as store:
        talk = Talk(store=store)
        first = await talk.turn("where is the needle?", answer="in the haystack")
        await _summarise(talk)
        second = await talk.turn("and the thread?", answer="beside it")
        await _summarise(talk)
        newest, oldest = await talk.recall(summary=2), await talk.recall(summary=1)

        assert newest.startswith("[summary of turns 1 to 2]")
        assert "- turns 1 to 1: recall_context(summary=1)" in newest
        assert f"- turn 2, recall_context(from={second[0]}, to=" in newest
        assert "where is the needle?" not in newest
        assert f"- turn 1, recall_context(from={first[0]}, to=" in oldest
        assert "where is the needle?" in oldest
        assert "summaries go up to turn 2" in await talk.refused(summary=3)


# --- what its writer took back ---


@on_each_store
async def test_what_was_taken_back_before_its_turn_is_shown_in_no_way(world: World) -> None:
    """Its writer deleted it, or changed it: nobody is to read it, however it is asked for."""
    async with world.open() as store:
        talk = Talk(store=store)
        await talk.turn("where is the harbour?", answer="in the east")
        deleted = talk.log(Received(text="my secret harbour code is 1234", sender="Ann"))
        talk.log(Edited(received=deleted, text="my secret is 5678"))
        changed = talk.log(Received(text="the harbour master is Bob", sender="Ann"))
        heard = talk.log(AmbientStored(text="a secret between us", sender="Ben"))
        talk.log(Edited(received=changed, text="the harbour master is Dora"))
        talk.log(Edited(received=changed, text="the harbour master is Cleo"))
        await talk.write()
        waiting = await talk.recall(message=deleted)
        talk.log(
            Discarded(received=(deleted,), reason=WITHDRAWN),
            Discarded(received=(heard,), reason=WITHDRAWN),
        )
        for number in range(30):  # a turn that runs all the while
            talk.log(Announced(text=f"news {number}"))
        talk.log(TurnStarted(turn=2, received=(changed,), window_messages=1000))
        await talk.step("thank you")
        talk.end()
        answers = [
            await talk.recall(search="secret harbour code 1234"),
            await talk.recall(search="harbour master"),
            await talk.all_pages(from_=1),
            await talk.refused(message=deleted),
            await talk.refused(message=deleted + 1),
            await talk.recall(search="secret between us"),
        ]

    assert "5678" in waiting
    told = "\n".join(answers)
    assert not any(
        word in told for word in ("is 1234", "5678", "between us:", "Bob", "Dora", "a secret")
    )
    assert "Cleo" in answers[1]
    assert "Cleo" in answers[2]
