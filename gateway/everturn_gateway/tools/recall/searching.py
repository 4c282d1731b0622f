"""A search through what was said, the best match first: here, or wherever it may be looked for."""

from __future__ import annotations

import re
from typing import Final

from anyio import to_thread

from everturn_actors.outside import together
from everturn_actors.ports.search import MessageIndex, MessageQuery
from everturn_gateway.clock import SystemClock
from everturn_gateway.search.finding import Found, find, place
from everturn_gateway.search.index import open_message_index
from everturn_gateway.search.logs import StoreLogs
from everturn_gateway.search.table import IndexedSession
from everturn_gateway.search.texts import sender_of
from everturn_gateway.search.words import spoken
from everturn_gateway.tools.recall.answers import Answers, Lost
from everturn_gateway.tools.recall.asking import AskSearch
from everturn_gateway.tools.recall.messages import NAME, ask, heading, one_line, whole
from everturn_gateway.tools.recall.overview import discarded
from everturn_gateway.tools.recall.pages import page_of
from everturn_gateway.tools.recall.scopes import Reach
from everturn_gateway.tools.recall.words import snippet

HITS_MAX: Final = 100  # the best ones that a search gives; for others it takes other words
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
    """
    if index is None:
        context = reach.context
        async with open_message_index(None, context.store, SystemClock()) as own:
            session = IndexedSession(
                session_id=context.session_id, key=context.key, created_at=await answers.log.begun()
            )
            await own.read_alone(session)
            return await _search(answers, asked, reach, own, is_whole=True)
    return await _search(answers, asked, reach, index)


async def _search(
    answers: Answers,
    asked: AskSearch,
    reach: Reach,
    index: MessageIndex,
    *,
    is_whole: bool = False,
) -> str:
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
    page = await find(index, query, StoreLogs(context.store), may_see)
    asked_now = (each for each in page.found if not _is_asked_now(reach, each))
    shown = [await _line(answers, reach, found) for found in asked_now]
    lines = [line for line in shown if line]
    notes: list[str] = []
    oldest = await answers.log.first_seq()
    if oldest > 1:
        lines += await _discarded_lines(answers, asked.query)
        notes.append(f"{discarded(oldest, answers.conversation)}.")
    if page.searched_to is not None and not is_whole:
        notes.append(
            "The index is being made anew from the logs: not everything was searched. Ask again in"
            " a minute."
        )
    if not lines:
        told = f"Nothing that {_SCOPE_WORDS[asked.scope]} holds any of these words"
        hint = "Try others, also in the language in which it was said"
        wider = "" if asked.scope == "agent" else ", or a wider scope"
        return "\n".join([f"{told}: {one_line(asked.query, 200)}. {hint}{wider}.", *notes])
    if page.next_offset is not None:
        notes.append(f"More than these {len(lines)} fit less well; other words find others.")
    label = f"search for {one_line(asked.query)!r}, {len(lines)} found, the best first"
    return await answers.paged(label, "\n".join(lines), notes)


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


def _is_asked_now(reach: Reach, found: Found) -> bool:
    """Return whether a message is a part of the turn that asks: it would find itself."""
    current = reach.context.conversation.current
    if current is None or found.session_id != reach.context.session_id:
        return False
    first = min((user.seq for user in current.heard), default=0)
    return bool(first) and found.event.seq >= first


async def _line(answers: Answers, reach: Reach, found: Found) -> str:
    """Return where and how a message speaks of it, in one line; empty where it only repeats."""
    seq, day = found.event.seq, f"{found.event.at:%Y-%m-%d}"
    shown = snippet(found.text, found.position)
    if found.session_id != reach.context.session_id:
        row = await reach.context.store.summary(found.session_id)
        if row is None or not reach.is_own(row.key):
            source = f"the conversation {found.session_id}"
            answers.sources = together(answers.sources, (source,))
        else:
            said = await answers.log_of(found.session_id).message(seq)
            answers.found([said] if said is not None else [])
        who = one_line(sender_of(found.event)) or found.role
        where = ask(message=seq, session=found.session_id)
        return f"[{day}, {where}] {who}: {shown}"
    said = await answers.log.message(seq)
    if said is None:
        who = one_line(sender_of(found.event)) or found.role
        return f"[{seq}, {day}] {who}: {shown}"
    if said.kind == "result" and said.name == NAME:
        return ""
    answers.found([said])
    if found.file:
        text = whole(said, found.text) if said.kind == "result" else found.text
        page = page_of(text, len(text) - len(found.text) + found.position, answers.limit)
        paged = {"page": page} if page > 1 else {}
        if said.kind == "summary":
            return f"[{day}, {ask(file=found.file, **paged)}] what was summarised: {shown}"
        where = f", page {page}" if page > 1 else ""
        return f"[{seq}{where}, {day}] {heading(said)}: {shown}"
    page = page_of(found.text, found.position, answers.limit)
    where = f", page {page}" if page > 1 else ""
    return f"[{seq}{where}, {day}] {heading(said)}: {shown}"
