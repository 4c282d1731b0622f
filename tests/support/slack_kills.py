"""A gateway that is killed while it talks in Slack."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
from support.model_api import open_model_api
from support.process import gateway_process
from support.slack_api import ANN, APP_TOKEN, BOT_TOKEN, SlackApi
from support.talking import OPEN, Brain, until, until_state, write_talking

_SOON_S = 60.0
_IMPORTED = ("everturn_channels.slack",)


async def talk_through_kills(folder: Path, api: SlackApi, questions: int) -> Sequence[str]:
    """Ask question after question, and kill the gateway at each; return what ann sees in the end.

    It is killed as soon as a question was written, while the model is asked, or once the reply is
    there, in turns. What is written while nobody listens is not repeated by Slack: the history has
    it.
    """
    brain, chat = Brain(), api.add_channel("DANN00001", ANN, name="")
    async with open_model_api(default=brain) as model:
        section = {"bot_token": BOT_TOKEN, "app_token": APP_TOKEN, "api_base": f"{api.url}/api"}
        write_talking(folder, model.url, channels={"slack": section}, agents={"helper": OPEN})
        for number in range(questions):
            text = f"question {number}"
            async with gateway_process(folder, imported=_IMPORTED) as gateway:
                if number and number % 3 == 1:
                    await api.say(chat, text)
                    api.pending.clear()
                else:
                    async with gateway.client() as client:
                        await until_state(client, "connected")
                    await api.say(chat, text)
                    if number % 3:
                        await until(partial(brain.about, text))
                    else:
                        await until_answered(api, chat, text)
                await gateway.kill()
        async with gateway_process(folder, imported=_IMPORTED):
            for number in range(questions):
                await until_answered(api, chat, f"question {number}")
    return api.shown(chat)


async def until_answered(api: SlackApi, chat: str, text: str) -> None:
    """Wait until a question was answered."""
    with anyio.fail_after(_SOON_S):
        while f"re: {text}" not in api.shown(chat):  # noqa: ASYNC110
            await anyio.sleep(0.05)
