"""The notes of one agent, and those that all agents share, as files. Blocking: not for the loop.

    <agent's folder>/memory/MEMORY.md              what it keeps, rewritten as a whole
    <agent's folder>/memory/daily/YYYY-MM-DD.md    what happened, added to, by UTC
    <workspace>/memory/world/<topic>.md            what all agents know, rewritten by topic

Nobody's note is lost to somebody else's: entries are added under a lock, and what is rewritten as a
whole has to have been read by the conversation that does it, as it stands.

What was written while text from outside was shown to the agent keeps a mark that names that text,
in the file itself: whoever reads it later is shown text from outside.
"""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from msgspec import Struct

from everturn_actors.errors import ToolFailedError
from everturn_actors.outside import one_source, together
from everturn_gateway.tools.confined import Confined, Place
from everturn_gateway.tools.wording import counted, shown

MEMORY_MAX_BYTES: Final = 12_000  # read at the beginning of conversations: it has to stay short
TOPIC_MAX_BYTES: Final = 12_000
TOPICS_MAX: Final = 200
ENTRY_MAX_BYTES: Final = 4 * 1024
DAY_MAX_BYTES: Final = 64 * 1024
_READ_MAX_BYTES = 256 * 1024  # of one file, which a person may have made larger
_RECALLED_MAX_BYTES = 1024 * 1024  # of all days together
_DAYS_SHOWN = 31
_TOPIC_CHARACTERS = 64
_SEEN_MAX = 4096  # of notes that some conversation read
_MEMORY, _DAILY, _ENDING = "MEMORY.md", "daily", ".md"
_MARKS = frozenset("-_")
_MARK, _BETWEEN, _MARK_END = "<!-- written while this was shown: ", " | ", " -->"
"""Stands before what was written while text from outside was shown to the agent.

A comment, so that it stays with the text whoever moves it, and a person who vouches for the text
can take it out. One that somebody forges only marks more."""
_MARKED = re.compile(rf"^{re.escape(_MARK)}(.*){re.escape(_MARK_END)}$", re.MULTILINE)


class Section(Struct, frozen=True, kw_only=True):
    """One file of notes."""

    heading: str
    text: str
    file: str
    "What `Notes.saw` calls it; empty where it is never rewritten as a whole."

    @property
    def sources(self) -> tuple[str, ...]:
        """The text from outside that was shown when a part of it was written."""
        return sources_in(self.text)


class NoteFile(Struct, frozen=True, kw_only=True):
    """A file of notes, for people."""

    path: str
    "`MEMORY.md`, `daily/2026-11-22.md`, or `world/people.md` of those that all agents share."
    text: str


class UnreadNotesError(ToolFailedError):
    """What was to be replaced was not read.

    Attributes:
        sources: The text from outside behind what it says, which the message repeats.
    """

    def __init__(self, message: str, sources: tuple[str, ...]) -> None:
        self.sources = sources
        super().__init__(message)


