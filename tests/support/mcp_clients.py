"""The official MCP client against a gateway that listens, in the words of both its eras."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult
from support.gateway import HttpGateway

ERAS = ("legacy", "2026-07-28")
"""With a handshake and sessions; and without either."""


@dataclass(slots=True)
class Person:
    """Whoever sits at the client, and answers what it asks as was said before."""

    answers: list[ElicitResult] = field(default_factory=list[ElicitResult])
    asked: list[ElicitRequestParams] = field(default_factory=list[ElicitRequestParams])
    is_asked: anyio.Event = field(default_factory=anyio.Event)

    async def answer(self, context: object, params: ElicitRequestParams) -> ElicitResult:
        """Answer one question; without an answer that was said before, think for ever."""
        del context
        self.asked.append(params)
        self.is_asked.set()
        if not self.answers:
            await anyio.sleep_forever()
        return self.answers.pop(0)


@dataclass(slots=True)
class Heard:
    """What a client was told while it waited."""

    texts: list[str] = field(default_factory=list[str])
    changed: anyio.Event = field(default_factory=anyio.Event)

    async def take(self, progress: float, total: float | None, message: str | None) -> None:
        """Keep a notification."""
        del progress, total
        self.texts.append(message or "")
        self.changed.set()

    async def until(self, text: str) -> None:
        """Wait until something was told that holds `text`."""
        while not any(text in each for each in self.texts):
            self.changed = anyio.Event()
            await self.changed.wait()


def said(result: CallToolResult) -> str:
    """Return the first text of a result."""
    first = result.content[0]
    assert first.type == "text"
    return first.text


@asynccontextmanager
async def open_mcp_client(
    gateway: HttpGateway, era: str, *, token: str = "", person: Person | None = None
) -> AsyncGenerator[Client]:
    """Connect the official client to `/mcp`."""
    mode: Any = era
    async with gateway.client(token=token) as http:
        transport = streamable_http_client(f"{gateway.base_url}/mcp", http_client=http)
        elicitation = person.answer if person is not None else None
        async with Client(transport, mode=mode, elicitation_callback=elicitation) as client:
            yield client
