"""An answer that lasts no longer than the right to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
import orjson
from msgspec import Struct, field
from starlette.types import Message, Receive, Scope, Send

from everturn_gateway.http import sse
from everturn_gateway.http.access.auth import ENDED
from everturn_gateway.http.problems import OPENAI_PREFIX, openai_error, problem_response
from everturn_gateway.principals import LOOK_EVERY_S

_EVENT_STREAM: Final = b"text/event-stream"


class Lease(Struct):
    """One exchange that may be ended from this side, while its client would still listen."""

    scope: Scope
    inner_receive: Receive
    inner_send: Send
    over: anyio.Event = field(default_factory=anyio.Event)
    has_body: bool = False
    "Whether the whole request has arrived."
    started: bool = False
    "Whether the answer has begun."
    is_finished: bool = False
    is_stream: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it was ended before the answer was."""
        return self.over.is_set() and not self.is_finished

    async def watch(self, still: Callable[[], bool]) -> None:
        """Look again and again whether it may go on; return when it may not."""
        while still():  # noqa: ASYNC110 - the time itself ends it, or what another module reads
            await anyio.sleep(LOOK_EVERY_S)
        self.over.set()

    async def receive(self) -> Message:
        """Return the next message of the client; that it left, where it may not stay.

        What belongs to the request itself is received as it comes: its errors are the route's.
        """
        if not self.has_body:
            got = await self.inner_receive()
            # The body is read to its end: only then a wait begins.
            self.has_body = not got.get("more_body", False)
            return got
        found: list[Message] = []
        async with anyio.create_task_group() as tasks:

            async def leave() -> None:
                await self.over.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(leave)
            found.append(await self.inner_receive())
            tasks.cancel_scope.cancel()
        # To the route it looks as if the client had gone.
        return found[0] if found else {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Pass the answer on, as long as it may go on."""
        if self.over.is_set():
            return  # `finish` says what there is to say
        if message["type"] == "http.response.start":
            self.started = True
            self.is_stream = any(
                name == b"content-type" and value.startswith(_EVENT_STREAM)
                for name, value in message["headers"]
            )
        elif not message.get("more_body", False):
            self.is_finished = True
        await self.inner_send(message)

    def write_now(self, write: sse.WriteNow, body: bytes) -> bool:
        """Pass a piece of the answer on at once, as long as it may go on."""
        return not self.over.is_set() and write(body)

    async def finish(self) -> None:
        """End the answer, and say why as far as it has room for that."""
        if not self.started:
            answer = problem_response(ENDED, self.scope)
            # Nothing was sent yet: it can still be refused.
            await answer(self.scope, self.inner_receive, self.inner_send)
            return
        last = _last_words(self.scope["path"]) if self.is_stream else b""
        await self.inner_send({"type": "http.response.body", "body": last, "more_body": False})


def _last_words(path: str) -> bytes:
    if path.startswith(OPENAI_PREFIX):
        return b"data: %b\n\n" % orjson.dumps(openai_error(ENDED))
    return sse.message("error", ENDED.document(path))