class Notes:
    """What one agent remembers."""

    def __init__(self, own: Confined, world: Confined) -> None:
        """Keep the agent's notes in `own`, and those of all agents in `world`."""
        self._own, self._world = own, world
        self._seen: OrderedDict[tuple[str, str], str] = OrderedDict()
        "By conversation and file, a hash of the text that it read, the oldest first."
        self._seen_by_one = threading.Lock()  # read-only calls run side by side, in threads

    def sections(self, now: datetime, days: int) -> list[Section]:
        """Return all notes: the agent's own, those of the last `days`, newest first, the world's.

        Raises:
            ToolFailedError: They cannot be read.
        """
        found: list[Section] = []
        if memory := _read(self._own, _MEMORY):
            found.append(Section(heading="# Your Memory", text=memory, file=_MEMORY))
        found += self._days(now, days)
        heading = "# World Knowledge"
        for name in self._topics():
            if text := _read(self._world, name):
                title = f"## {shown(name.removesuffix(_ENDING))}"
                section = Section(heading=f"{heading}\n\n{title}", text=text, file=f"world/{name}")
                found.append(section)
                heading = ""
        return found

    def files(self) -> list[NoteFile]:
        """Return the files: the agent's own, its days, newest first, and those of all agents.

        The oldest days are left out where there are many.

        Raises:
            ToolFailedError: They cannot be read.
        """
        found = [NoteFile(path=_MEMORY, text=_read(self._own, _MEMORY))]
        days = sorted((name for name, _ in self._own.entries(_DAILY)), reverse=True)
        for name in days[:_DAYS_SHOWN]:
            path = f"{_DAILY}/{name}"
            found.append(NoteFile(path=path, text=_read(self._own, path)))
        found += [
            NoteFile(path=f"world/{name}", text=_read(self._world, name)) for name in self._topics()
        ]
        return [each for each in found if each.text]

    def memory(self) -> str:
        """Return MEMORY.md; empty where there is none.

        Raises:
            ToolFailedError: It cannot be read.
        """
        return _read(self._own, _MEMORY)

    def saw(self, session_id: str, file: str, text: str) -> None:
        """Take note that a conversation read a file as it stands."""
        with self._seen_by_one:
            self._seen[session_id, file] = _digest(text)
            self._seen.move_to_end((session_id, file))
            while len(self._seen) > _SEEN_MAX:
                self._seen.popitem(last=False)

    def remember(self, now: datetime, text: str, sources: Sequence[str] = ()) -> str:
        """Add an entry to the notes of the day; return their file when it is durable.

        `sources` is the text from outside that is shown to whoever writes it; so below.

        Raises:
            ToolFailedError: It is too long, the day is full, or it could not be written.
        """
        _refuse_large("content", text, ENTRY_MAX_BYTES, "keep what matters")
        day = f"{now:%Y-%m-%d}"
        entry = f"\n## {now:%H:%M} UTC\n{_mark(sources)}\n{text}\n"
        file = f"{_DAILY}/{day}{_ENDING}"
        with _changing(self._own, file) as place:
            found = place.read_if_there(_READ_MAX_BYTES)
            if found is None:
                entry = f"# {day}\n{entry}"
            else:
                data, (_, _, size, _) = found
                if size + len(_encoded(entry)) > DAY_MAX_BYTES:
                    msg = f"today's notes are full ({DAY_MAX_BYTES:,} bytes); use reflect instead"
                    raise ToolFailedError(msg)
                if data and not data.endswith(b"\n"):  # left so by a person, or by a crash
                    entry = f"\n{entry}"
            place.append(_encoded(entry))
        return file

    def reflect(self, session_id: str, text: str, sources: Sequence[str] = ()) -> None:
        """Replace MEMORY.md; return when it is durable.

        Raises:
            UnreadNotesError: This conversation has not read what it replaces.
            ToolFailedError: It is too long, or it could not be written.
        """
        _refuse_large(
            "content",
            text,
            MEMORY_MAX_BYTES,
            "condense it: merge what belongs together, drop the rest",
        )
        self._rewrite(self._own, _MEMORY, _MEMORY, session_id, f"{_mark(sources)}{text}")

    def update_world(
        self, session_id: str, topic: str, text: str, sources: Sequence[str] = ()
    ) -> str:
        """Replace what all agents know of a topic; return its file when it is durable.

        Raises:
            UnreadNotesError: This conversation has not read what it replaces.
            ToolFailedError: The name is none, there are too many topics, the text is too long, or
                it could not be written.
        """
        _refuse_large("content", text, TOPIC_MAX_BYTES, "condense it, or make two topics of it")
        wanted = f"{topic_name(topic)}{_ENDING}"
        names = self._topics()
        name = next((each for each in names if each.casefold() == wanted), wanted)
        if name not in names and len(names) >= TOPICS_MAX:
            msg = f"topic: there are {TOPICS_MAX} already; add to one of them"
            raise ToolFailedError(msg)
        text = f"{_mark(sources)}{text}"
        self._rewrite(self._world, name, f"world/{name}", session_id, text)
        return name

    def _rewrite(
        self, confined: Confined, name: str, file: str, session_id: str, text: str
    ) -> None:
        with _changing(confined, name) as place:
            found = place.read_if_there(_READ_MAX_BYTES)
            before = "" if found is None else _decoded(found[0])
            text = _decoded(_encoded(text))  # as it will be read
            known = self._seen.get((session_id, file))
            if before.strip() and before != text and known != _digest(before):
                self.saw(session_id, file, before)
                why = "you have not read it" if known is None else "it changed since you read it"
                msg = (
                    f"nothing was written: {why}. Keep what is still true of it, then call this"
                    f" again. It says:\n\n{before}"
                )
                raise UnreadNotesError(msg, sources_in(before))
            place.replace(_encoded(text), expected=None if found is None else found[1])
        self.saw(session_id, file, text)

    def _topics(self) -> list[str]:
        """Return the names of the topics' files, sorted."""
        found = self._world.entries(".")
        return [name for name, is_folder in found if name.endswith(_ENDING) and not is_folder]

    def _days(self, now: datetime, days: int) -> list[Section]:
        wanted = [f"{now - timedelta(days=n):%Y-%m-%d}{_ENDING}" for n in range(days)]
        there = {name for name, _ in self._own.entries(_DAILY)}
        found: list[Section] = []
        left = _RECALLED_MAX_BYTES
        heading = "# Recent Experiences\n\n"
        for name in wanted:
            if name not in there:
                continue
            if left <= 0:
                why = f"Older notes are left out; they are in memory/{_DAILY}/."
                return [*found, Section(heading="", text=why, file="")]
            text = _read(self._own, f"{_DAILY}/{name}")
            left -= len(text)
            if text:
                found.append(Section(heading=heading.rstrip(), text=text, file=""))
                heading = ""
        return found


