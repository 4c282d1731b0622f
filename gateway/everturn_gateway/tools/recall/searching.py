"""A search through what was said, the best match first: here, or wherever it may be looked for.

Each message is shown with the one before and the one after it: what answers a question often has
none of its words, and stands beside a message that has.
"""

from __future__ import annotations

import re
from typing import Final

from anyio import to_thread
from msgspec import Struct, field

from everturn_actors.events import Event
from everturn_actors.outside import together
from everturn_actors.ports.search import MessageIndex, MessageQuery
from everturn_gateway.clock import SystemClock
from everturn_gateway.search.finding import Found, find, place
from everturn_gateway.search.index import open_message_index
from everturn_gateway.search.logs import StoreLogs
from everturn_gateway.search.table import IndexedSession
from everturn_gateway.search.texts import sender_of, texts_of
from everturn_gateway.search.words import spoken
from everturn_gateway.tools.recall.answers import Answers, Lost
from everturn_gateway.tools.recall.messages import NAME, Said, ask, heading, one_line, said, whole
from everturn_gateway.tools.recall.overview import discarded
from everturn_gateway.tools.recall.pages import page_of
from everturn_gateway.tools.recall.queries import AskSearch
from everturn_gateway.tools.recall.scopes import Reach
from everturn_gateway.tools.recall.words import snippet

HITS_MAX: Final = 60  # the best ones that a search gives; for others it takes other words
_BESIDE_CHARACTERS: Final = 250  # of a message beside one that was found
_SUMMARISED_MAX: Final = 200  # files of what was summarised, each naming the one before
_FILE_BEFORE: Final = re.compile(r"`([A-Za-z0-9._-]{1,100})`")
_SCOPE_WORDS: Final = {
    "session": "was said here",
    "person": "was said in any conversation with this person",
    "agent": "was said in any conversation that may be read",
}


async def search(
    answers: Answers, asked: AskSearch, reach: Reach, index: MessageIndex | None
) -> str:
    """Return the messages that fit a question or words, the best first.

    Args:
        answers: Answers the call.
        asked: What is looked for.
        reach: Where it may be looked for.
        index: Finds it; None = there is none here, and this session is looked through for once.

    Raises:
        ToolFailedError: There are fewer pages of them.
        JournalError: The log cannot be read.
    """
    if index is None:
        context = reach.context
        async with open_message_index(None, context.store, SystemClock()) as own:
            session = IndexedSession(
                session_id=context.session_id, key=context.key, created_at=await answers.log.begun()
            )
            await own.read_session(session, is_all=True)
            return await _search(answers, asked, reach, own)
    return await _search(answers, asked, reach, index)


async def _search(answers: Answers, asked: AskSearch, reach: Reach, index: MessageIndex) -> str:
    context = reach.context

    async def may_see(session_id: str) -> bool:
        if session_id == context.session_id:
            return True
        row = await context.store.summary(session_id)
        return row is not None and reach.admits(asked.scope, row)

    query = MessageQuery(
        text=asked.query,
        places=reach.places(asked.scope),
        sender=asked.sender,
        since=asked.since,
        until=asked.until,
        limit=HITS_MAX,
    )
    page = await find(index, query, StoreLogs(context.store), may_see, with_neighbours=True)
    lines = _Lines(answers, reach)
    for found in page.found:
        await lines.add(found)
    notes: list[str] = []
    oldest = await answers.log.first_seq()
    if oldest > 1:
        lines.texts += await _discarded_lines(answers, asked.query)
        notes.append(f"{discarded(oldest, answers.conversation)}.")
    if page.searched_to is not None:
        notes.append(
            "The index is being made anew from the logs: not everything was searched. Ask again in"
            " a minute."
        )
    if not lines.texts:
        told = f"Nothing that {_SCOPE_WORDS[asked.scope]} holds any of these words"
        hint = "Try others, also in the language in which it was said"
        wider = "" if asked.scope == "agent" else ", or a wider scope"
        return "\n".join([f"{told}: {one_line(asked.query, 200)}. {hint}{wider}.", *notes])
    if page.next_offset is not None:
        notes.append(f"More than these {lines.found} fit less well; other words find others.")
    label = f"search for {one_line(asked.query)!r}, {lines.found} found, the best first"
    return await answers.paged(label, "\n".join(lines.texts), notes)


