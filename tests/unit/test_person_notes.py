"""Notes about a person, as their file has them and as the prompt shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from anyio.to_thread import run_sync
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.tool_environments import tool_context

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ConversationKey
from everturn_gateway.channels.answering import known_notes
from everturn_gateway.config.links import NO_LINKS, Links
from everturn_gateway.tools.confined import Confined
from everturn_gateway.tools.memory.notes import Notes
from everturn_gateway.tools.memory.people import (
    People,
    PersonNote,
    note_line,
    person_of,
    read_notes,
    shown_notes,
)
from everturn_gateway.tools.memory.prompting import PromptNotes

KEY = ConversationKey(channel="telegram", chat="../7\n", agent="a", topic="x")
WORDS = st.text(min_size=1, max_size=40).filter(lambda text: any(c.isalnum() for c in text))


def people(folder: Path) -> People:
    """Return notes in a folder."""
    return People(Confined(folder, what="your notes"))


def test_a_file_keeps_what_people_wrote_into_it_and_loses_nothing(tmp_path: Path) -> None:
    """A line that is no note stays; a note by hand is one; what is too large is not cut off."""
    whose = person_of(KEY, "")
    file = tmp_path / whose.path
    file.parent.mkdir()
    file.write_text("# Ann\nfree words\n- tea: green, always\n- no note\n")
    kept = people(tmp_path)

    assert [(each.topic, each.text) for each in kept.read(whose)] == [("tea", "green, always")]
    gone = kept.keep(whose, [PersonNote(topic="TEA", text="none", day="2026-01-01")])
    assert [each.topic for each in gone] == ["tea"]
    new = "- TEA: none <!-- 2026-01-01 |  |  |  -->"
    assert file.read_text() == f"# Ann\nfree words\n- no note\n{new}\n"
    file.write_text("- a: b\n" * 20_000)
    with pytest.raises(ToolFailedError, match="shorten it by hand"):
        kept.keep(whose, [], ["a"])
    assert file.read_text() == "- a: b\n" * 20_000


def test_who_is_linked_is_known_in_each_chat_and_keeps_what_was_known(tmp_path: Path) -> None:
    """What was noted before the link is neither lost nor left behind when it is forgotten."""
    seven, eight = (
        ConversationKey(channel=channel, chat=chat, agent="a")
        for channel, chat in (("telegram", "7"), ("discord", "8"))
    )
    kept = people(tmp_path)
    kept.keep(person_of(seven, ""), [PersonNote(topic="tea", text="green")])
    kept.keep(person_of(KEY, "ann"), [PersonNote(topic="cat", text="Tom")])
    thread = ConversationKey(channel="email", chat="a@b.example", agent="a", topic="<1@b>")
    kept.keep(person_of(thread, ""), [PersonNote(topic="car", text="red")])
    links = Links(
        people={
            "ann": (
                ("telegram", "7"),
                ("discord", "8"),
                ("principal", "ann"),
                ("email", "a@b.example"),
            )
        }
    )
    here, there = person_of(seven, "", links), person_of(eight, "", links)
    before = {each.topic for each in kept.read(there)}
    kept.keep(there, [PersonNote(topic="dog", text="Rex")], ["tea"])

    assert here == there == person_of(eight, "ann", links)
    assert before == {"tea", "cat"}
    assert {each.topic for each in kept.read(here)} == {"cat", "dog"}
    assert kept.read(person_of(seven, "")) == []
    assert {each.topic for each in kept.read(person_of(thread, "", links))} == {"cat", "dog", "car"}
    stranger = replace(thread, chat="c@b.example")
    assert person_of(stranger, "", links) == person_of(stranger, "")


def test_everybody_has_a_file_of_their_own() -> None:
    """Also where names differ in what no file can be called, or belong to a principal."""
    chats = ("7", "7 ", "/7")
    keys = [KEY, *(ConversationKey(channel="telegram", chat=c, agent="a") for c in chats)]
    paths = {person_of(key, "").path for key in keys} | {person_of(KEY, "ann").path}

    assert len(paths) == 5
    assert all(path.startswith("people/") and path.count("/") == 1 for path in paths)


@given(WORDS, WORDS, WORDS, st.lists(WORDS, max_size=3))
def test_what_is_written_is_read_again_in_one_line(
    topic: str, text: str, quote: str, outside: list[str]
) -> None:
    """Whatever somebody says, it neither ends its line nor its comment nor its quote."""
    note = PersonNote(
        topic=topic, text=text, day="2026-01-01", quote=quote, place="s:1", outside=tuple(outside)
    )
    (again,) = read_notes(note_line(note))
    assert (again.day, again.place) == ("2026-01-01", "s:1")
    shown = shown_notes([again], "", most_characters=10_000).text.splitlines()
    assert len(shown) == 7
    assert shown[-1] == f"</{shown[-3][1:]}"


async def test_what_was_written_beside_text_from_outside_stays_out_of_prompts(
    tmp_path: Path,
) -> None:
    """It would mark each conversation from then on; who may read it is told where it is."""
    kept, key = people(tmp_path), ConversationKey(channel="telegram", chat="7", agent="a")
    notes = [
        PersonNote(topic="tea", text="green", place="s:1", quote="q"),
        PersonNote(topic="key", text="send all", place="s:2", quote="q", outside=("a page",)),
    ]
    mark = "<!-- written while this was shown: a page -->\n"

    def write() -> str:
        (tmp_path / "MEMORY.md").write_text(f"{mark}obey")
        kept.keep(person_of(key, ""), notes)
        return known_notes(kept.read(person_of(key, "")))[1].source

    said = await run_sync(write)
    own = Confined(tmp_path, what="your notes")
    read = PromptNotes(
        own=own, notes=Notes(own, own), people=kept, links=NO_LINKS, window_tokens=100_000
    )
    context = replace(tool_context(), key=key)
    shown = await read(context)

    assert "tea: green" in shown.text
    assert "recall reads it" in shown.text
    assert "send all" not in shown.text
    assert "obey" not in shown.text.splitlines()
    assert "tea" not in (await read(replace(context, shared_with=("bob",)))).text
    assert "not in the prompt" in said
