"""The example of XMPP keeps the contract of channels on a real Prosody: `make prosody`."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Final
from xml.etree.ElementTree import SubElement

import anyio
import pytest
from anyio import to_thread
from anyio.abc import SocketAttribute, SocketStream
from support.ports import free_port
from support.prosody import COMMAND, NAME, Prosody

from everturn.testing import ChannelContract, RecordingHandler
from everturn_channels.plugin.adapter import CURSOR, PluginAdapter
from everturn_channels.plugin.process import Program
from everturn_gateway.clock import SystemClock

if importlib.util.find_spec("slixmpp") or TYPE_CHECKING:
    import slixmpp  # which the other tests do without

if not (os.environ.get("EVERTURN_PROSODY") and COMMAND and importlib.util.find_spec("slixmpp")):
    pytest.skip(
        "no Prosody or no slixmpp: make prosody installs them, and runs its tests",
        allow_module_level=True,
    )
EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "xmpp_channel.py"
_NUMBERS: Final = count()
_PING: Final = re.compile(rb'<iq [^>]*?id="([^"]+)"[^>]*><ping')
_RETRACT: Final = "urn:xmpp:message-retract:1"


@pytest.fixture(scope="module")
def prosody() -> Iterator[Prosody]:
    """Run a Prosody for all tests of this module."""
    with TemporaryDirectory(prefix="prosody-") as folder:
        server = Prosody(Path(folder), free_port())
        anyio.run(server.start)
        yield server
        anyio.run(server.stop)


@asynccontextmanager
async def logged_in(user: str, port: int) -> AsyncGenerator[Any]:
    """Log somebody in while the block runs, who sees nothing by itself."""
    client = slixmpp.ClientXMPP(f"{user}@{NAME}", "pw")
    client.enable_plaintext, client.enable_starttls, client.enable_direct_tls = True, False, False
    client.plugin["feature_mechanisms"].unencrypted_scram = True
    for number in ("0030", "0199", "0308", "0313"):
        client.register_plugin(f"xep_{number}")
    started = anyio.Event()
    client.add_event_handler("session_start", lambda _: started.set())
    client.connect("127.0.0.1", port)
    await started.wait()
    try:
        yield client
        await client.plugin["xep_0199"].send_ping(NAME)  # the server has read what was sent
    finally:
        client.abort()


class Wire:
    """What lies between the bot and its server, and can be cut, or lose an answer."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.port = 0
        self.loses_answer = False
        "Whether the answer to the next ping behind a message is lost."
        self._has_said = False
        self._lost = b""
        "The number of that ping: other answers may be on their way."
        self._streams: list[SocketStream] = []

    async def cut(self) -> None:
        """End all connections."""
        for stream in self._streams:
            await stream.aclose()
        self._streams.clear()

    async def carry(self, bot: SocketStream) -> None:
        """Carry one connection."""
        async with bot:  # whatever comes
            with suppress(OSError):
                await self._carry(bot)

    async def _carry(self, bot: SocketStream) -> None:
        server = await anyio.connect_tcp("127.0.0.1", self._port)
        self._streams += [bot, server]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._pump, bot, server, self._note)
            tasks.start_soon(self._pump, server, bot, self._lose)

    def _note(self, data: bytes) -> bool:
        if self.loses_answer:
            self._has_said = self._has_said or b"<message" in data
            if self._has_said and (ping := _PING.search(data)):
                self.loses_answer, self._has_said, self._lost = False, False, ping[1]
        return True

    def _lose(self, data: bytes) -> bool:
        is_lost = bool(self._lost) and self._lost in data
        self._lost = b"" if is_lost else self._lost
        return not is_lost

    async def _pump(
        self, source: SocketStream, target: SocketStream, passes: Callable[[bytes], bool]
    ) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                data = await source.receive()
                if passes(data):
                    await target.send(data)
        for stream in (source, target):
            await stream.aclose()


