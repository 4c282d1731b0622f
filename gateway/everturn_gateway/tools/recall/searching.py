"""A search through everything that was said, newest first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

from anyio import to_thread
from msgspec import Struct, field

from everturn_actors.outside import together
from everturn_gateway.tools.recall.answers import Answers, Lost
from everturn_gateway.tools.recall.messages import Said, ask, heading, one_line, whole
from everturn_gateway.tools.recall.overview import discarded
from everturn_gateway.tools.recall.pages import page_of
from everturn_gateway.tools.recall.words import find, searched, snippet, words_of

HITS_MAX: Final = 200  # newest ones that a search gives; older ones need better words
_SUMMARISED_MAX: Final = 200  # files of what was summarised, each naming the one before
_FILE_BEFORE: Final = re.compile(r"`([A-Za-z0-9._-]{1,100})`")


class _Found(Struct):
    """What a search found so far."""

    lines: list[str] = field(default_factory=list[str])
    "Newest first, one message a line."
    lost: int = 0
    "Files that are gone, or cannot be read."

    @property
    def is_full(self) -> bool:
        return len(self.lines) >= HITS_MAX


async def search(answers: Answers, query: str) -> str:
    """Return the messages that hold all words of `query`, newest first.

    Raises:
        ToolFailedError: There are fewer pages of them.
    """
    words, found = words_of(query), _Found()
    async with aclosing(answers.log.backward(await answers.log.last_seq())) as chunks:
        async for chunk in chunks:
            await _search_chunk(answers, chunk, words, found)
            if found.is_full:
                break
    oldest = await answers.log.first_seq()
    if oldest > 1 and not found.is_full:
        await _search_summarised(answers, words, found)
    notes: list[str] = []
    if found.lost:
        notes.append(f"{found.lost} files are gone; of their texts only what the log kept counts.")
    if oldest > 1:
        notes.append(f"{discarded(oldest, answers.conversation)}.")
    if not found.lines:
        told = f"Nothing that was said here holds all of these words: {one_line(query, 200)}"
        return "\n".join([f"{told}. Try fewer, shorter or other words.", *notes])
    count = len(found.lines)
    if found.is_full:
        notes.append(f"Older ones than these {count} are left out; more words find fewer.")
    label = f"search for {one_line(query)!r}, {count} found, newest first"
    return await answers.paged(label, "\n".join(found.lines), notes)


async def _search_chunk(
    answers: Answers, chunk: Sequence[Said], words: Sequence[str], found: _Found
) -> None:
    """Search one chunk of the log, which is oldest first."""
    plain = [message for message in chunk if not _has_file(message)]
    work = partial(_lines, plain, words, answers.limit)
    lines = await to_thread.run_sync(work)
    for message in reversed(chunk):
        if found.is_full:
            return
        if _has_file(message):
            kept = await answers.read_file(message.path)
            found.lost += isinstance(kept, Lost)
            text = message.text if isinstance(kept, Lost) else kept
            line = await to_thread.run_sync(partial(_line, message, text, words, answers.limit))
        else:
            line = lines.get(message.seq)
        if line is not None:
            answers.found([message])
            found.lines.append(line)


async def _search_summarised(answers: Answers, words: Sequence[str], found: _Found) -> None:
    """Search what was discarded with a log, as far as files keep it."""
    summary = answers.conversation.reductions.summary
    name = summary.path if summary else ""
    seen: set[str] = set()
    while name and name not in seen and len(seen) < _SUMMARISED_MAX and not found.is_full:
        seen.add(name)
        text = await answers.read_file(name)
        if isinstance(text, Lost):
            found.lost += 1
            return
        line = await to_thread.run_sync(partial(_file_line, name, text, words, answers.limit))
        if line is not None:
            found.lines.append(line)
            answers.sources = together(answers.sources, summary.outside if summary else ())
        before = _FILE_BEFORE.search(text.partition("\n## ")[0])
        name = before[1] if before else ""


def _file_line(name: str, text: str, words: Sequence[str], limit: int) -> str | None:
    """Return where and how a file of what was summarised holds the words."""
    position = find(text, words)
    if position is None:
        return None
    page = page_of(text, position, limit)
    where = ask(file=name, page=page) if page > 1 else ask(file=name)
    return f"{where}: {snippet(text, position)}"


def _has_file(message: Said) -> bool:
    return message.kind == "result" and bool(message.path) and searched(message) is not None


def _lines(messages: Sequence[Said], words: Sequence[str], limit: int) -> dict[int, str]:
    """Return a line for each message that is found, by its number."""
    lines: dict[int, str] = {}
    for message in messages:
        text = searched(message)
        line = None if text is None else _line(message, text, words, limit)
        if line is not None:
            lines[message.seq] = line
    return lines


def _line(message: Said, text: str, words: Sequence[str], limit: int) -> str | None:
    """Return where and how `text`, all of a message, holds the words; None where it does not."""
    position = find(text, words)
    if position is None:
        return None
    body = whole(message, text) if message.kind == "result" else text
    page = page_of(body, len(body) - len(text) + position, limit)
    place = f"{message.seq}, page {page}" if page > 1 else f"{message.seq}"
    return f"[{place}] {heading(message)}: {snippet(text, position)}"
