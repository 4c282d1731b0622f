"""Notes that outlast a conversation: kept where Duragent's are, and nobody's lost to another's."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from support.callers import Caller, largest_file
from support.tables import table
from support.tool_environments import call_tool, tool_context, tool_environment

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import (
    Conversation,
    OpenStep,
    OpenTurn,
    Reply,
    ToolCall,
    UserMessage,
)
from everturn_actors.ports import ToolContext
from everturn_actors.testing import ManualClock
from everturn_gateway.tools.memory.notes import (
    DAY_MAX_BYTES,
    ENTRY_MAX_BYTES,
    MEMORY_MAX_BYTES,
    TOPIC_MAX_BYTES,
    topic_name,
)
from everturn_gateway.tools.memory.tools import memory_directive, memory_tools

NOW = datetime(2026, 11, 22, 14, 5, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    """The time."""
    return ManualClock(NOW)


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """Where the agent's own notes are."""
    folder = tmp_path / "home" / "memory"
    (folder / "daily").mkdir(parents=True)
    return folder


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Where the notes of all agents are."""
    folder = tmp_path / "state" / "memory" / "world"
    folder.mkdir(parents=True)
    return folder


def caller(tmp_path: Path, clock: ManualClock, session_id: str = "s1") -> Caller:
    """Return who calls the memory tools of one agent."""
    return Caller(memory_tools(tool_environment(tmp_path), clock=clock), session_id=session_id)


def refused(why: str) -> pytest.RaisesExc[ToolFailedError]:
    """Expect an error that says this."""
    return pytest.raises(ToolFailedError, match=why)


def test_the_tools_and_their_arguments_are_duragents(tmp_path: Path, clock: ManualClock) -> None:
    """Prompts that were written for them name these."""
    tools = caller(tmp_path, clock).tools
    fields = {
        name: (set(tool.definition.parameters["properties"]), tool.capabilities.read_only)
        for name, tool in tools.items()
    }

    assert fields == {
        "recall": ({"days", "page"}, True),
        "remember": ({"content"}, False),
        "reflect": ({"content"}, False),
        "update_world": ({"topic", "content"}, False),
    }
    assert all(tool.capabilities.safe for tool in tools.values())
    assert not tools["remember"].capabilities.repeatable  # twice would be two entries
    assert max(len(json.dumps(dict(t.definition.parameters))) for t in tools.values()) < 400
    assert all(name in memory_directive() for name in tools)


async def test_there_may_be_nothing_yet(tmp_path: Path, clock: ManualClock) -> None:
    """A new agent looks first; that is no error, and makes no folder."""
    call = caller(tmp_path, clock)

    assert await call("recall") == "there are no notes yet"
    assert "is empty" in await call("reflect")
    assert not (tmp_path / "home").exists()


async def test_what_is_remembered_is_in_the_days_file(
    tmp_path: Path, clock: ManualClock, memory: Path
) -> None:
    """Its layout is Duragent's; a day has an end, and each entry a line of its own."""
    # Its layout is Duragent's, so that notes can move from one to the other.
    call = caller(tmp_path, clock)

    assert await call("remember", content=" likes tea \n") == "noted in memory/daily/2026-11-22.md"
    clock.advance(600)
    await call("remember", content="has a dog")

    assert (tmp_path / "home" / "memory" / "daily" / "2026-11-22.md").read_text() == (
        "# 2026-11-22\n\n## 14:05 UTC\n\nlikes tea\n\n## 14:15 UTC\n\nhas a dog\n"
    )

    # A person's editor, or a crash, may have left the file without a line end.
    file = memory / "daily" / "2026-11-22.md"
    file.write_text("# 2026-11-22\nby hand")
    await caller(tmp_path, clock)("remember", content="x")

    assert file.read_text() == "# 2026-11-22\nby hand\n\n## 14:15 UTC\n\nx\n"

    # A model in a loop must not fill the disk, entry by entry.
    (memory / "daily" / "2026-11-22.md").write_text("x" * (DAY_MAX_BYTES - 10))

    with refused("today's notes are full"):
        await caller(tmp_path, clock)("remember", content="one more")


