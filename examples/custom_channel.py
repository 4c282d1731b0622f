"""A chat platform of your own: people connect over TCP, say who they are, and write lines.

Try it: `python examples/custom_channel.py 4000`, and in another terminal `nc 127.0.0.1 4000`.
"""

from __future__ import annotations

import sys
import uuid
from datetime import UTC, datetime
from functools import partial

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

import everturn

LINE_BYTES = 4096


class Lines(everturn.Channel):
    """Each connection is a chat, named by its first line."""

    name = "lines"

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: dict[str, SocketStream] = {}
        "Who is connected, by name."

    async def serve(self, handler: everturn.InboundHandler) -> None:
        """Listen until cancelled."""
        async with (
            everturn.open_chat_queues(handler) as queues,
            await anyio.create_tcp_listener(
                local_host="127.0.0.1", local_port=self._port
            ) as listener,
        ):
            self._port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - of a socket
            handler.connected(f"127.0.0.1:{self._port}")
            print(f"Say who you are, then write: nc 127.0.0.1 {self._port}", flush=True)
            await listener.serve(partial(self._talk, queues))

    async def send(self, message: everturn.Outbound) -> str:
        """Write an answer to whoever is connected under that name."""
        stream = self._open.get(message.chat_id)
        if stream is None:
            # It is tried again, and reaches them when they come back.
            raise everturn.NotSentError(f"{message.chat_id} is not connected")  # noqa: EM102, TRY003
        try:
            await stream.send(f"{message.payload}\n".encode())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise everturn.UnknownOutcomeError from error
        return uuid.uuid4().hex

    async def _talk(self, queues: everturn.ChatQueues, stream: SocketStream) -> None:
        """Read the lines of one person; they are taken in their order."""
        lines = BufferedByteReceiveStream(stream)
        async with stream:
            try:
                person = await self._line(lines)
                self._open[person] = stream
                while True:
                    message = self._message(person, await self._line(lines))
                    await queues.put(everturn.PlatformEvent(chat=person, events=(message,)))
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                return  # they left
            finally:
                self._open = {who: each for who, each in self._open.items() if each is not stream}

    async def _line(self, lines: BufferedByteReceiveStream) -> str:
        return (await lines.receive_until(b"\n", LINE_BYTES)).decode("utf-8", "replace").strip()

    def _message(self, person: str, text: str) -> everturn.Message:
        return everturn.Message(
            id=uuid.uuid4().hex,  # nobody sends a line twice; a platform has ids of its own
            chat=everturn.ChatRef(id=person),
            sender=everturn.Person(id=person, name=person),
            text=text,
            at=datetime.now(UTC),
        )


# Closed by default: here everybody who can connect may write.
AGENT = everturn.Agent(
    name="clerk", model="builtin/echo", settings={"access": {"dm": {"policy": "open"}}}
)


async def main(port: int) -> None:
    """Answer whoever connects, until the program is interrupted."""
    async with everturn.open_gateway(AGENT, channels=[Lines(port)]):
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
