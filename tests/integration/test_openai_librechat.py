"""LibreChat as a client of OpenAI's API: its requests as it sends them, headers and bodies.

It runs langchain's JavaScript over OpenAI's SDK, and names a chat before its first message is sent.
Source: LibreChat 0.8, `openai/llm.ts` and `env.ts` of `packages/api/src`, `controllers/agents/
request.js` of `api/server`, and its page on default parameters (read 2026-11).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import httpx2
from support.gateway import HttpGateway, open_http_gateway
from support.tables import table

from everturn_actors.testing import ScriptedProvider

CHAT: Final = "5f0d8a1e-94c3-4b43-8c3b-6a2c1c0f7d11"
PERSON: Final = "66f1c0de9b1d4a0012345678"
HEADERS: Final = {
    "authorization": "Bearer user_provided",
    "user-agent": "OpenAI/JS 5.12.2",
    "x-stainless-arch": "x64",
    "x-stainless-lang": "js",
    "x-stainless-os": "Linux",
    "x-stainless-package-version": "5.12.2",
    "x-stainless-retry-count": "0",
    "x-stainless-runtime": "node",
    "x-stainless-runtime-version": "v20.19.0",
    "x-stainless-timeout": "600",
}
TITLE: Final = """Provide a concise, 5-word-or-less title for the conversation, using its same \
language, with no punctuation. Apply title case conventions appropriate for the language. Never \
directly mention the language name or the word "title" and only return the title itself.

Conversation:
User: hello
AI: one"""
SYSTEM: Final = {"role": "system", "content": "You are helpful. Today is Tuesday."}


async def post(
    client: httpx2.AsyncClient, *messages: dict[str, Any], streams: bool = True, chat: str = CHAT
) -> httpx2.Response:
    """Send a request."""
    body: dict[str, Any] = {
        "model": "test",
        "temperature": 1,
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "stream": streams,
        "user": PERSON,
        "messages": [*messages],
    }
    if streams:
        body["stream_options"] = {"include_usage": True}
    headers = {**HEADERS, "X-LibreChat-Conversation-Id": chat}
    response = await client.post("/v1/chat/completions", json=body, headers=headers)
    return response.raise_for_status()


def chunks(response: httpx2.Response) -> list[dict[str, Any]]:
    """Return the chunks of a stream, which has its end."""
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def said(gateway: HttpGateway) -> list[list[str]]:
    """Return what each request showed the model."""
    return [[m.text for m in request.messages] for request in gateway.provider.requests]


@table("has_parts", [False, True], ids=["texts", "parts"])
async def test_a_chat_is_a_session_and_its_title_is_apart(tmp_path: Path, has_parts: bool) -> None:
    """A person's first message, the title that LibreChat asks for meanwhile, and the second."""

    def content(text: str) -> Any:
        return [{"type": "text", "text": text}] if has_parts else text

    provider = ScriptedProvider("one", "A Title", "two")
    hello = {"role": "user", "content": content("hello")}
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        async with gateway.client() as client:
            first = await post(client, SYSTEM, hello)
            title = await post(client, {"role": "user", "content": TITLE}, streams=False)
            second = await post(
                client,
                SYSTEM,
                hello,
                {"role": "assistant", "content": content("one")},
                {"role": "user", "content": content("and more")},
            )
        (session,) = await gateway.service.reader.sessions(after="", limit=5)

    answers = [
        "".join(c["choices"][0]["delta"].get("content", "") for c in chunks(r) if c["choices"])
        for r in (first, second)
    ]
    assert answers == ["one", "two"]
    assert chunks(first)[-1]["usage"]["total_tokens"] >= 0
    assert title.json()["choices"][0]["message"]["content"] == "A Title"
    assert said(gateway) == [["hello"], [TITLE], ["hello", "one", "and more"]]
    assert "Today is Tuesday." in provider.requests[2].system
    assert session.key.chat == CHAT


async def test_chats_of_one_person_are_apart(tmp_path: Path) -> None:
    """The person stands in each request, and is no name of a chat where the chat has one."""
    async with open_http_gateway(tmp_path) as gateway:
        async with gateway.client() as client:
            for chat in (CHAT, CHAT.replace("5", "6")):
                await post(client, {"role": "user", "content": "hello"}, chat=chat)
        sessions = await gateway.service.reader.sessions(after="", limit=5)

    assert len(sessions) == 2
    assert said(gateway) == [["hello"], ["hello"]]
