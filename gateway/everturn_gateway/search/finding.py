"""What the index names, read from the logs, and only what may be shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Final, Protocol

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.errors import JournalError, UnknownSessionError
from everturn_actors.events import Event
from everturn_actors.ports.search import MessageIndex, MessageMatch, MessageQuery, SearchRole
from everturn_gateway.search.standing import as_they_stand
from everturn_gateway.search.texts import file_of, texts_of
from everturn_gateway.search.words import fold, spoken

ROUNDS_MOST: Final = 8  # of matches of which none may be shown
SNIPPET_CHARACTERS: Final = 200
AROUND_EVENTS: Final = 10  # in which the message before and the one after stand, mostly
_LONG_CHARACTERS: Final = 100_000  # folded in some 3 ms
_STEM: Final = 4  # characters of a word that an ending does not change
_ENDING: Final = 3
_BEFORE: Final = 60  # characters of a snippet before what was found


class Found(Struct, frozen=True, kw_only=True):
    """A message that was found, as its log has it."""

    session_id: str
    event: Event
    role: SearchRole
    text: str
    "What was said, or the whole of the file in which it stands."
    position: int
    "Where in it the first of the words stands; 0 where that is not known."
    file: str = ""
    "The file in which it stands; empty = in the event."
    before: Event | None = None
    "What people or the agent said before it, where neighbours are asked for."
    after: Event | None = None


class FoundPage(Struct, frozen=True, kw_only=True):
    """What was found, the best first."""

    found: tuple[Found, ...]
    next_offset: int | None = None
    "Where the next page begins; None = there is none."
    searched_to: datetime | None = None
    "Only sessions in which something happened after that were searched; None = all were."


class Logs(Protocol):
    """Where the logs are."""

    async def history(self, session_id: str, *, after: int, limit: int) -> Sequence[Event]:
        """Return events above a number, oldest first."""
        ...

    async def result(self, session_id: str, name: str) -> str | None:
        """Return a text that is kept as a file."""
        ...


MaySee = Callable[[str], Awaitable[bool]]
"Says of a session, by its id, whether it may be shown. Asked once for each session of a page."


async def find(
    index: MessageIndex,
    query: MessageQuery,
    logs: Logs,
    may_see: MaySee,
    *,
    with_neighbours: bool = False,
) -> FoundPage:
    """Search; return what is there by the logs and may be shown.

    Args:
        index: Names messages.
        query: What is looked for.
        logs: Has them.
        may_see: Says which sessions may be shown.
        with_neighbours: Whether the messages beside each are wanted, too.

    Raises:
        JournalError: A session cannot be read of which `may_see` does not know.
    """
    words, found = spoken(query.text), list[Found]()
    around = AROUND_EVENTS if with_neighbours else 0
    seen: dict[str, bool] = {}
    offset = query.offset
    searched_to: datetime | None = None
    for _ in range(ROUNDS_MOST):
        page = await index.search(replace(query, offset=offset))
        for position, match in enumerate(page.matches):
            if match.session_id not in seen:
                seen[match.session_id] = await may_see(match.session_id)
            each = await read(match, words, logs, around) if seen[match.session_id] else None
            if each is not None:
                found.append(each)
            if len(found) == query.limit:
                offset += position + 1
                has_more = page.has_more or position + 1 < len(page.matches)
                return FoundPage(
                    found=tuple(found),
                    next_offset=offset if has_more else None,
                    searched_to=page.searched_to,
                )
        offset, searched_to = offset + len(page.matches), page.searched_to
        if not page.has_more:
            return FoundPage(found=tuple(found), searched_to=page.searched_to)
    return FoundPage(found=tuple(found), next_offset=offset, searched_to=searched_to)


async def read(match: MessageMatch, words: Sequence[str], logs: Logs, around: int) -> Found | None:
    """Return a message by its log; None where that does not have it (any more).

    Args:
        match: Names it.
        words: What was looked for, as `spoken` gives it: the place of one of them is shown.
        logs: Has it.
        around: How many events before and after it are read for the messages beside it.
    """
    found = await read_together([match], words, logs, around)
    return found[0] if found else None


async def read_together(
    matches: Sequence[MessageMatch],
    words: Sequence[str],
    logs: Logs,
    around: int,
    *,
    with_ambient: bool = True,
) -> list[Found]:
    """Return messages of one session by its log, in the order of `matches`; each event read once.

    What the log does not have (any more) is left out, and so is what was taken back before a turn
    had it. The arguments are those of `read`; `with_ambient` as in `as_they_stand`.
    """
    near = dict[int, Event]()
    for session_id, first, last in _stretches(matches, around):
        with suppress(JournalError, UnknownSessionError):
            events = await logs.history(session_id, after=first - 1, limit=last - first + 1)
            read_after = partial(_read_after, logs, session_id)
            standing = await as_they_stand(events, read_after, with_ambient=with_ambient)
            near.update((event.seq, event) for event in standing)
    found: list[Found] = []
    for match in matches:
        beside = [near[s] for s in _around(match.seq, around) if s in near]
        if (each := await _found(match, words, logs, beside)) is not None:
            found.append(each)
    return found


async def _read_after(logs: Logs, session_id: str, seq: int, limit: int) -> Sequence[Event]:
    return await logs.history(session_id, after=seq, limit=limit)


def _around(seq: int, around: int) -> range:
    return range(max(seq - around, 1), seq + around + 1)


def _stretches(matches: Sequence[MessageMatch], around: int) -> list[tuple[str, int, int]]:
    """Return what is to be read of a session, first and last, where matches lie close together."""
    found: list[tuple[str, int, int]] = []
    for match in sorted(matches, key=attrgetter("seq")):
        wanted = _around(match.seq, around)
        if found and wanted[0] <= found[-1][2] + 1:
            found[-1] = (match.session_id, found[-1][1], wanted[-1])
        else:
            found.append((match.session_id, wanted[0], wanted[-1]))
    return found


async def _found(
    match: MessageMatch, words: Sequence[str], logs: Logs, near: Sequence[Event]
) -> Found | None:
    """Return a message, with the one before and after it; `near` are the events around it."""
    seq = match.seq
    event = next((each for each in near if each.seq == seq), None)
    if event is None:
        return None
    said = [each for each in texts_of(event) if each[1].strip()]
    if not said:
        return None
    held: tuple[SearchRole, str] | None = None
    for each in said:
        if await _place(each[1], words) >= 0:
            held = each
            break
    role, text = held or said[0]
    name = "" if held else file_of(event)
    whole = await _file(match.session_id, name, logs) if name else None
    text = text if whole is None else whole
    return Found(
        session_id=match.session_id,
        event=event,
        role=role,
        text=text,
        position=max(await _place(text, words), 0),
        file="" if whole is None else name,
        before=next((e for e in reversed(near) if e.seq < seq and _is_talk(e)), None),
        after=next((e for e in near if e.seq > seq and _is_talk(e)), None),
    )


async def _file(session_id: str, name: str, logs: Logs) -> str | None:
    try:
        return await logs.result(session_id, name)
    except (JournalError, UnknownSessionError):
        return None


def _is_talk(event: Event) -> bool:
    """Return whether people or the agent say something with an event."""
    return any(role in {"user", "assistant"} and text.strip() for role, text in texts_of(event))


def snippet(found: Found, characters: int = SNIPPET_CHARACTERS) -> str:
    """Return what stands around the place that was found, in one line."""
    text = found.text
    begin = max(0, found.position - _BEFORE) if len(text) > characters else 0
    part = " ".join(text[begin : begin + characters].split())
    end = "…" if begin + characters < len(text) else ""
    return f"{'…' if begin else ''}{part}{end}"


async def _place(text: str, words: Sequence[str]) -> int:
    """Return `place`; of a long text, which takes a while to fold, found beside the event loop."""
    if len(text) <= _LONG_CHARACTERS:
        return place(text, words)
    return await to_thread.run_sync(place, text, words)


def place(text: str, words: Sequence[str]) -> int:
    """Return where the longest of the words that are there stands, or its stem; -1 = none is."""
    folded = fold(text)
    for word in words:
        at = folded.find(word)
        if at < 0 and len(word) > _STEM:  # the index compares stems: `flights` finds `flight`
            at = folded.find(word[: max(_STEM, len(word) - _ENDING)])
        if at >= 0:
            # Folding may make a text longer: some characters beside it.
            return at if len(folded) == len(text) else at * len(text) // max(len(folded), 1)
    return -1
