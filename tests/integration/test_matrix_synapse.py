"""The contract of channels on a real Synapse: `make synapse` installs one, and runs these.

A Synapse takes seconds to start, and each room some tenths: by day the pretended homeserver stands
in for it (`test_matrix_contract.py`).
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import ClassVar, Final

import aiohttp
import anyio
import pytest
from support.inbox import QuickClock
from support.matrix_contract import MatrixContract
from support.matrix_kills import talk_through_kills
from support.matrix_people import Person
from support.ports import free_port
from support.synapse import NAME, PYTHON, Synapse

from everturn.testing import RecordingHandler
from everturn.testing._running import in_loop
from everturn_channels.adapter import Message, Outbound, Reaction
from everturn_channels.errors import NotSentError
from everturn_channels.matrix import MatrixAccount, MatrixAdapter
from everturn_gateway.clock import SystemClock

if not (os.environ.get("EVERTURN_SYNAPSE") and PYTHON.exists()):
    pytest.skip(
        "no Synapse: make synapse installs one in .venv-synapse, and runs its tests",
        allow_module_level=True,
    )
_NUMBERS: Final = count()


@pytest.fixture(scope="module")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synapse]:
    """Run a Synapse for all tests of this module."""
    server = Synapse(tmp_path_factory.mktemp("synapse"), free_port(), has_limits=False)
    anyio.run(server.start)
    yield server
    anyio.run(server.kill)


class TestMatrixOnSynapse(MatrixContract):
    """In plain rooms."""

    server: ClassVar[Synapse]

    @pytest.fixture(autouse=True)
    def _server(self, synapse: Synapse, _folder: Path) -> None:
        type(self).server = synapse

    @asynccontextmanager
    async def open_homeserver(self) -> AsyncGenerator[None]:
        """Use the one that runs."""
        self.url = self.server.url
        yield

    async def users(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Register two users."""
        number = next(_NUMBERS)
        made = [await self.server.register(f"{name}{number}", "pw") for name in ("bot", "ann")]
        bot, ann = ((each["user_id"], each["access_token"]) for each in made)
        return bot, ann

    async def interrupt(self) -> None:
        """Kill the homeserver, and start it again."""
        await self.server.kill()
        await self.server.start()

    @in_loop
    async def test_a_thread_is_a_topic_for_what_is_said_and_put_there(self) -> None:
        """The answer stands there, too."""
        handler = RecordingHandler()
        async with self.serving(handler) as bot:
            await self.write("a question", self.chat_id)
            (asked,) = await handler.until_handled(1)
            assert isinstance(asked, Message)
            (payload,) = bot.render("an answer", is_plain=True)
            answer = Outbound(chat_id=self.chat_id, topic=asked.id, payload=payload, nonce="n")
            name = await bot.send(answer)
            relation = {"rel_type": "m.thread", "event_id": asked.id}
            await self.ann.write(self.chat_id, "more of it", **{"m.relates_to": relation})
            await self.react(name, "👍")
            await handler.until(lambda: len(handler.events) == 3)

        assert [each.chat.topic for each in handler.events] == ["", asked.id, asked.id]
        assert isinstance(handler.events[2], Reaction)


class TestEncryptedMatrixOnSynapse(TestMatrixOnSynapse):
    """In encrypted rooms."""

    is_encrypted = True


async def test_kills_lose_and_double_nothing(synapse: Synapse, tmp_path: Path) -> None:
    """Twelve questions in an encrypted room, the gateway killed at each."""
    home, number = tmp_path / "gateway", next(_NUMBERS)
    home.mkdir()
    await synapse.register(f"bot{number}", "pw")
    ann = await synapse.register(f"ann{number}", "pw")
    async with aiohttp.ClientSession() as session:
        person = Person(session, synapse.url, ann["user_id"], ann["access_token"])
        async with person.encrypting(tmp_path / "ann"):
            bot = f"@bot{number}:{NAME}", "pw"
            seen = await talk_through_kills(home, synapse.url, bot, person, questions=12)

    assert seen == [f"re: question {n}" for n in range(12)]


async def test_a_homeserver_with_its_usual_limits_is_told_less(tmp_path: Path) -> None:
    """What it refuses was not sent, and it says for how long."""
    server = Synapse(tmp_path / "synapse", free_port(), has_limits=True)
    await server.start()
    try:
        bot = await server.register("bot", "pw")
        async with aiohttp.ClientSession() as session:
            person = Person(session, server.url, bot["user_id"], bot["access_token"])
            room = await person.create_room()
        adapter = MatrixAdapter(
            name="matrix",
            account=MatrixAccount(homeserver=server.url, access_token=bot["access_token"]),
            clock=QuickClock(SystemClock().now()),
        )
        handler, sent = RecordingHandler(), 0
        (payload,) = adapter.render("text")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(adapter.serve, handler)
            await handler.until_connected()
            with pytest.raises(NotSentError) as refused:
                for sent in range(100):
                    nonce = str(sent)
                    await adapter.send(Outbound(chat_id=room, payload=payload, nonce=nonce))
            tasks.cancel_scope.cancel()
    finally:
        await server.kill()

    assert 5 <= sent < 100
    assert refused.value.retry_after_s
