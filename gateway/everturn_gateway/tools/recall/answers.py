"""What the model gets for each thing that it can ask for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

from anyio import to_thread
from msgspec import Struct

from everturn_actors.errors import JournalError, ToolFailedError
from everturn_actors.model import Conversation
from everturn_actors.outside import together
from everturn_actors.ports import ToolContext
from everturn_gateway.tools.recall.log import LogReader
from everturn_gateway.tools.recall.messages import (
    Said,
    ask,
    framed,
    heading,
    one_line,
    transcript,
    whole,
)
from everturn_gateway.tools.recall.overview import FILES_MAX, discarded, overview
from everturn_gateway.tools.recall.pages import Pager, PageSize

logger = logging.getLogger(__name__)

_ORIGIN_CHUNKS: Final = 10  # of the log, looked through for the message that a file belongs to
_FILES_CHUNKS: Final = 50  # for the names of files
_OLD_FILE: Final = "an old file of this conversation"  # nobody looks for what it was
_PART_CHARACTERS: Final = 80  # of the first words of a turn
_NEAR_EVENTS: Final = 20  # a number that is no message is near one


class Lost(Struct, frozen=True, kw_only=True):
    """A file that cannot be had."""

    name: str
    why: str

    @property
    def note(self) -> str:
        """What to tell of it where something else takes its place."""
        return f"The file {self.name} {self.why}; this is what the log kept."


class Answers:
    """Answers one call."""

    def __init__(
        self, context: ToolContext, *, page: int, limit: PageSize, session_id: str = ""
    ) -> None:
        """Give page `page` of each answer, each of at most `limit`.

        Where `session_id` is set, messages and ranges are those of that session; the caller has
        made sure that it may be read.
        """
        self.log = LogReader(context, session_id)
        self.limit = limit
        self._context, self._page = context, page
        self.sources: tuple[str, ...] = ()
        "The text from outside in what was found, or behind it."

    def log_of(self, session_id: str) -> LogReader:
        """Return the log of another session, which may be read."""
        return LogReader(self._context, session_id)

    def found(self, messages: Iterable[Said]) -> None:
        """Take note of what the answer is made of."""
        self.sources = together(self.sources, *(message.sources for message in messages))

    @property
    def conversation(self) -> Conversation:
        """The session as it stood when the call began."""
        return self._context.conversation

    async def message(self, seq: int) -> str:
        """Return one message, whole.

        Raises:
            ToolFailedError: There is none of this number.
        """
        found = await self.log.message(seq)
        if found is None:
            raise ToolFailedError(await self._no_message(seq))
        return await self._quoted(found)

    async def call(self, call_id: str) -> str:
        """Return the newest result of a call, with the call's arguments.

        Raises:
            ToolFailedError: No call has this id, or it has no result yet.
        """

        def answers(message: Said) -> bool:
            made = message.kind == "assistant" and any(c.call_id == call_id for c in message.calls)
            return made or (message.kind == "result" and message.call_id == call_id)

        found = await self._newest(answers)
        if found is None:
            first = await self.log.first_seq()
            msg = f"call_id: no call has the id {one_line(call_id)!r}"
            raise ToolFailedError(f"{msg}; {self._discarded(first)}" if first > 1 else msg)
        if found.kind == "assistant":
            msg = f"call_id: the call {one_line(call_id)!r} has no result yet"
            raise ToolFailedError(msg)
        return await self._quoted(found, arguments=True)

    async def between(self, first: int, last: int | None) -> str:
        """Return what was said from `first` to `last` (None = the newest) as a transcript.

        Raises:
            ToolFailedError: Nothing was, or it was discarded.
        """
        oldest = await self.log.first_seq()
        if last is not None and last < oldest:
            raise ToolFailedError(self._discarded(oldest))
        notes = [f"{self._discarded(oldest)}."] if first < oldest else []
        pager, is_empty = Pager(self._page, self.limit), True
        async with aclosing(self.log.forward(first, last)) as chunks:
            async for chunk in chunks:
                is_empty = is_empty and not chunk
                self.found(chunk)
                await to_thread.run_sync(partial(_add, pager, chunk))
        if is_empty:
            newest = await self.log.last_seq()
            msg = f"from/to: nothing was said there; numbers go from {oldest} to {newest}"
            raise ToolFailedError(msg)
        label = f"messages from {first} on" if last is None else f"messages {first} to {last}"
        return self.framed(label, pager, notes)

    async def file(self, name: str) -> str:
        """Return a text that is kept as a file, or what is left of it.

        Raises:
            ToolFailedError: There is no such file, and no message that had one.
        """

        def owns(message: Said) -> bool:
            return message.path == name

        text = await self.read_file(name)
        if isinstance(text, str):
            origin = await self._newest(owns, chunks=_ORIGIN_CHUNKS)
            of = f", the whole {_origin(origin)}" if origin and origin.kind == "result" else ""
            self.sources = (_OLD_FILE,) if origin is None else origin.sources
            return await self.paged(f"file {name}{of}", text)
        origin = await self._newest(owns)
        if origin is None:
            known = "".join(f"; {ask(file=each.path)}" for each in await self._files())
            msg = f"file: there is no file {name!r}{known and f'. There are:{known[1:]}'}"
            raise ToolFailedError(msg)
        self.found([origin])
        label = f"what is left of file {name}, {_origin(origin)}"
        return await self.paged(label, whole(origin, origin.text), [text.note])

    async def summary(self, turn: int) -> str:
        """Return the first summary that tells of a turn, and the parts that it stands for.

        Raises:
            ToolFailedError: None does.
        """
        opened = await self.log.summary(turn)
        newest = self.conversation.reductions.summary
        if opened is None:
            until = f"turn {newest.last_turn}" if newest else "no turn at all"
            msg = f"summary: there is none of turn {turn}; summaries go up to {until}"
            raise ToolFailedError(msg)
        last = opened.body.last_turn
        parts = [f"Turns 1 to {last}, {opened.body.messages} messages:", "", opened.body.text, ""]
        parts.append("It is made of:")
        if opened.before:
            parts.append(f"- turns 1 to {opened.before}: {ask(summary=opened.before)}")
        for each in opened.turns:
            first = await self.log.message(each.first)
            said = f": {one_line(first.text, _PART_CHARACTERS)}" if first is not None else ""
            between = ask(**{"from": each.first, "to": each.last})
            parts.append(f"- turn {each.number}, {between}{said}")
        if opened.body.path:
            parts.append(f"- the whole of it: {ask(file=opened.body.path)}")
        self.sources = together(self.sources, opened.body.outside)
        return await self.paged(f"summary of turns 1 to {last}", "\n".join(parts))

    async def overview(self) -> str:
        """Return what there is to read back."""
        text = overview(
            self.conversation,
            first_seq=await self.log.first_seq(),
            last_seq=await self.log.last_seq(),
            files=await self._files(),
        )
        return await self.paged("overview of this conversation", text)

    async def read_file(self, name: str) -> str | Lost:
        """Return a text that is kept as a file, or why it cannot be had."""
        session_id = self._context.session_id
        try:
            text = await self._context.store.read_result(session_id, name)
        except JournalError as error:
            logger.warning(
                "a result that was kept cannot be read",
                extra={"session_id": session_id, "result": name, "error": str(error)},
            )
            return Lost(name=name, why="cannot be read")
        return Lost(name=name, why="was removed to make room") if text is None else text

    async def paged(self, label: str, text: str, notes: Sequence[str] = ()) -> str:
        """Return the page of a text that is asked for.

        Raises:
            ToolFailedError: It has fewer pages.
        """
        pager = Pager(self._page, self.limit)
        await to_thread.run_sync(pager.add, text)
        return self.framed(label, pager, notes)

    def framed(self, label: str, pager: Pager, notes: Sequence[str] = ()) -> str:
        """Return the page that a pager kept, as a quote.

        Raises:
            ToolFailedError: There are fewer pages.
        """
        page = pager.page()
        if page is None:
            msg = f"page: there is no page {self._page}; the last one is {pager.total}"
            raise ToolFailedError(msg)
        return framed(label, page, notes)

    async def _quoted(self, message: Said, *, arguments: bool = False) -> str:
        self.found([message])
        text, notes = message.text, list[str]()
        if message.kind == "result" and message.path:
            kept = await self.read_file(message.path)
            if isinstance(kept, Lost):
                notes.append(kept.note)
            else:
                text = kept
        at = f"{message.at:%Y-%m-%d %H:%M} UTC"
        label = f"{_origin(message)}, {at}"
        return await self.paged(label, whole(message, text, arguments=arguments), notes)

    async def _newest(
        self, wanted: Callable[[Said], bool], *, chunks: int | None = None
    ) -> Said | None:
        """Return the newest message that is wanted, of the newest `chunks` of the log or of all."""
        async with aclosing(self.log.backward(await self.log.last_seq())) as found:
            read = 0
            async for chunk in found:
                for message in reversed(chunk):
                    if wanted(message):
                        return message
                read += 1
                if read == chunks:
                    break
        return None

    async def _files(self) -> list[Said]:
        """Return the newest results whose whole text went to a file, newest first."""
        files: list[Said] = []

        def enough(message: Said) -> bool:
            if message.kind == "result" and message.path:
                files.append(message)
            return len(files) == FILES_MAX

        await self._newest(enough, chunks=_FILES_CHUNKS)
        return files

    async def _no_message(self, seq: int) -> str:
        """Return why there is no message of this number, and what there is."""
        first = await self.log.first_seq()
        if seq < first:
            return self._discarded(first)
        near: list[int] = []
        async with aclosing(self.log.forward(max(seq - _NEAR_EVENTS, 1), seq + _NEAR_EVENTS)) as at:
            async for chunk in at:
                near += [message.seq for message in chunk]
        if near:
            nearest = min(near, key=lambda each: abs(each - seq))
            return f"message: {seq} is not the number of a message; the nearest is {nearest}"
        return f"message: there is no {seq}; numbers go up to {await self.log.last_seq()}"

    def _discarded(self, first_seq: int) -> str:
        return discarded(first_seq, self.conversation)


def _add(pager: Pager, chunk: Sequence[Said]) -> None:
    pager.add(transcript(chunk))


def _origin(message: Said) -> str:
    return f"{heading(message)}, message {message.seq}"
