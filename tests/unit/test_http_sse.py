"""Event streams: what is on the wire, and how a silent stream is kept open."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias

import anyio
import orjson
from starlette.types import Message
from support.patience import WAIT_S
from support.tables import table

from everturn_gateway.http import sse
from everturn_gateway.http.waiting import OpenWaits

DEADLINE_S = WAIT_S
Source: TypeAlias = Callable[[sse.WriteNow], AsyncGenerator[bytes]]


class Wire:
    """Both ends of one request: what was sent, and when its client goes."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.gone = anyio.Event()
        self._changed = anyio.Event()

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        self._changed.set()

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    async def until_sent(self, part: bytes) -> None:
        """Wait until `part` was sent."""
        with anyio.fail_after(DEADLINE_S):
            while part not in self.body:
                self._changed = anyio.Event()
                await self._changed.wait()


def endless(*chunks: bytes) -> Source:
    """Return what yields `chunks`, then nothing more for ever."""

    async def source(_: sse.WriteNow) -> AsyncGenerator[bytes]:
        for chunk in chunks:
            yield chunk
        await anyio.sleep_forever()

    return source


async def serve(stream: sse.EventStream, wire: Wire) -> None:
    """Send `stream` as an answer."""
    await stream({"type": "http"}, wire.receive, wire.send)


@table("text", ["", "a\nb", "a\r\nb\r", "\u2028", "\n\ndata: x\n\n", "é\x00"])
def test_no_text_breaks_a_message(text: str) -> None:
    """A line break in a reply must not end the message that carries it."""
    wire = sse.message("token", {"text": text}, seq=7)
    lines = wire.decode().split("\n")

    assert lines[0] == "event: token"
    assert lines[1] == "id: 7"
    assert orjson.loads(lines[2].removeprefix("data: ")) == {"text": text}
    assert lines[3:] == ["", ""]
    assert b"\r" not in wire
    # An id that is empty would make a client forget its last one.
    assert sse.message("token", {"text": text}).startswith(b"event: token\ndata: ")


async def test_a_silent_stream_is_kept_open_by_comments() -> None:
    """Or by what there is to say."""
    # Proxies close what is silent; a comment is no message to a client.
    wire = Wire()
    stream = sse.EventStream(
        endless(b"data: 1\n\n"), OpenWaits(), silence=sse.Silence(longest_s=0.001)
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, stream, wire)
        await wire.until_sent(b"data: 1\n\n: keep-alive\n\n: keep-alive\n\n")
        wire.gone.set()

    assert wire.sent[0]["type"] == "http.response.start"

    # In silence there may be something to say. Who waits for a busy model learns of it; a comment
    # stands for nothing else.
    wire, said = Wire(), [b"data: busy\n\n", b""]
    stream = sse.EventStream(
        endless(b"data: 1\n\n"),
        OpenWaits(),
        silence=sse.Silence(longest_s=0.001, says=lambda: said.pop(0) if said else b""),
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, stream, wire)
        await wire.until_sent(b"data: 1\n\ndata: busy\n\n: keep-alive\n\n")
        wire.gone.set()


async def test_what_a_source_writes_at_once_passes_the_layers_by() -> None:
    """A token goes straight to the connection; where that takes none, the usual way is left."""
    wire, direct = Wire(), list[bytes]()

    def write(chunk: bytes) -> bool:
        direct.append(chunk)
        return len(direct) == 1

    async def source(write_now: sse.WriteNow) -> AsyncGenerator[bytes]:
        yield b"data: 1\n\n"
        for chunk in (b"data: 2\n\n", b"data: 3\n\n"):
            if not write_now(chunk):
                yield chunk

    stream = sse.EventStream(source, OpenWaits())
    await stream({"type": "http", sse.WRITE_NOW: write}, wire.receive, wire.send)

    assert direct[0] == b"data: 2\n\n"
    assert wire.body == b"data: 1\n\ndata: 3\n\n"


async def test_a_client_that_goes_is_told_of_and_nothing_more_is_sent() -> None:
    """The session learns of it once, and the source is closed."""
    wire, left = Wire(), list[str]()

    async def on_leave() -> None:
        left.append("left")

    stream = sse.EventStream(endless(b"data: 1\n\n"), OpenWaits(), on_leave=on_leave)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, stream, wire)
        await wire.until_sent(b"data: 1\n\n")
        wire.gone.set()

    assert left == ["left"]
    assert wire.sent[-1]["more_body"] is True


async def test_a_stopping_server_ends_followers_at_once_and_turns_with_a_word() -> None:
    """And whoever comes in between."""
    # Followers come back by themselves; who waits for an answer has to be told.
    waits = OpenWaits()
    follower, turn = Wire(), Wire()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, sse.EventStream(endless(b"data: 1\n\n"), waits), follower)
        tasks.start_soon(
            serve, sse.EventStream(endless(b"data: 2\n\n"), waits, farewell=b"data: bye\n\n"), turn
        )
        await follower.until_sent(b"data: 1\n\n")
        await turn.until_sent(b"data: 2\n\n")
        waits.end_followers()
        with anyio.fail_after(DEADLINE_S):
            while follower.sent[-1]["more_body"]:
                await anyio.lowlevel.checkpoint()
        before = turn.body
        waits.end_waiters()

    assert follower.body == b"data: 1\n\n"
    assert before == b"data: 2\n\n"
    assert turn.body == b"data: 2\n\ndata: bye\n\n"
    assert turn.sent[-1]["more_body"] is False

    # A stream that begins while the server stops ends at once. No request slips in between the stop
    # and the end.
    waits, wire = OpenWaits(), Wire()
    waits.end_followers()
    with anyio.fail_after(DEADLINE_S):
        await serve(sse.EventStream(endless(), waits), wire)

    assert wire.sent[-1]["more_body"] is False
