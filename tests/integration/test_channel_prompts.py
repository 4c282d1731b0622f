"""Prompts of MCP servers in a chat: listed, filled in, and said in the name of who sends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from support.feeding_adapter import GROUP, Fed, feeding
from support.inbound_events import DM
from support.tables import table

from everturn_actors.errors import InvalidInputError
from everturn_actors.events import Received
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.testing import ManualClock
from everturn_channels.adapter import Command, Person
from everturn_channels.prompts import OfferedPrompt, read_prompt
from everturn_channels.settings import AccessRules, DmRules

SUMMARIZE: Final = OfferedPrompt(
    name="wiki:summarize", description="Sums *it* up.", required=("topic",), optional=("length",)
)

BLANKS: Final = OfferedPrompt(name="wiki:a b", description="", required=(), optional=())


async def offered(agent: str) -> Sequence[OfferedPrompt]:
    """Offer one prompt."""
    assert agent == "test"
    return [SUMMARIZE, BLANKS]


async def fill(agent: str, name: str, arguments: Mapping[str, str]) -> str:
    """Fill it in."""
    if name == BLANKS.name:
        return "It has blanks."
    if name != SUMMARIZE.name:
        msg = f"there is no prompt {name!r}; there are: {SUMMARIZE.name}"
        raise InvalidInputError(msg)
    return f"Sum up what {agent} knows of {arguments['topic']}."


WITH_PROMPTS: Final[dict[str, Any]] = {"more": {"prompts": offered, "fill_prompt": fill}}


async def received(fed: Fed, chat: str) -> list[tuple[str, bool]]:
    """Return what was said to the agent in a chat, and whether it is from outside."""
    session_id = await fed.service.conversations.current(fed.key(chat))
    log = await fed.service.history(session_id, after=0, limit=100) if session_id else ()
    return [(e.body.text, e.body.untrusted) for e in log if isinstance(e.body, Received)]


async def test_a_person_in_a_chat_sends_a_prompt(tmp_path: Path) -> None:
    """It is said in their name; the server's words are from outside; a slip costs a line."""
    async with feeding(tmp_path, **WITH_PROMPTS) as fed:
        listed = await fed.command("prompt")
        unknown = await fed.command("prompt", "wiki:zebra")
        slip = await fed.command("prompt", "wiki:summarize topic")
        blanks = await fed.command("prompt", "'wiki:a b'")
        sent = await fed.command("prompt", "wiki:summarize topic=\u201cbig cats\u201d")
        await fed.until_idle()
        said = await received(fed, DM.id)
        # Others read what the agent answers in a group, and the agent who asked.
        await fed.command("prompt", "wiki:summarize topic=cats", chat=GROUP, is_addressed=True)
        await fed.until_idle(GROUP.id)
        in_group = await received(fed, GROUP.id)

    assert in_group == [("[Ann] Sum up what test knows of cats.", True)]
    assert listed.splitlines() == [
        "- `/prompt wiki:summarize topic=... [length=...]` - Sums \\*it\\* up.",
        "- `/prompt 'wiki:a b'`",
    ]
    assert unknown.startswith("There is no prompt 'wiki:zebra'")
    assert "'topic' has no =" in slip
    assert sent == "Sent: Sum up what test knows of big cats."
    assert blanks == "Sent: It has blanks."
    assert said[-1] == ("Sum up what test knows of big cats.", True)


async def test_a_command_that_comes_again_is_said_once(tmp_path: Path) -> None:
    """A platform hands in again what it was not told of."""
    disk, clock = MemoryDisk(), ManualClock()
    begin = partial(feeding, tmp_path, disk=disk, clock=clock, **WITH_PROMPTS)
    async with begin() as fed:
        await fed.command("prompt", "wiki:summarize topic=cats")
        await fed.until_idle()
        last = fed.numbers
    async with begin() as fed:
        fed.numbers = last - 1
        await fed.command("prompt", "wiki:summarize topic=cats")
        await fed.until_idle()
        said = await received(fed, DM.id)

    assert len(said) == 1


async def test_names_are_suggested_to_who_may_talk(tmp_path: Path) -> None:
    """A stranger does not learn what an agent is connected to."""
    async with feeding(tmp_path, **WITH_PROMPTS) as fed:
        handler = await fed.adapter.handler()

        async def suggestions(typed: str, name: str = "prompt") -> list[str]:
            command = Command(
                id="1",
                name=name,
                argument=typed,
                chat=DM,
                sender=Person(id="7", name="Ann"),
                at=fed.clock.now(),
                answer=_told_nothing,
            )
            return [*await handler.suggestions(command)]

        found = [await suggestions(""), await suggestions("SUM"), await suggestions("x")]
        other = await suggestions("", "compact")
        fed.rules["test"] = AccessRules(dm=DmRules(policy="disabled"))
        nobody = await suggestions("")

    assert found == [["wiki:summarize", "'wiki:a b'"], ["wiki:summarize"], []]
    assert (other, nobody) == ([], [])


async def _told_nothing(text: str) -> None:
    raise AssertionError(text)


@table(
    ("typed", "name", "places"),
    [
        ("a", "a", {}),
        ("a x=1 y='two words'", "a", {"x": "1", "y": "two words"}),
        ("\u201ca b\u201d x=\u201etwo words\u201d", "a b", {"x": "two words"}),
    ],
)
def test_what_is_typed(typed: str, name: str, places: dict[str, str]) -> None:
    """Quotation marks as a telephone writes them count, too."""
    assert read_prompt(typed) == (name, places)
