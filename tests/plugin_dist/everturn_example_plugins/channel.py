"""A channel without a platform: a folder in which people leave texts, and one with the answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import anyio
from anyio import to_thread
from pydantic import Field

from everturn_actors.ports import Clock
from everturn_channels.adapter import (
    Adapter,
    Capabilities,
    ChatRef,
    InboundHandler,
    Message,
    Outbound,
    Person,
)
from everturn_channels.errors import SetupError
from everturn_channels.ingestion.chat_queues import open_chat_queues
from everturn_channels.ingestion.events import PlatformEvent
from everturn_gateway.plugins import ChannelPlugin, ChannelSetup, PluginChannelSettings

_LOOK_S: Final = 0.05


class MailboxSettings(PluginChannelSettings):
    """`channels.mailbox`."""

    folder: str
    "Where it stands: letters are read from `in`, answers written to `out`."
    seal: Annotated[str, Field(repr=False)] = ""
    "A secret word; every answer would be sealed with it."


class MailboxAdapter(Adapter):
    """A letter is `in/CHAT.NUMBER.txt`, an answer `out/CHAT.NUMBER.txt`."""

    def __init__(self, name: str, folder: Path, clock: Clock) -> None:
        """Read and write in `folder`, which is made where it is missing."""
        self.name, self.folder, self._clock = name, folder, clock
        self._sent = 0

    @property
    def platform(self) -> str:
        """The name of the plug-in."""
        return "mailbox"

    @property
    def capabilities(self) -> Capabilities:
        """A folder takes texts, and nothing else."""
        return Capabilities(edits=True, nonces=True, idle_s=60)

    async def serve(self, handler: InboundHandler) -> None:
        """Hand in letters in their order, until cancelled; one that was taken is removed."""
        await self._open()
        async with open_chat_queues(handler, self._clock) as queues:
            handler.connected(str(self.folder))
            while True:
                handler.received()
                for path in await to_thread.run_sync(self._letters):
                    await queues.put(self._letter(path))
                await anyio.sleep(_LOOK_S)

    def _letter(self, path: Path) -> PlatformEvent:
        return PlatformEvent(
            chat=path.name.partition(".")[0],
            id=path.name,
            kind="letter",
            read=partial(self._read, path),
            confirm=anyio.Path(path).unlink,  # only then: a letter that is lost is not answered
        )

    async def _read(self, path: Path) -> tuple[Message]:
        chat = path.name.partition(".")[0]
        text = await anyio.Path(path).read_text(encoding="utf-8")
        who = Person(id=chat, name=chat)
        at = self._clock.now()
        return (Message(id=path.stem, chat=ChatRef(id=chat), sender=who, text=text, at=at),)

    async def check(self) -> Sequence[str]:
        """Make the folder, and count what waits in it."""
        await self._open()
        return (f"{len(await to_thread.run_sync(self._letters))} letters wait",)

    async def send(self, message: Outbound) -> str:
        """Write an answer; its name comes from its nonce, so that twice is once."""
        self._sent += 1
        name = f"{message.chat_id}.{message.nonce or self._sent}.txt"
        await anyio.Path(self.folder / "out" / name).write_text(message.payload, encoding="utf-8")
        return name

    async def edit(self, chat_id: str, topic: str, platform_id: str, payload: str) -> None:
        """Write another answer in the place of one."""
        del chat_id, topic
        await anyio.Path(self.folder / "out" / platform_id).write_text(payload, encoding="utf-8")

    async def _open(self) -> None:
        try:
            for name in ("in", "out"):
                await anyio.Path(self.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            msg = f"the folder {self.folder} cannot be used: {error.strerror}"
            raise SetupError(msg) from error

    def _letters(self) -> list[Path]:
        return sorted((self.folder / "in").glob("*.txt"))


def _make(setup: ChannelSetup[MailboxSettings]) -> MailboxAdapter:
    return MailboxAdapter(setup.name, setup.folder / setup.settings.folder, setup.clock)


MAILBOX: Final = ChannelPlugin(
    name="mailbox",
    interface=1,
    summary="a folder with letters",
    docs="https://example.org/mailbox",
    settings=MailboxSettings,
    make=_make,
    check=lambda: ("the post is open",),
)
