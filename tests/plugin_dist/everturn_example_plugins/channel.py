"""A channel without a platform: a folder in which people leave texts, and one with the answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import anyio
from anyio import to_thread
from pydantic import Field

from everturn_actors.ports import Clock
from everturn_channels.adapter import (
    Button,
    Capabilities,
    ChatRef,
    InboundHandler,
    Message,
    Outbound,
    Person,
)
from everturn_channels.errors import NotNowError, SetupError
from everturn_gateway.plugins import ChannelPlugin, ChannelSection, ChannelSetup

CHUNK_CHARACTERS: Final = 4000
_LOOK_S: Final = 0.05


class MailboxSection(ChannelSection):
    """`channels.mailbox`."""

    folder: str
    "Where it stands: letters are read from `in`, answers written to `out`."
    seal: Annotated[str, Field(repr=False)] = ""
    "A secret word; every answer would be sealed with it."


class MailboxAdapter:
    """Implements `Adapter`. A letter is `in/CHAT.NUMBER.txt`, an answer `out/CHAT.NUMBER.txt`."""

    def __init__(self, name: str, folder: Path, clock: Clock) -> None:
        """Read and write in `folder`, which is made where it is missing."""
        self._name, self._folder, self._clock = name, folder, clock
        self._sent = 0

    @property
    def name(self) -> str:
        """The name of the channel."""
        return self._name

    @property
    def folder(self) -> Path:
        """Where letters and answers are."""
        return self._folder

    @property
    def platform(self) -> str:
        """The name of the plug-in."""
        return "mailbox"

    @property
    def capabilities(self) -> Capabilities:
        """A folder takes texts, and nothing else."""
        return Capabilities(
            edits=True,
            typing_s=0,
            preview_s=0,
            has_drafts=lambda _type: False,
            buttons=False,
            nonces=True,
            files_max_bytes=0,
            reactions=False,
            chunk_units=CHUNK_CHARACTERS,
            idle_s=60,
        )

    async def serve(self, handler: InboundHandler) -> None:
        """Hand in letters in their order, until cancelled; one that was taken is removed."""
        await self._open()
        handler.connected(str(self._folder))
        while True:
            handler.received()
            for path in await to_thread.run_sync(self._letters):
                await self._take(handler, await self._message(path))
                await anyio.Path(path).unlink()  # only now: a letter that is lost is not answered
            await anyio.sleep(_LOOK_S)

    async def _take(self, handler: InboundHandler, message: Message) -> None:
        """Hand in a letter until it is taken; those after it wait."""
        while True:
            try:
                await handler.handle(message)
            except NotNowError as error:
                await self._clock.sleep(error.retry_after_s)
            else:
                return

    async def check(self) -> Sequence[str]:
        """Make the folder, and count what waits in it."""
        await self._open()
        return (f"{len(await to_thread.run_sync(self._letters))} letters wait",)

    def render(self, markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
        """Return a text in parts; formatting stays as it is written."""
        del is_plain
        parts: list[str] = []
        rest = markdown.strip()
        while len(rest) > CHUNK_CHARACTERS:
            end = max(rest.rfind(blank, 0, CHUNK_CHARACTERS) for blank in " \n")
            end = end if end > 0 else CHUNK_CHARACTERS
            parts.append(rest[:end].rstrip())
            rest = rest[end:].lstrip()
        return (*parts, rest) if rest else tuple(parts)

    async def send(self, message: Outbound) -> str:
        """Write an answer; its name comes from its nonce, so that twice is once."""
        self._sent += 1
        name = f"{message.chat_id}.{message.nonce or self._sent}.txt"
        await anyio.Path(self._folder / "out" / name).write_text(message.payload, encoding="utf-8")
        return name

    async def edit(
        self,
        chat_id: str,
        topic: str,
        platform_id: str,
        payload: str,
        *,
        buttons: tuple[Button, ...] = (),
    ) -> None:
        """Write another answer in the place of one."""
        del chat_id, topic, buttons
        await anyio.Path(self._folder / "out" / platform_id).write_text(payload, encoding="utf-8")

    async def show_draft(self, chat_id: str, topic: str, draft: int, text: str) -> None:
        """Show nothing: a folder has no drafts."""

    async def type(self, chat_id: str, topic: str) -> None:
        """Show nothing: a folder has no typing indicator."""

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Show nothing: a folder has no reactions."""

    async def _open(self) -> None:
        try:
            for name in ("in", "out"):
                await anyio.Path(self._folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            msg = f"the folder {self._folder} cannot be used: {error.strerror}"
            raise SetupError(msg) from error

    def _letters(self) -> list[Path]:
        return sorted((self._folder / "in").glob("*.txt"))

    async def _message(self, path: Path) -> Message:
        chat = path.name.partition(".")[0]
        return Message(
            id=path.stem,
            chat=ChatRef(id=chat),
            sender=Person(id=chat, name=chat),
            text=await anyio.Path(path).read_text(encoding="utf-8"),
            at=self._clock.now(),
        )


def _make(setup: ChannelSetup[MailboxSection]) -> MailboxAdapter:
    return MailboxAdapter(setup.name, setup.folder / setup.settings.folder, setup.clock)


MAILBOX: Final = ChannelPlugin(
    name="mailbox",
    interface=1,
    summary="a folder with letters",
    docs="https://example.org/mailbox",
    settings=MailboxSection,
    make=_make,
    check=lambda: ("the post is open",),
)