class TestXmpp(ChannelContract):
    """Accounts of their own for each test."""

    server: ClassVar[Prosody]

    @pytest.fixture(autouse=True)
    def _server(self, prosody: Prosody, tmp_path: Path) -> None:
        type(self).server, self.folder = prosody, tmp_path
        self.number = next(_NUMBERS)
        self.chat_id, self.other_chat_id = (f"{n}{self.number}@{NAME}" for n in ("ann", "bob"))
        self.newest = ""
        "As ann's client calls it."

    @asynccontextmanager
    async def open_platform(self) -> AsyncGenerator[None]:
        """Use the server that runs, over a wire of its own."""
        self.wire = Wire(self.server.port)
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.wire.port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no database
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self.wire.carry)
            yield
            tasks.cancel_scope.cancel()

    def make_channel(self) -> PluginAdapter:
        """Return the example as a channel."""
        env = {
            "XMPP_JID": f"bot{self.number}@{NAME}",
            "XMPP_PASSWORD": "pw",
            "XMPP_HOST": "127.0.0.1",
            "XMPP_PORT": str(self.wire.port),
        }
        program = Program(
            channel="xmpp", command=sys.executable, args=(str(EXAMPLE),), env=env, cwd=self.folder
        )
        return PluginAdapter(program, restart="always", clock=SystemClock())

    async def write(self, text: str, chat_id: str) -> None:
        """Let somebody write."""
        await self._say(chat_id, text)

    async def _say(self, who: str, text: str, **more: str) -> None:
        user, _, _ = who.partition("@")
        async with logged_in(user, self.server.port) as client:
            stanza = client.make_message(mto=f"bot{self.number}@{NAME}", mbody=text, mtype="chat")
            stanza["id"] = more.pop("id", f"m{next(_NUMBERS)}")
            if original := more.get("corrects"):
                stanza["replace"]["id"] = original
            elif original := more.get("retracts"):
                SubElement(stanza.xml, f"{{{_RETRACT}}}retract", {"id": original})
            else:
                self.newest = stanza["id"]
            stanza.send()

    async def change(self, message_id: str, text: str) -> None:
        """Let ann correct what she wrote last."""
        await self._say(self.chat_id, text, corrects=self.newest)

    async def remove(self, message_id: str) -> None:
        """Let ann retract what she wrote last."""
        await self._say(self.chat_id, "retracted", retracts=self.newest)

    async def _archive(self, user: str, **query: Any) -> list[tuple[str, Any]]:
        async with logged_in(user, self.server.port) as client:
            found = client.plugin["xep_0313"].iterate(**query)
            held = [each["mam_result"] async for each in found]
        return [(each["id"], each["forwarded"]["stanza"]) for each in held]

    async def shown(self) -> Sequence[str]:
        """Return what ann sees: her archive, with corrections in their places."""
        seen: list[tuple[str, str]] = []
        for _, stanza in await self._archive(f"ann{self.number}"):
            if not str(stanza["from"]).startswith("bot") or not stanza["body"]:
                continue
            corrected = stanza.xml.find("{urn:xmpp:message-correct:0}replace")
            if corrected is None:
                seen.append((stanza["id"], stanza["body"]))
            else:
                first = corrected.get("id")
                seen = [(i, stanza["body"] if i == first else text) for i, text in seen]
        return [text for _, text in seen]

    async def unconfirmed(self, handler: RecordingHandler) -> int:
        """Return how many messages of people stand behind the cursor."""
        cursor, bot = handler.cursor(CURSOR), f"bot{self.number}"
        query = {"rsm": {"after": cursor}} if cursor else {}
        return sum(
            not str(stanza["from"]).startswith(bot)
            for _, stanza in await self._archive(bot, **query)
        )

    def text_of(self, payload: str) -> str:
        """Return the text."""
        return payload.partition(":")[2]

    async def interrupt(self) -> None:
        """End the server, and start it again."""
        await self.server.stop()
        await self.server.start()

    async def lose_answer(self) -> None:
        """Lose what the server says to the next message: the example waits ten seconds for it."""
        self.wire.loses_answer = True

    async def expel(self) -> None:
        """Remove ann's account."""
        await to_thread.run_sync(self.server.remove, f"ann{self.number}")

    async def revoke(self) -> None:
        """Change the bot's password, and cut the wire."""
        await to_thread.run_sync(self.server.set_password, f"bot{self.number}", "another")
        await self.wire.cut()
