"""A gateway that is killed while it answers mail, on whichever IMAP server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from support.email_contract import ANN, BOT, SERVER
from support.model_api import open_model_api
from support.process import gateway_process
from support.smtp_server import SmtpServer
from support.talking import OPEN, Brain, until, until_state, write_talking

_SOON_S = 60.0
_IMPORTED = ("everturn_channels.email",)
_REPEAT = "(This may be a repeat.)"


async def talk_through_kills(
    folder: Path,
    smtp: SmtpServer,
    section: Mapping[str, Any],
    write: Callable[[str], Awaitable[None]],
    questions: int,
) -> Sequence[str]:
    """Ask question after question, kill the gateway at each; return which were answered, sorted.

    It is killed as soon as a question was written, while the model is asked, or once the answer is
    there, in turns. Each is a thread, and so a conversation of its own. An answer that came twice,
    and said of itself that it may be a repeat, is one.

    Args:
        folder: Of the gateway.
        smtp: Where it sends.
        section: Of the channel, beside what is the same everywhere.
        write: Puts a mail of ann with this text into the mailbox.
        questions: How many.
    """
    brain = Brain()
    here = {"host": "127.0.0.1", "security": "none"}
    whole = {
        "address": BOT,
        "password": "pw",
        "authserv_id": SERVER,
        "smtp": {**here, "port": smtp.port},
        **section,
        "imap": {**here, **section["imap"]},
    }
    async with open_model_api(default=brain) as model:
        write_talking(folder, model.url, channels={"email": whole}, agents={"helper": OPEN})
        for number in range(questions):
            text = f"question {number}"
            async with gateway_process(folder, imported=_IMPORTED) as gateway:
                if number and number % 3 == 1:  # also what is written while nobody listens
                    await write(text)
                else:
                    async with gateway.client() as client:
                        await until_state(client, "connected")
                    await write(text)
                    if number % 3:
                        await until(lambda: brain.about(text))  # noqa: B023 - awaited here
                    else:
                        await _until_answered(smtp, text)
                await gateway.kill()
        async with gateway_process(folder, imported=_IMPORTED):
            for number in range(questions):
                await _until_answered(smtp, f"question {number}")
    seen: list[str] = []
    for text in smtp.texts(ANN):
        answered = answer_in(text)
        if not (answered in seen and text.startswith(_REPEAT)):
            seen.append(answered)
    return sorted(seen, key=lambda text: int(text.split()[1]))


def answer_in(text: str) -> str:
    """Return which question a mail answers: the model repeats what it is told."""
    lines = text.removeprefix(_REPEAT).strip().split("\n")
    return lines[0].removeprefix("re: ")


async def _until_answered(smtp: SmtpServer, text: str) -> None:
    with anyio.fail_after(_SOON_S):
        while not any(answer_in(each) == text for each in smtp.texts(ANN)):  # noqa: ASYNC110
            await anyio.sleep(0.05)