def folders_of(home: Path, state: Path) -> tuple[Confined, Confined]:
    """Return where the notes of an agent stand, and those of all agents.

    Args:
        home: The agent's folder.
        state: The gateway's workspace.
    """
    own = Confined(home / "memory", what="your notes")
    return own, Confined(state / "memory" / "world", what="the shared notes")


def topic_name(topic: str) -> str:
    """Return the name under which a topic is kept: lower case, a hyphen for a blank.

    Raises:
        ToolFailedError: It is none.
    """
    name = "-".join(unicodedata.normalize("NFC", topic).casefold().split())
    is_plain = all(unicodedata.category(each)[0] in "LMN" or each in _MARKS for each in name)
    if not name or not is_plain or len(name) > _TOPIC_CHARACTERS:
        msg = (
            f"topic: {shown(topic)!r} is no name; use letters, digits and hyphens, at most"
            f" {_TOPIC_CHARACTERS}, for example people"
        )
        raise ToolFailedError(msg)
    return name


def sources_in(text: str) -> tuple[str, ...]:
    """Return the text from outside behind a text of notes, as the marks in it name it."""
    return together(*(marked.split(_BETWEEN) for marked in _MARKED.findall(text)))


def _mark(sources: Sequence[str]) -> str:
    """Return the line that marks what follows it; nothing where nothing from outside was shown."""
    if not sources:
        return ""
    told = (one_source(each).replace("--", "- -").replace("|", "/") for each in sources)
    return f"{_MARK}{_BETWEEN.join(told)}{_MARK_END}\n"


@contextmanager
def _changing(confined: Confined, path: str) -> Generator[Place]:
    with confined.place(path, create=True) as place, place.locked():
        yield place


def _read(confined: Confined, path: str) -> str:
    """Return a file of notes, or an empty text where there is none."""
    if not confined.is_there():
        return ""
    with confined.place(path) as place:
        found = place.read_if_there(_READ_MAX_BYTES)
    return "" if found is None else _decoded(found[0])


def _decoded(data: bytes) -> str:
    return data.decode("utf-8-sig", errors="backslashreplace").replace("\r\n", "\n")


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")  # half a surrogate pair is no reason to forget


def _digest(text: str) -> str:
    return hashlib.sha256(_encoded(text)).hexdigest()


def _refuse_large(field: str, text: str, most: int, advice: str) -> None:
    size = len(_encoded(text))
    if not text.strip():
        msg = f"{field}: is empty"
        raise ToolFailedError(msg)
    if size > most:
        msg = f"{field}: {counted(size, 'byte')}, and {most:,} are the most; {advice}"
        raise ToolFailedError(msg)