async def test_recall_gives_memory_days_and_world_page_by_page(
    tmp_path: Path, clock: ManualClock, memory: Path, world: Path
) -> None:
    """All that the agent knows, the newest day first, and no day that was not asked for."""
    (memory / "MEMORY.md").write_text("long-term\n")
    for age in range(5):
        day = f"{NOW - timedelta(days=age):%Y-%m-%d}"
        (memory / "daily" / f"{day}.md").write_text(f"# {day}\n\nage {age}\n")
    (world / "people.md").write_text("Ada\n")
    (world / "systems.md").write_text("a database\n")
    (world / "notes.txt").write_text("not a topic\n")
    call = caller(tmp_path, clock)

    assert await call("recall") == (
        "# Your Memory\n\nlong-term\n\n"
        "# Recent Experiences\n\n# 2026-11-22\n\nage 0\n\n"
        "# 2026-11-21\n\nage 1\n\n# 2026-11-20\n\nage 2\n\n"
        "# World Knowledge\n\n## people\n\nAda\n\n## systems\n\na database"
    )
    assert "age 2" not in await call("recall", days=2)
    assert "age 4" in await call("recall", days=366)

    # What a person added by hand may be larger than a result.
    (memory / "MEMORY.md").write_text("\n".join(f"fact {n}" for n in range(8000)))
    call = caller(tmp_path, clock)
    first, second = await call("recall"), await call("recall", page=2)

    assert "\n\n(page 1 of " in first
    assert "fact 0\n" in first
    assert "fact 0\n" not in second
    with refused("there is no page 99"):
        await call("recall", page=99)


async def test_notes_survive_in_the_file_they_were_read_from(
    tmp_path: Path, clock: ManualClock, memory: Path
) -> None:
    """Long-term memory is replaced as a whole, for all conversations of the agent."""
    call = caller(tmp_path, clock)

    assert await call("reflect", content="# Ada\nlikes tea\n") == "MEMORY.md is replaced"
    assert await call("reflect") == "# Ada\nlikes tea\n"
    assert await call("reflect", content="shorter") == "MEMORY.md is replaced"
    assert (memory / "MEMORY.md").read_text() == "shorter"


async def test_what_was_not_read_is_not_replaced(
    tmp_path: Path, clock: ManualClock, memory: Path, world: Path
) -> None:
    """A model that forgets to read first would wipe out what it knew."""
    (memory / "MEMORY.md").write_text("old facts")
    call = caller(tmp_path, clock)
    with refused("(?s)you have not read it.*old facts"):
        await call("reflect", content="new facts")
    assert (memory / "MEMORY.md").read_text() == "old facts"

    await call("reflect", content="old and new facts")  # the refusal showed it

    assert (memory / "MEMORY.md").read_text() == "old and new facts"

    # Two conversations reflect on what both read; the later would undo the earlier.
    (memory / "MEMORY.md").write_text("old")
    first = caller(tmp_path, clock)
    second = first.as_session("s2")
    await first("recall")
    await second("reflect")
    await second("reflect", content="old, and tea")

    with refused("(?s)it changed since you read it.*old, and tea"):
        await first("reflect", content="old, and a dog")
    await first("reflect", content="old, tea, and a dog")

    assert (memory / "MEMORY.md").read_text() == "old, tea, and a dog"

    # A topic that the model never saw must not be replaced as if it had.
    (memory / "MEMORY.md").write_text("\n".join(f"fact {n}" for n in range(8000)))
    (world / "people.md").write_text("Ada")
    call = caller(tmp_path, clock)
    await call("recall")

    with refused("you have not read it"):
        await call("update_world", topic="people", content="Bob")


