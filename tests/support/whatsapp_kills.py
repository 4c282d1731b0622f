"""A gateway that is killed while it talks on WhatsApp."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import httpx2
from support.model_api import open_model_api
from support.process import gateway_process
from support.talking import OPEN, Brain, until, until_state, write_talking
from support.whatsapp_api import (
    ANN,
    APP_SECRET,
    NUMBER_ID,
    TOKEN,
    VERIFY_TOKEN,
    WhatsAppApi,
)

IMPORTED = ("everturn_channels.whatsapp",)
WEBHOOK = "/channels/whatsapp/webhook"
_SOON_S = 60.0


def section_of(api: WhatsAppApi) -> dict[str, object]:
    """Return the section of the configuration."""
    return {
        "phone_number_id": NUMBER_ID,
        "token": TOKEN,
        "app_secret": APP_SECRET,
        "verify_token": VERIFY_TOKEN,
        "api_base": f"{api.url}/v25.0",
    }


@asynccontextmanager
async def delivering(api: WhatsAppApi, client: httpx2.AsyncClient) -> AsyncGenerator[None]:
    """Let Meta deliver to a gateway while the block runs."""

    async def deliver(headers: Mapping[str, str], body: bytes) -> int:
        try:
            answer = await client.post(WEBHOOK, content=body, headers=dict(headers))
        except httpx2.HTTPError:
            return 0
        return answer.status_code

    api.deliver = deliver
    try:
        yield
    finally:
        api.deliver = None


async def talk_through_kills(folder: Path, api: WhatsAppApi, questions: int) -> Sequence[str]:
    """Ask question after question, and kill the gateway at each; return what ann sees in the end.

    It is killed as soon as a question was written, while the model is asked, or once the reply is
    there, in turns.
    """
    brain = Brain()
    async with open_model_api(default=brain) as model:
        channels = {"whatsapp": section_of(api)}
        write_talking(folder, model.url, channels=channels, agents={"helper": OPEN})
        for number in range(questions):
            text = f"question {number}"
            async with gateway_process(folder, imported=IMPORTED) as gateway:
                async with gateway.client() as client, delivering(api, client):
                    await until_state(client, "connected")
                    await api.say(text)
                    if number % 3 == 2:
                        await until(partial(brain.about, text))
                    elif number % 3 == 0:
                        await until_answered(api, text)
                await gateway.kill()
        async with (
            gateway_process(folder, imported=IMPORTED) as gateway,
            gateway.client() as client,
            delivering(api, client),
        ):
            for number in range(questions):
                await until_answered(api, f"question {number}")
            await until(lambda: not api.pending)
    return api.shown(ANN)


async def until_answered(api: WhatsAppApi, text: str) -> None:
    """Wait until a question was answered."""
    with anyio.fail_after(_SOON_S):
        while not any(each.endswith(f"re: {text}") for each in api.shown(ANN)):  # noqa: ASYNC110
            await anyio.sleep(0.05)
