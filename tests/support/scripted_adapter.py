"""A platform that does what it is told, and an adapter to it: the outermost edge of delivery.

`Platform` outlives a process and shows what people see. Each call of the adapter can be held,
and can be told to fail before or after the platform did its part.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import anyio
from msgspec import structs

from everturn_channels.adapter import Button, Capabilities, ChatType, InboundHandler, Outbound
from everturn_channels.errors import RefusedError, SendError

Method: TypeAlias = Literal["send", "edit", "draft", "type", "react"]
When: TypeAlias = Literal["before", "after"]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A message as people see it."""

    id: str
    text: str
    "The payload, or the name of a file in angle brackets."
    message: Outbound
    "As it was sent first."
    buttons: tuple[Button, ...] = ()
    states: tuple[str, ...] = ()
    "All texts that it ever had, oldest first."


@dataclass
class Platform:
    """What stays when a process ends."""

    dedupes: bool = False
    "Whether it knows a nonce again."
    messages: dict[str, Shown] = field(default_factory=dict)
    "By id, in the order in which they came."
    nonces: dict[str, str] = field(default_factory=dict)
    drafts: list[tuple[str, int, str]] = field(default_factory=list)
    "Chat, number and text."
    typed: list[str] = field(default_factory=list)
    "Chats in which the typing indicator was shown."
    gone: set[str] = field(default_factory=set)
    "Chats that take nothing any more."

    @property
    def texts(self) -> list[str]:
        """What people read, oldest first."""
        return [shown.text for shown in self.messages.values()]

    def chat(self, chat: str) -> list[str]:
        """What people read in one chat, oldest first."""
        return [shown.text for shown in self.messages.values() if shown.message.chat_id == chat]

    def put(self, message: Outbound) -> str:
        """Take a message."""
        if self.dedupes and message.nonce in self.nonces:
            return self.nonces[message.nonce]
        name = f"m{len(self.messages) + 1}"
        named = ", ".join(each.file_name for each in message.files)
        text = f"<{named}>" if message.file else message.payload
        if message.is_repeat and not self.dedupes:
            text = f"(again) {text}"
        self.messages[name] = Shown(
            id=name, text=text, message=message, buttons=message.buttons, states=(text,)
        )
        self.nonces[message.nonce] = name
        return name

    def change(self, name: str, text: str) -> None:
        """Change a message, which loses its buttons; raises RefusedError where it is gone."""
        shown = self.messages.get(name)
        if shown is None:
            msg = "message to edit not found"
            raise RefusedError(msg)
        self.messages[name] = dataclasses.replace(
            shown, text=text, buttons=(), states=(*shown.states, text)
        )


def capabilities(
    *,
    edits: bool = True,
    typing_s: float = 0,
    preview_s: float = 1,
    drafts: Sequence[ChatType] = (),
    buttons: bool = True,
    files_max_bytes: int = 1000,
    chunk_units: int = 100,
    files_at_once: int = 1,
) -> Capabilities:
    """Return the capabilities of a platform that can do nearly everything."""
    return Capabilities(
        edits=edits,
        typing_s=typing_s,
        preview_s=preview_s,
        drafts=tuple(drafts),
        buttons=buttons,
        nonces=False,
        files_max_bytes=files_max_bytes,
        files_at_once=files_at_once,
        reactions=False,
        chunk_units=chunk_units,
        idle_s=60,
    )


class ScriptedAdapter:
    """`Adapter` to a `Platform`.

    Its payloads are the text itself; plain ones begin with `~`.
    """

    name = "test"
    platform = "test"

    def __init__(
        self, platform: Platform | None = None, *, able: Capabilities | None = None
    ) -> None:
        self.world = platform or Platform()
        self.capabilities = structs.replace(able or capabilities(), nonces=self.world.dedupes)
        self.calls: list[str] = []
        "Each call that was begun, as its method and what it concerns."
        self.under_way = 0
        self.most_under_way = 0
        self._faults: dict[Method, deque[tuple[When, SendError] | None]] = defaultdict(deque)
        self._held: dict[Method, anyio.Event] = {}
        self._changed = anyio.Event()
        self.on_call: Callable[[str, When], None] | None = None
        "Told of each call, before the platform does its part and after."

    # --- what a test tells it ---

    def fail(self, method: Method, *errors: SendError | None, when: When = "before") -> None:
        """Let the next calls of a method fail, one error each; None = one that works."""
        self._faults[method] += [None if error is None else (when, error) for error in errors]

    def mend(self) -> None:
        """Let all calls from now on work."""
        self._faults.clear()

    def hold(self, method: Method) -> None:
        """Let calls of a method wait before the platform does its part."""
        self._held[method] = anyio.Event()

    def release(self, method: Method) -> None:
        """Let them go on."""
        self._held.pop(method).set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, looked at after each call."""
        while not is_so():
            self._changed = anyio.Event()
            await self._changed.wait()

    # --- the adapter ---

    async def serve(self, handler: InboundHandler) -> None:
        """Receive nothing."""
        handler.connected("@test")
        await anyio.sleep_forever()

    async def stand_by(self) -> None:
        """See `Adapter.stand_by`."""
        await anyio.sleep_forever()

    async def check(self) -> Sequence[str]:
        """Find nothing."""
        return ()

    def render(self, markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
        """Cut a text every `chunk_units` characters."""
        if not markdown.strip():
            return ()
        size = self.capabilities.chunk_units
        pieces = (markdown[at : at + size] for at in range(0, len(markdown), size))
        return tuple(f"~{piece}" if is_plain else piece for piece in pieces)

    async def send(self, message: Outbound) -> str:
        """Send."""
        what = message.file.file_name if message.file else message.payload

        def put() -> str:
            self._check(message.chat_id)
            return self.world.put(message)

        return await self._call("send", what, put)

    async def edit(self, chat_id: str, topic: str, platform_id: str, payload: str) -> None:
        """Edit."""
        del topic

        def put() -> str:
            self._check(chat_id)
            self.world.change(platform_id, payload)
            return ""

        await self._call("edit", payload, put)

    async def show_draft(self, chat_id: str, topic: str, draft: int, text: str) -> None:
        """Show a draft."""
        del topic
        assert draft > 0

        def put() -> str:
            self.world.drafts.append((chat_id, draft, text))
            return ""

        await self._call("draft", text, put)

    async def type(self, chat_id: str, topic: str) -> None:
        """Show the typing indicator."""
        del topic

        def put() -> str:
            self.world.typed.append(chat_id)
            return ""

        await self._call("type", chat_id, put)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Do nothing."""
        del chat_id, message_id, emoji

    def _check(self, chat: str) -> None:
        if chat in self.world.gone:
            msg = "bot was blocked"
            raise RefusedError(msg, is_chat_gone=True)

    async def _call(self, method: Method, what: str, put: Callable[[], str]) -> str:
        call = f"{method} {what}"
        self.calls.append(call)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self._notify()
        try:
            await anyio.lowlevel.checkpoint()
            if method in self._held:
                await self._held[method].wait()
            fault = self._faults[method].popleft() if self._faults[method] else None
            self._tell(call, "before")
            if fault is not None and fault[0] == "before":
                raise fault[1]
            done = put()
            self._tell(call, "after")
            if fault is not None:
                raise fault[1]
            return done
        finally:
            self.under_way -= 1
            self._notify()

    def _tell(self, call: str, when: When) -> None:
        if self.on_call is not None:
            self.on_call(call, when)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