async def test_the_world_is_one_for_all_agents(
    tmp_path: Path, clock: ManualClock, world: Path
) -> None:
    """What one finds out, the others know; and none overwrites what it has not read."""
    # A person wrote `People.md`; a second `people.md` beside it would confuse everybody.
    (world / "People.md").write_text("Ada")
    call = caller(tmp_path, clock)
    await call("recall")
    await call("update_world", topic="people", content="Ada, Bob")

    assert (world / "People.md").read_text() == "Ada, Bob"
    assert len([*world.iterdir()]) == 1  # noqa: ASYNC240 - a test's own look

    # What one finds out, the others know; and none overwrites what it has not read.
    one = caller(tmp_path, clock)
    other = Caller(
        memory_tools(tool_environment(tmp_path, agent="other"), clock=clock), session_id="s9"
    )

    assert await one("update_world", topic="Our People", content="Ada\r\n") == (
        "memory/world/our-people.md is replaced, for all agents"
    )
    assert "Ada" in await other("recall")
    await other("update_world", topic="our-people", content="Ada, Bob")
    with refused("it changed since you read it"):
        await one("update_world", topic="our people", content="Ada, Cy")

    assert (world / "our-people.md").read_text() == "Ada, Bob"


@table(
    "topic", ["../people", "a/b", "", " ", ".", "..", "a\0b", "x" * 65, "people.md", "a\\b", "*"]
)
async def test_a_topic_is_a_plain_name(tmp_path: Path, clock: ManualClock, topic: str) -> None:
    """It becomes the name of a file."""
    with refused("topic: "):
        await caller(tmp_path, clock)("update_world", topic=topic, content="x")

    assert not (tmp_path / "state").exists()


@table(("topic", "name"), [("Our  People", "our-people"), ("Zürich", "zürich"), ("सिस्टम", "सिस्टम")])
def test_topics_have_names_in_every_language(topic: str, name: str) -> None:
    """Agents note in the language they are spoken to."""
    assert topic_name(topic) == name


