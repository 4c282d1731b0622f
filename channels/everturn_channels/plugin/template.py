"""A channel for Everturn: a chat of lines over TCP. Put your platform in its place.

Whoever connects says a name in the first line; every other line is a message. Try it with
`nc 127.0.0.1 7000`.
"""

from __future__ import annotations

import asyncio
import itertools
import os

from everturn_channels.plugin.kit import (
    Channel,
    ChatRef,
    Command,
    Gateway,
    Message,
    Outbound,
    Person,
    RefusedError,
    UnusableEventError,
    run,
)

HOST, PORT = "127.0.0.1", int(os.environ.get("CHAT_PORT", "7000"))
IDLE_S = 60


class LineChat(Channel):
    """Listens on a port; who is connected is who can be written to."""

    name = "line-chat"
    capabilities = {"chunk_units": 2000, "typing_s": 5, "idle_s": IDLE_S}  # noqa: RUF012 - is read only

    def __init__(self) -> None:
        self._people: dict[str, asyncio.StreamWriter] = {}
        # This platform has no ids of messages: these do not come again after a restart.
        self._ids = map(f"{os.urandom(4).hex()}-{{}}".format, itertools.count(1))

    async def serve(self, gateway: Gateway) -> None:
        """Listen, and say that all is well while nobody writes."""

        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._read(gateway, reader, writer)

        server = await asyncio.start_server(meet, HOST, PORT)
        host, port = server.sockets[0].getsockname()
        gateway.connected(f"tcp://{host}:{port}")
        try:
            while True:
                await asyncio.sleep(IDLE_S / 3)
                gateway.received()
        finally:
            server.close()  # and does not wait for people to leave

    async def _read(
        self, gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Hand in what one person writes; it is on disk before the next line is read."""
        name = (await reader.readline()).decode(errors="replace").strip() or "somebody"
        self._people[name] = writer
        try:
            while line := await reader.readline():
                if text := line.decode(errors="replace").strip():
                    await gateway.handle(self._event(name, text))
        except (OSError, ValueError, UnusableEventError) as error:  # gone, or too long
            print(f"{name} is hung up on: {error}")
        finally:
            if self._people.get(name) is writer:
                del self._people[name]
            writer.close()

    def _event(self, name: str, text: str) -> Message | Command:
        number, chat, sender = next(self._ids), ChatRef(name), Person(id=name, name=name)
        if not text.startswith("/"):
            return Message(id=number, chat=chat, sender=sender, text=text)
        word, _, rest = text[1:].partition(" ")
        return Command(id=number, chat=chat, sender=sender, name=word or "help", argument=rest)

    async def send(self, message: Outbound) -> str:
        """Write to a person. After any other error than this one the message comes again."""
        writer = self._people.get(message.chat_id)
        if writer is None:
            why = f"{message.chat_id} has left"
            raise RefusedError(why, is_chat_gone=True)
        writer.write(f"{message.text}\n".encode())
        await writer.drain()
        return next(self._ids)

    async def type(self, chat: str, topic: str) -> None:
        """Show that an answer is on its way."""
        del topic
        await self.send(Outbound(chat_id=chat, text="..."))


if __name__ == "__main__":
    run(LineChat())
