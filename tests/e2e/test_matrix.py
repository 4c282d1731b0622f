"""Matrix by the installed command: what people see, whatever becomes of the gateway."""

from __future__ import annotations

from pathlib import Path

import aiohttp
from support.matrix_kills import talk_through_kills
from support.matrix_people import Person
from support.matrix_routes import open_matrix_api
from support.talking import check_secrets


async def test_an_encrypted_chat_is_answered_once_through_kills(tmp_path: Path) -> None:
    """Nothing lost, nothing doubled, and nobody's keys in the log."""
    home = tmp_path / "gateway"
    home.mkdir()
    async with open_matrix_api() as api, aiohttp.ClientSession() as session:
        user, _ = api.add_user("bot", "pass-word-of-the-bot")
        ann = Person(session, api.url, *api.add_user("ann"))
        async with ann.encrypting(tmp_path / "ann"):
            bot = user, "pass-word-of-the-bot"
            seen = await talk_through_kills(home, api.url, bot, ann, questions=3)

    assert seen == [f"re: question {number}" for number in range(3)]
    check_secrets(home, "pass-word-of-the-bot")