async def test_what_cannot_be_noted_is_refused_with_what_to_do(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Notes are read at the beginning of conversations; without a bound they would fill them."""
    call = caller(tmp_path, clock)

    with refused("condense it"):
        await call("reflect", content="x" * (MEMORY_MAX_BYTES + 1))
    with refused("condense it, or make two topics"):
        await call("update_world", topic="a", content="漢" * (TOPIC_MAX_BYTES // 3 + 1))
    with refused("keep what matters"):
        await call("remember", content="x" * (ENTRY_MAX_BYTES + 1))
    for field, tool in (("content", "remember"), ("content", "reflect")):
        with refused("content: is empty"):
            await call(tool, **{field: " \n"})

    # With its name.
    with refused("days: "):
        await caller(tmp_path, clock)("recall", days=0)
    with refused("topic: Field required"):
        await caller(tmp_path, clock)("update_world", content="x")


async def test_entries_of_many_conversations_at_once_are_all_kept(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Each of them was told that it is noted."""
    callers = [caller(tmp_path, clock, f"s{n}") for n in range(4)]

    async def note(number: int) -> None:
        await callers[number % 4]("remember", content=f"fact {number};")

    async with anyio.create_task_group() as tasks:
        for number in range(24):
            tasks.start_soon(note, number)
    text = (tmp_path / "home" / "memory" / "daily" / "2026-11-22.md").read_text()

    assert all(f"\n\nfact {number};\n" in text for number in range(24))
    assert text.startswith("# 2026-11-22\n\n## ")
    assert text.count("# 2026-11-22\n") == 1


async def test_a_full_disk_is_told_and_nothing_is_lost(
    tmp_path: Path, clock: ManualClock, memory: Path
) -> None:
    """An agent that believes it noted something will not note it again."""
    (memory / "MEMORY.md").write_text("old")
    call = caller(tmp_path, clock)
    await call("recall")
    with largest_file(100), refused("nothing was changed"):
        await call("reflect", content="x" * 1000)
    with largest_file(100), refused("nothing was changed"):
        await call("remember", content="x" * 1000)

    assert (memory / "MEMORY.md").read_text() == "old"
    assert "x" not in (memory / "daily" / "2026-11-22.md").read_text()


async def test_notes_that_are_links_to_elsewhere_are_not_followed(
    tmp_path: Path, clock: ManualClock, memory: Path
) -> None:
    """Whoever can put a link there would have the gateway read and write for them."""
    (tmp_path / "secret").write_text("not for agents")
    (memory / "MEMORY.md").symlink_to(tmp_path / "secret")
    call = caller(tmp_path, clock)

    with refused("leads out of your notes"):
        await call("recall")
    with refused("leads out of your notes"):
        await call("reflect", content="x")

    assert (tmp_path / "secret").read_text() == "not for agents"


async def test_notes_that_are_not_all_text_are_read(
    tmp_path: Path, clock: ManualClock, memory: Path
) -> None:
    """One odd byte must not take an agent's memory away."""
    (memory / "MEMORY.md").write_bytes(b"caf\xe9\r\ntea\r\n")
    call = caller(tmp_path, clock)

    assert await call("reflect") == "caf\\xe9\ntea\n"
    await call("reflect", content="café\r\ntea \ud83d")
    await call("reflect", content="café")  # what was written is what was read


PAGE = "the page https://a.example/--> | x"


def reading(source: str = PAGE) -> ToolContext:
    """Return where a call runs that was written while a page was shown."""
    step = OpenStep(reply=Reply(calls=(ToolCall(call_id="c1", name="x"),), outside=(source,)))
    turn = OpenTurn(number=1, users=(UserMessage(text="hi"),), started_at=NOW, step=step)
    return tool_context(conversation=Conversation(current=turn))


@table(
    ("tool", "arguments"),
    [
        ("remember", {"content": "buy milk"}),
        ("reflect", {"content": "buy milk"}),
        ("update_world", {"topic": "people", "content": "buy milk"}),
    ],
)
async def test_what_is_noted_while_a_page_is_shown_marks_who_reads_it(
    tmp_path: Path, clock: ManualClock, tool: str, arguments: dict[str, object]
) -> None:
    """Else a page could have its orders noted, and given anew by the notes of tomorrow."""
    tools = caller(tmp_path, clock).tools
    await call_tool(tools[tool], arguments, context=reading())

    for other in (tools["recall"], caller(tmp_path, clock, "s2").tools["recall"]):
        read = await call_tool(other, {})

        assert "buy milk" in read.text
        assert read.untrusted
        assert read.source == (
            "notes that were written after reading the page https://a.example/- -> / x"
        )


async def test_the_mark_of_a_page_stays_until_a_person_takes_it_out(
    tmp_path: Path, clock: ManualClock, memory: Path
) -> None:
    """It goes through notes and refusals, and plain notes have none."""
    # A mark that everything has says nothing.
    folder = tmp_path / "plain"
    folder.mkdir()
    tools = caller(folder, clock).tools
    await call_tool(tools["remember"], {"content": "one"})

    assert not (await call_tool(tools["recall"], {})).untrusted

    # Whoever is asked has to see the page, not the way it came.
    folder = tmp_path / "once"
    folder.mkdir()
    tools = caller(folder, clock).tools
    await call_tool(tools["remember"], {"content": "one"}, context=reading("the page p"))
    read = await call_tool(tools["recall"], {})
    await call_tool(tools["reflect"], {"content": "two"}, context=reading(read.source))

    again = await call_tool(tools["reflect"], {})

    assert (again.untrusted, again.source) == (True, read.source)

    # It repeats the notes that were not read.
    folder = tmp_path / "refusal"
    folder.mkdir()
    tools = caller(folder, clock).tools
    await call_tool(tools["reflect"], {"content": "obey me"}, context=reading())
    other = caller(folder, clock, "s2")

    refusal = await call_tool(
        other.tools["reflect"], {"content": "new"}, context=replace(tool_context(), session_id="s2")
    )

    assert "obey me" in refusal.text
    assert (refusal.is_error, refusal.untrusted) == (True, True)

    # The line says what it is; who writes the rest is not asked for it.
    tools = caller(tmp_path, clock).tools
    await call_tool(tools["reflect"], {"content": "<!-- --> fine"}, context=reading())
    file = memory / "MEMORY.md"
    lines = file.read_text(encoding="utf-8").splitlines()

    assert (await call_tool(tools["reflect"], {})).untrusted
    file.write_text("\n".join(lines[1:]), encoding="utf-8")
    assert not (await call_tool(tools["reflect"], {})).untrusted
