"""A pretended homeserver, ann, and the bot in a room with her."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
from support.inbox import QuickClock
from support.matrix_api import MatrixApi
from support.matrix_people import Person
from support.matrix_routes import open_matrix_api
from support.patience import WAIT_S

from everturn.testing import RecordingHandler
from everturn_channels.adapter import Message
from everturn_channels.ingestion.history import BacklogLimits
from everturn_channels.matrix import MatrixAccount, MatrixAdapter
from everturn_gateway.clock import SystemClock


class World:
    """A homeserver, ann, and the bot in a room with her."""

    def __init__(self, api: MatrixApi, session: aiohttp.ClientSession, folder: Path) -> None:
        self.api, self._session, self.folder = api, session, folder
        self.bot, self.ann = self.person("bot"), self.person("ann")
        self.handler = RecordingHandler()
        self.room = ""

    def person(self, name: str) -> Person:
        return Person(self._session, self.api.url, *self.api.add_user(name))

    def adapter(
        self, *, keys: bool = False, has_threads: bool = False, **account: str
    ) -> MatrixAdapter:
        given = account or {"access_token": self.bot.token}
        folder = self.folder / "bot" if keys else None
        return MatrixAdapter(
            name="matrix",
            account=MatrixAccount(
                homeserver=self.api.url, keys=folder, has_threads=has_threads, **given
            ),
            clock=QuickClock(SystemClock().now()),
            backlog=BacklogLimits(max_messages=100, max_age_s=1e9),
        )

    async def share_room(self, *others: Person, is_encrypted: bool = False) -> str:
        people = (self.bot, *others)
        room = await self.ann.create_room(*(p.user for p in people), is_encrypted=is_encrypted)
        for each in people:
            await each.join(room)
        return room

    @asynccontextmanager
    async def serving(self, adapter: MatrixAdapter | None = None) -> AsyncGenerator[MatrixAdapter]:
        served, self.handler.account = adapter or self.adapter(), ""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served.serve, self.handler)
            await self.handler.until(lambda: self.handler.account and self.handler.cursor("sync"))
            with anyio.fail_after(WAIT_S):
                yield served
            tasks.cancel_scope.cancel()

    async def heard(self, text: str) -> Message:
        """Return the message with a text, once it came."""

        def found() -> list[Message]:
            came = [each for each in self.handler.events if isinstance(each, Message)]
            return [each for each in came if each.text == text]

        await self.handler.until(found)
        return found()[0]

    async def said(self, room: str = "") -> list[dict[str, Any]]:
        return list(await self.ann.messages(room or self.room, self.bot.user))


@asynccontextmanager
async def open_world(folder: Path, *, is_encrypted: bool = False) -> AsyncGenerator[World]:
    """Run a homeserver on which ann and the bot share a room."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(open_matrix_api())
        session = await stack.enter_async_context(aiohttp.ClientSession())
        world = World(api, session, folder)
        if is_encrypted:
            await stack.enter_async_context(world.ann.encrypting(folder / "ann"))
        world.room = await world.share_room(is_encrypted=is_encrypted)
        yield world
