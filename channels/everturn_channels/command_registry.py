"""The one list of commands: each with its names, what may follow it, who may give it, and where.

All that shows or reads commands goes by it: menus and slash commands of platforms, `/help`, the
terminal's completion, and what a message that begins with a slash means. Agents add commands of
their own, and so do their skills. Pure.

    >>> command_named("new", "chat").name
    'reset'
    >>> command_named("compact", "terminal").usage
    '/compact [TEXT]'
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from everturn_channels.languages import marked

Place: TypeAlias = Literal["chat", "private", "group", "terminal"]
"""Where a command is given: on a platform wherever one writes, in private or in a group alone; in
the terminal."""
Who: TypeAlias = Literal["everybody", "owners"]

NAME_PATTERN: Final = r"[a-z0-9][a-z0-9_-]{0,31}"
"How a command may be called: what all platforms take, where a hyphen counts as an underscore."
DESCRIPTION_CHARACTERS: Final = 100
PROMPT_PLACE: Final = "{{arguments}}"
"Where what follows a command stands in the prompt of an agent's own."

_CHAT: Final[frozenset[Place]] = frozenset(("chat",))
_TERMINAL: Final[frozenset[Place]] = frozenset(("terminal",))
_BOTH: Final[frozenset[Place]] = _CHAT | _TERMINAL
_PRIVATE: Final[frozenset[Place]] = frozenset(("private",))
_GROUP: Final[frozenset[Place]] = frozenset(("group",))


class Argument(Struct, frozen=True, kw_only=True):
    """What may follow a command."""

    name: str
    "Lower case; people see it in upper case."
    what: str
    "In words, see `CommandSpec.what`."
    is_suggested: bool = False
    "Whether `InboundHandler.suggestions` knows what it may be."
    is_needed: bool = False


class CommandSpec(Struct, frozen=True, kw_only=True):
    """One command."""

    name: str
    "Lower case, without the slash; see `NAME_PATTERN`."
    what: str
    """What it does, `marked`, in at most 100 characters, the least that a platform allows (Discord;
    Telegram takes 256). Source: https://discord.com/developers/docs/interactions/application-commands
    and https://core.telegram.org/bots/api#botcommand, read 2026-11-22."""
    arguments: tuple[Argument, ...] = ()
    aliases: tuple[str, ...] = ()
    "Further names."
    who: Who = "everybody"
    "owners: to all others there is nothing of the kind, and no menu of a platform shows it."
    where: frozenset[Place] = _BOTH
    passes: bool = False
    """Whether it may be taken before what was written before it and is still being taken.

    It changes nothing of the conversation but what stays with the model, and ends no more than the
    turn that runs."""
    is_about_session: bool = True
    "Whether it looks at the conversation, and not at the agent or its people."
    prompt: str = ""
    "Of an agent's own command: what is said to the agent, see `PROMPT_PLACE`; empty = it is ours."

    @property
    def usage(self) -> str:
        """How it is typed: `/approve CODE [ALWAYS]`."""
        return f"/{self.name} {self.arguments_shown}".rstrip()

    @property
    def arguments_shown(self) -> str:
        """What may follow it, as it is typed: `CODE [ALWAYS]`."""
        shown = (
            each.name.upper() if each.is_needed else f"[{each.name.upper()}]"
            for each in self.arguments
        )
        return " ".join(shown)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, its own first."""
        return (self.name, *self.aliases)

    def prompted(self, argument: str) -> str:
        """Return what an agent's own command says to the agent, with what was typed after it."""
        typed = argument.strip()
        if PROMPT_PLACE in self.prompt:
            return self.prompt.replace(PROMPT_PLACE, typed)
        return f"{self.prompt}\n\n{typed}" if typed else self.prompt


def _words(name: str, what: str, *, is_needed: bool = False) -> tuple[Argument, ...]:
    return (Argument(name=name, what=what, is_needed=is_needed),)


def _beside(
    name: str,
    what: str,
    arguments: tuple[Argument, ...] = (),
    aliases: tuple[str, ...] = (),
    where: frozenset[Place] = _BOTH,
) -> CommandSpec:
    """Return a command that is answered beside the conversation, whatever goes on in it."""
    return CommandSpec(
        name=name,
        what=what,
        arguments=arguments,
        aliases=aliases,
        where=where,
        passes=True,
        is_about_session=False,
    )