class _Lines(Struct):
    """What is shown of what was found: a line for each message, those beside it indented."""

    answers: Answers
    reach: Reach
    texts: list[str] = field(default_factory=list[str])
    found: int = 0
    shown: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    async def add(self, found: Found) -> None:
        """Add a message that was found, between those beside it."""
        place = found.session_id, found.event.seq
        if place in self.shown or self._is_asked_now(*place):
            return
        self.shown.add(place)
        line = await self._line(found)
        if not line:
            return
        self.found += 1
        before = await self._beside(found.session_id, found.before)
        after = await self._beside(found.session_id, found.after)
        self.texts += filter(None, (before, line, after))

    def _is_asked_now(self, session_id: str, seq: int) -> bool:
        """Return whether a message is a part of the turn that asks: it would find itself."""
        current = self.reach.context.conversation.current
        if current is None or session_id != self.reach.context.session_id:
            return False
        first = min((user.seq for user in current.heard), default=0)
        return bool(first) and seq >= first

    async def _line(self, found: Found) -> str:
        """Return where and how a message speaks of it; empty where it only repeats."""
        event, day = found.event, f"{found.event.at:%Y-%m-%d}"
        text, answers = found.text, self.answers
        message = await self._said(found.session_id, event)
        if message is not None and message.kind == "result" and message.name == NAME:
            return ""
        shown = snippet(text, found.position)
        who = _who(message, event, found.role)
        if found.session_id != self.reach.context.session_id:
            where = ask(message=event.seq, session=found.session_id)
            return f"[{day}, {where}] {who}: {shown}"
        if found.file and message is not None and message.kind == "summary":
            page = page_of(text, found.position, answers.limit)
            paged = {"page": page} if page > 1 else {}
            return f"[{day}, {ask(file=found.file, **paged)}] what was summarised: {shown}"
        body = whole(message, text) if found.file and message is not None else text
        page = page_of(body, len(body) - len(text) + found.position, answers.limit)
        where = f", page {page}" if page > 1 else ""
        return f"[{event.seq}{where}, {day}] {who}: {shown}"

    async def _beside(self, session_id: str, event: Event | None) -> str:
        """Return a line for a message beside one that was found; empty where it is shown."""
        if event is None or (session_id, event.seq) in self.shown:
            return ""
        if self._is_asked_now(session_id, event.seq):
            return ""
        self.shown.add((session_id, event.seq))
        message = await self._said(session_id, event)
        role, text = next(iter(texts_of(event)))
        who = _who(message, event, role)
        return f"  [{event.seq}, {event.at:%Y-%m-%d}] {who}: {snippet(text, 0, _BESIDE_CHARACTERS)}"

    async def _said(self, session_id: str, event: Event) -> Said | None:
        """Return a message as transcripts have it, and take note of the text from outside in it."""
        context = self.reach.context
        if session_id != context.session_id:
            row = await context.store.summary(session_id)
            if row is None or not self.reach.is_own(row.key):
                self._note((f"the conversation {session_id}",))
        message = next(said([event]), None)
        if message is not None and message.kind == "result":
            # Which tool gave it stands in the step before.
            message = await self.answers.log_of(session_id).message(event.seq)
        if message is not None:
            self._note(message.sources)
        return message

    def _note(self, sources: tuple[str, ...]) -> None:
        self.answers.sources = together(self.answers.sources, sources)


def _who(message: Said | None, event: Event, role: str) -> str:
    return one_line(sender_of(event)) or role if message is None else heading(message)


async def _discarded_lines(answers: Answers, query: str) -> list[str]:
    """Return where it stands in what was discarded with a log, as far as files keep it."""
    summary = answers.conversation.reductions.summary
    name = summary.path if summary else ""
    seen, lines, words = set[str](), list[str](), spoken(query)
    while name and name not in seen and len(seen) < _SUMMARISED_MAX:
        seen.add(name)
        text = await answers.read_file(name)
        if isinstance(text, Lost):
            break
        position = await to_thread.run_sync(place, text, words)
        if position >= 0:
            page = page_of(text, position, answers.limit)
            where = ask(file=name, page=page) if page > 1 else ask(file=name)
            lines.append(f"[{where}] what was summarised: {snippet(text, position)}")
            answers.sources = together(answers.sources, summary.outside if summary else ())
        before = _FILE_BEFORE.search(text.partition("\n## ")[0])
        name = before[1] if before else ""
    return lines
