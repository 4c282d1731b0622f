"""The official client of OpenAI's API on a gateway of a test."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import openai
from openai.types.chat import ChatCompletionMessageParam
from support.gateway import HttpGateway
from support.patience import WAIT_S

KEY = "user-token"
HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


@asynccontextmanager
async def client_of(
    gateway: HttpGateway, *, key: str = KEY, retries: int = 0
) -> AsyncGenerator[openai.AsyncOpenAI]:
    """Open the official client on a gateway."""
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.base_url}/v1", api_key=key, max_retries=retries, timeout=WAIT_S
    ) as client:
        yield client