def _passing(
    name: str,
    what: str,
    arguments: tuple[Argument, ...] = (),
    where: frozenset[Place] = _BOTH,
) -> CommandSpec:
    return CommandSpec(name=name, what=what, arguments=arguments, where=where, passes=True)


def _for_owners(
    name: str,
    what: str,
    arguments: tuple[Argument, ...] = (),
    where: frozenset[Place] = _PRIVATE,
) -> CommandSpec:
    return CommandSpec(name=name, what=what, arguments=arguments, who="owners", where=where)


def _in_terminal(
    name: str, what: str, arguments: tuple[Argument, ...] = (), aliases: tuple[str, ...] = ()
) -> CommandSpec:
    return CommandSpec(name=name, what=what, arguments=arguments, aliases=aliases, where=_TERMINAL)


_SESSION_ID: Final = Argument(name="session", what=marked("its id"), is_needed=True)
_CODE: Final = Argument(name="code", what=marked("of the question"), is_needed=True)
_CALL: Final = _words("call", marked("the id of the call"))
_SESSION: Final = _words("session", "its number in the list, its id, or words of its title")
_REMINDER: Final = (
    Argument(name="when", what=marked("20m, 2h, 18:30, or a day and a time")),
    Argument(name="text", what=marked("of what")),
)

COMMANDS: Final[tuple[CommandSpec, ...]] = (
    _beside("start", marked("say hello, and what this bot is"), where=_CHAT),
    _beside("help", marked("show this list"), aliases=("commands",)),
    # A chat of a platform has one session at a time: there `new` is `reset`.
    _in_terminal("new", "begin a new session; /resume goes back to one before"),
    CommandSpec(
        name="reset",
        what=marked("forget this conversation and begin a new one"),
        aliases=("new", "clear"),
        where=_CHAT,
    ),
    _in_terminal(
        "reset", marked("forget this conversation and begin a new one"), aliases=("clear",)
    ),
    _passing("status", marked("show what is going on here: turns, tokens, model")),
    CommandSpec(
        name="model",
        what=marked("show which model answers; its owners choose another one"),
        arguments=(
            Argument(name="model", what=marked("its name, or default"), is_suggested=True),
            Argument(name="for", what=marked("agent = for all conversations")),
        ),
        where=_CHAT,
        is_about_session=False,
    ),
    _passing("usage", marked("show the tokens and the cost of this conversation"), where=_CHAT),
    _passing("context", marked("show what the model is sent, and what is hidden from it")),
    CommandSpec(
        name="compact",
        what=marked("have older messages summarised now; what follows is kept above all"),
        arguments=_words("text", marked("what is kept above all")),
    ),
    _passing("stop", marked("cancel the answer that is being worked on")),
    CommandSpec(name="retry", what=marked("try again what could not be answered")),
    CommandSpec(name="undo", what=marked("take back the files of the last turn that changed some")),
    _beside(
        "search",
        marked("find what was said here, also before a reset; words or a question follow"),
        arguments=_words("words", marked("a question, or words")),
    ),
    _beside(
        "sessions",
        marked("show the conversations that were had here, the newest first"),
        where=_CHAT,
    ),
    CommandSpec(
        name="remind",
        what=marked("be reminded here: 20m TEXT, 18:30 TEXT, or 2026-12-24 09:00 TEXT"),
        arguments=_REMINDER,
        where=_CHAT,
        is_about_session=False,
    ),
    _beside(
        "memory",
        marked("show what I know of you; TOPIC: TEXT notes it, forget TOPIC removes it"),
        arguments=_words("text", marked("TOPIC: TEXT, or forget TOPIC")),
    ),
    _passing(
        "pin",
        marked("keep a message in the model's sight: some words of it follow; alone, list"),
        _words("words", marked("its number, or some words of it")),
    ),
    _passing(
        "unpin",
        marked("take a pin off; the number of the message follows"),
        _words("number", marked("of the message"), is_needed=True),
    ),
    CommandSpec(
        name="prompt",
        what=marked("send a prompt of the agent's MCP servers; alone, list them"),
        arguments=(
            Argument(name="name", what=marked("which one"), is_suggested=True),
            Argument(
                name="places",
                what=marked("what stands in its places: topic='big cats' length=short"),
            ),
        ),
        is_about_session=False,
    ),
    _beside(
        "whoami",
        marked("show who you are here: your id, this chat's, and who answers"),
        where=_CHAT,
    ),
    # What owners can do, in private unless it says otherwise.
    _for_owners("questions", marked("show the calls that wait for an answer, in any conversation")),
    _for_owners(
        "approve",
        marked("let a call run, once or from now on"),
        (_CODE, Argument(name="always", what=marked("from now on"))),
    ),
    _for_owners("deny", marked("do not let a call run"), (_CODE,)),
    _for_owners(
        "pair",
        marked("show who waits to be let in, or let somebody in"),
        _words("code", marked("of whoever asks")),
    ),
    _for_owners("sessions", marked("show the conversations that go on")),
    _for_owners("reset", marked("end one of them"), (_SESSION_ID,)),
    _for_owners("usage", marked("show what the agents used today")),
    _for_owners("allow", marked("let me answer in this group"), where=_GROUP),
    _for_owners("disallow", marked("take that back"), where=_GROUP),
    _for_owners(
        "agent",
        marked("choose which agent answers here; alone, show which does"),
        _words("name", marked("its name, or default")),
        where=_GROUP | _PRIVATE,
    ),
    # What the terminal has beside.
    _in_terminal(
        "sessions",
        "list the agent's sessions by their titles, the one used last first",
        _words("words", "of a title"),
    ),
    _in_terminal("resume", "go on in another session; alone, list them", _SESSION),
    _in_terminal(
        "model",
        "show which model answers and which there are, or choose one for this session",
        _words("model", "its number in the list, its name, or default"),
    ),
    _in_terminal("usage", "show what this session and the agent used, and what it cost"),
    _in_terminal(
        "calls",
        "show the newest call of a tool whole; Ctrl-O does so for all that come",
        _words("number", "of another call"),
    ),
    _in_terminal(
        "attach",
        marked("send a file with your next message; alone, put those that wait back"),
        _words("file", marked("its path")),
    ),
    _in_terminal(
        "allow", marked("let the call that waits run, this once; a call id may follow"), _CALL
    ),
    _in_terminal("always", marked("let it run, and from now on without asking"), _CALL),
    _in_terminal("deny", marked("do not let it run"), _CALL),
    _in_terminal(
        "answer",
        marked("answer what the agent asks, with a number or in words"),
        _words("text", marked("the answer"), is_needed=True),
    ),
    _in_terminal("exit", marked("leave (the conversation stays)"), aliases=("quit",)),
)
"""All of ours, in the order in which they are shown. A name may stand here once for everybody and
once for owners, and mean something else in the terminal."""

