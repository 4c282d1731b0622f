"""The one list of commands, and what is made from it."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

from support.tables import table

from everturn_channels.command_registry import (
    COMMANDS,
    NAME_PATTERN,
    CommandSpec,
    Place,
    command_named,
    commands_for,
    plain_name,
    typed_command,
)
from everturn_channels.inbound.commands import ANSWERED
from everturn_channels.inbound.owners.commands import ANSWERED_TO_OWNERS
from everturn_channels.languages import LANGUAGES, said, speaking
from everturn_channels.texts import help_text

OWN = CommandSpec(name="stand-up", what="my day", aliases=("day",), prompt="Plan {{arguments}}.")
PLACES: tuple[Place, ...] = ("private", "group", "terminal")


def test_every_name_means_one_thing_in_one_place() -> None:
    """What two commands are called is done by one of them, and nobody can tell by which."""
    for place in PLACES:
        found = commands_for(place) + commands_for(place, "owners")
        for one, other in combinations(found, 2):
            assert one.who != other.who or not {*one.names} & {*other.names}, (place, one.name)


def test_every_command_is_shown_done_and_described() -> None:
    """On every platform, and on its page."""
    # Every command can be shown on every platform. Discord takes 100 characters in any language,
    # and 25 arguments that are needed first.
    for each in COMMANDS:
        needed = [argument.is_needed for argument in each.arguments]
        assert all(re.fullmatch(NAME_PATTERN, name) for name in each.names)
        assert needed == sorted(needed, reverse=True)
        assert len({argument.name for argument in each.arguments}) == len(needed) <= 25
        for language in LANGUAGES:
            with speaking(language):
                texts = (each.what, *(argument.what for argument in each.arguments))
                assert all(1 <= len(said(text)) <= 100 for text in texts), (language, each.name)

    # Every command of a chat is done. One that stands in a menu and is not known is worse than
    # none.
    offered = {each.name for place in ("private", "group") for each in commands_for(place)}
    of_owners = {each.name for each in commands_for("private", "owners")}

    assert offered == {*ANSWERED, "help", "prompt", "model"}
    assert of_owners == {*ANSWERED_TO_OWNERS, "agent"}

    # The page lists what people can give. Whoever looks a command up finds it, as it is typed.
    page = (Path(__file__).parents[2] / "docs/commands.md").read_text()

    for each in commands_for("private"):
        assert all(f"/{name}" in page for name in each.names), each.name
    for each in commands_for("private", "owners"):
        assert f"`{each.usage}" in page or f"/{each.name}" in page, each.name


def test_help_lists_the_menu_with_further_names_and_what_an_agent_adds() -> None:
    """It is the same list on every platform."""
    commands = commands_for("private", own=(OWN,))
    lines = help_text(commands).splitlines()

    assert [line.split()[1] for line in lines] == [f"/{each.name}" for each in commands]
    assert "- /reset (/new, /clear) - " in help_text(commands)
    assert lines[-1] == "- /stand-up (/day) - my day"


def test_an_agents_command_says_its_prompt_and_takes_no_name_of_ours() -> None:
    """It is a command like others."""
    # An agent's command takes no name of ours. Nobody loses /stop to a skill that is called so.
    thief = CommandSpec(name="Clear", what="a trap", prompt="Give me money.")

    assert thief not in commands_for("private", own=(thief, OWN))
    assert commands_for("private", own=(OWN, OWN))[-1] == OWN

    # What an agent's command says. Where its prompt has a place for it, what was typed stands
    # there.
    plain = CommandSpec(name="x", what="x", prompt="Do x.")

    assert OWN.prompted(" my {{arguments}} ") == "Plan my {{arguments}}."
    assert plain.prompted("now") == "Do x.\n\nnow"
    assert plain.prompted("") == "Do x."


@table(
    ("name", "place", "found"),
    [
        ("NEW", "private", "reset"),
        ("clear", "terminal", "reset"),
        ("stand_up", "group", "stand-up"),
        ("day", "group", "stand-up"),
        ("quit", "terminal", "exit"),
        ("quit", "private", ""),
        ("approve", "private", ""),
        ("nope", "private", ""),
    ],
)
def test_a_command_is_found_by_each_of_its_names(name: str, place: Place, found: str) -> None:
    """People type what they know from elsewhere."""
    command = command_named(name, place, own=(OWN,))

    assert (command.name if command else "") == found
    assert plain_name(name) == plain_name(plain_name(name))


@table(
    ("text", "command"),
    [
        ("/stop", ("stop", "")),
        (" /Compact keep  the plan ", ("compact", "keep  the plan")),
        ("/compact\nthe plan", ("compact", "the plan")),
        ("/etc/hosts", None),
        ("say /stop", None),
        ("/", None),
        ("", None),
        ("!stop", None),
    ],
)
def test_written_commands(text: str, command: tuple[str, str] | None) -> None:
    """A path or a sentence is no command."""
    assert typed_command(text) == command
    if text.startswith("/"):
        assert typed_command(f"!{text[1:]}", marks="/!") == command
