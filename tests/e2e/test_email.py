"""E-mail by the installed command: what people get, whatever becomes of the gateway."""

from __future__ import annotations

from pathlib import Path

from support.email_contract import ANN, BOT, mail_from
from support.email_kills import talk_through_kills
from support.imap_server import open_imap_server
from support.smtp_server import open_smtp_server
from support.talking import check_secrets


async def test_a_mailbox_is_answered_once_through_kills(tmp_path: Path) -> None:
    """Nothing lost, nothing doubled without a word, and no password in the log."""
    (tmp_path / "gateway").mkdir()
    async with open_imap_server() as imap, open_smtp_server() as smtp:
        smtp.password = "pass-word-of-the-bot"
        imap.add_account(BOT, "pass-word-of-the-bot")

        async def write(text: str) -> None:
            imap.deliver(BOT, mail_from(ANN, text).as_bytes())

        section = {"imap": {"port": imap.port}, "password": "pass-word-of-the-bot"}
        seen = await talk_through_kills(tmp_path / "gateway", smtp, section, write, questions=3)

    assert seen == [f"question {number}" for number in range(3)]
    check_secrets(tmp_path / "gateway", "pass-word-of-the-bot")
