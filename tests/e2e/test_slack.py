"""Slack by the installed command: what people see, whatever becomes of the gateway."""

from __future__ import annotations

from pathlib import Path

from support.slack_api import APP_TOKEN, BOT_TOKEN
from support.slack_kills import talk_through_kills
from support.slack_methods import open_slack_api
from support.talking import check_secrets


async def test_a_chat_is_answered_once_through_kills(tmp_path: Path) -> None:
    """Nothing lost, nothing doubled, and no token in the log."""
    (tmp_path / "gateway").mkdir()
    async with open_slack_api() as api:
        seen = await talk_through_kills(tmp_path / "gateway", api, questions=3)

    assert seen == [f"re: question {number}" for number in range(3)]
    for token in (BOT_TOKEN, APP_TOKEN):
        check_secrets(tmp_path / "gateway", token)
