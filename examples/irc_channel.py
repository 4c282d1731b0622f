"""A channel of one's own: IRC, in some sixty lines on the kit for channels.

Name it in `everturn.yaml`, and write to the bot in its channel or alone:

    channels:
      external:
        - name: irc
          command: python3
          args: [examples/irc_channel.py]
          env: {IRC_HOST: irc.example.com, IRC_NICK: everturn, IRC_CHANNEL: "#garden"}

IRC keeps nothing and gives no ids: what is said while the bot is away is lost, and a message whose
connection broke may be shown twice. A name there is whoever's who takes it: pair people only where
the server keeps names for their owners.

Source: https://www.rfc-editor.org/rfc/rfc2812, sections 2.3.1, 3.1, 3.3.1 and 3.7.2.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import ssl

from everturn_channels.plugin.kit import (
    Channel,
    ChatRef,
    Gateway,
    Message,
    Outbound,
    Person,
    SetupError,
    run,
)

HOST, PORT = os.environ.get("IRC_HOST", "127.0.0.1"), int(os.environ.get("IRC_PORT", "6697"))
NICK, ROOM = os.environ.get("IRC_NICK", "everturn"), os.environ.get("IRC_CHANNEL", "")
LINE = re.compile(
    r"(?::(?P<nick>[^! ]+)\S* )?(?P<verb>\S+) ?(?P<middle>[^:]*?) ?(?::(?P<rest>.*))?"
)


class Irc(Channel):
    """One connection to one server."""

    name = "irc"
    # A line has 512 bytes with everything; what is left of it holds for the longest names.
    capabilities = {"chunk_units": 350, "unit": "bytes", "idle_s": 300}  # noqa: RUF012 - is read only

    async def serve(self, gateway: Gateway) -> None:
        """Log in, join, and hand in what is said."""
        tls = ssl.create_default_context() if PORT == 6697 else None
        reader, self._writer = await asyncio.open_connection(HOST, PORT, ssl=tls)
        ids = map(f"{os.urandom(4).hex()}-{{}}".format, itertools.count(1))
        nick = NICK
        self._write(f"NICK {nick}", f"USER {NICK} 0 * :Everturn")
        try:
            while line := await reader.readline():
                said = LINE.fullmatch(line.decode("utf-8", "replace").strip())
                if said is None:
                    continue
                rest = said["rest"] or ""
                match said["verb"]:
                    case "PING":
                        self._write(f"PONG :{rest or said['middle']}")
                        gateway.received()
                    case "001":
                        self._write(f"JOIN {ROOM}") if ROOM else None
                        gateway.connected(nick)
                    case "433" if len(nick) < len(NICK) + 3:  # as before a connection that broke
                        nick += "_"
                        self._write(f"NICK {nick}")
                    case "432" | "433":
                        msg = f"the server refuses the name {nick!r}: {rest}; set IRC_NICK"
                        raise SetupError(msg)
                    case "PRIVMSG":
                        await gateway.handle(
                            _message(next(ids), said["nick"], said["middle"], rest)
                        )
                    case _:
                        pass
        finally:
            self._write("QUIT :until later")
            self._writer.close()

    async def send(self, message: Outbound) -> str:
        """Write each line of a message as one of IRC, which knows no empty ones."""
        lines = filter(str.strip, message.text.splitlines())
        self._write(*(f"PRIVMSG {message.chat_id} :{line}" for line in lines))
        await self._writer.drain()
        return message.nonce or "answer"

    def _write(self, *lines: str) -> None:
        for line in lines:
            self._writer.write(line.replace("\r", " ").encode() + b"\r\n")


def _message(number: str, nick: str, to: str, text: str) -> Message:
    """Return what somebody said, in a room or alone; in a room the bot is called by its name."""
    called = re.match(rf"{re.escape(NICK)}_*[:,] *", text, re.IGNORECASE)
    is_room = to.startswith(("#", "&"))
    return Message(
        id=number,
        chat=ChatRef(to, type="group", title=to) if is_room else ChatRef(nick),
        sender=Person(id=nick, name=nick),
        text=text[called.end() :] if called else text,
        is_addressed=bool(called) or not is_room,
    )


if __name__ == "__main__":
    run(Irc())