_HYPHENS: Final = str.maketrans("-", "_")
_TYPED: Final = re.compile(rf".({NAME_PATTERN})(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)


def commands_for(
    place: Place, who: Who = "everybody", own: Iterable[CommandSpec] = ()
) -> tuple[CommandSpec, ...]:
    """Return the commands of a place, in the order in which they are shown.

    Args:
        place: `private` and `group` have also what every chat has.
        who: For whom; owners have their own alone.
        own: What an agent adds, behind ours; one that is called as one of ours is left out.
    """
    wanted: set[Place] = {place} if place == "terminal" else {place, "chat"}
    ours = tuple([each for each in COMMANDS if each.who == who and each.where & wanted])
    taken = {name for each in ours for name in each.names}
    if who == "owners":
        return ours
    added: list[CommandSpec] = []
    for each in own:
        if plain_name(each.name) not in taken:
            taken.add(plain_name(each.name))
            added.append(each)
    return (*ours, *added)


def command_named(
    name: str, place: Place, who: Who = "everybody", own: Iterable[CommandSpec] = ()
) -> CommandSpec | None:
    """Return the command that has a name, or is also called so; None where there is none."""
    plain = plain_name(name)
    found = commands_for(place, who, own)
    return next((each for each in found if plain in map(plain_name, each.names)), None)


def plain_name(name: str) -> str:
    """Return a name as names are compared: Telegram takes no hyphen and no upper case."""
    return name.lower().translate(_HYPHENS)


def typed_command(text: str, *, marks: str = "/") -> tuple[str, str] | None:
    """Return the name and the argument where a text may be a command; None where it is none.

    `marks` are the characters that it may begin with: some clients keep a slash for themselves.

    >>> typed_command("/compact the plan")
    ('compact', 'the plan')
    >>> typed_command("/etc/hosts") is None
    True
    """
    typed = text.strip()
    found = _TYPED.fullmatch(typed) if typed[:1] and typed[0] in marks else None
    return (found[1].lower(), (found[2] or "").strip()) if found else None


PASSING: Final = frozenset(
    name for each in COMMANDS if each.passes and each.who == "everybody" for name in each.names
)
"Names of those that may be taken before what was written before them."
