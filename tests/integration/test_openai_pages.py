"""Chat pages as clients of OpenAI's API: what they ask for themselves, and the chats of people."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
from openai.types.chat import ChatCompletionMessageParam
from support.agents import write_agent
from support.gateway import HttpGateway, open_http_gateway
from support.openai_client import HI, client_of
from support.pictures import png
from support.tables import table, wrong_rows

from everturn_actors.model import ModelRequest, Reply, ToolCall, ToolResult, UserMessage
from everturn_actors.testing import ScriptedProvider
from everturn_gateway.config.settings import OpenAIApiConfig, ServerConfig

# As the pages write them, shortened where the words are many.
TITLE = """### Task:
Generate a concise title summarizing the chat history.
### Guidelines:
- Keep it short: 2-4 words is best.
### Output:
JSON format: { "title": "your concise title here" }
### Chat History:
<chat_history>
USER: hi
ASSISTANT: hello
</chat_history>"""
FOLLOW_UPS = TITLE.replace(
    "Generate a concise title summarizing the chat history.",
    "Suggest 3-5 relevant follow-up questions or prompts.",
)
COMPLETED = """### Task:
You are an autocompletion system. Continue the text in `<text>`.

### **Output Rules**:
- Respond only in JSON format.

---
### Context:
<chat_history>
USER: hi
</chat_history>
<type>General</type>
<text>How do</text>
#### Output:
"""
EMOJI = """Your task is to reflect the speaker's likely facial expression through a fitting emoji.

Message: ```that is wonderful```"""
LIBRE_CHAT = """Provide a concise, 5-word-or-less title for the conversation, using its same \
language, with no punctuation. Never directly mention the language name or the word "title" and \
only return the title itself.

Conversation:
User: hi
AI: hello"""
STRUCTURED = """Analyze this conversation and provide:
1. The detected language of the conversation
2. A concise title in the detected language (5 words or less, no punctuation or quotation)

User: hi"""
SIDE = (TITLE, FOLLOW_UPS, COMPLETED, EMOJI, LIBRE_CHAT, STRUCTURED)
CHAT = {"X-Everturn-Session": "a chat"}


NOTES = """
  system_prompt: ./SYSTEM_PROMPT.md
  memory: {backend: filesystem}
"""


@asynccontextmanager
async def open_desk(folder: Path, provider: ScriptedProvider) -> AsyncGenerator[HttpGateway]:
    """Serve the agent `desk`, which has words and tools of its own."""
    write_agent(folder / "agents", "desk", NOTES, SYSTEM_PROMPT__md="You rhyme.")
    async with open_http_gateway(folder, provider=provider) as gateway:
        yield gateway


def asked(gateway: HttpGateway) -> list[ModelRequest]:
    """Return what the model was asked, all of it."""
    return gateway.provider.requests


def said(gateway: HttpGateway, number: int) -> list[str]:
    """Return what one request shows of the conversation."""
    return [message.text for message in asked(gateway)[number].messages]


def user(text: str) -> list[ChatCompletionMessageParam]:
    """Return a request's messages with nothing but this one."""
    return [{"role": "user", "content": text}]


async def test_what_a_page_asks_for_itself_is_apart(tmp_path: Path) -> None:
    """The model is asked alone, and the chat knows nothing of it."""
    provider = ScriptedProvider(*("hello", "A Title", "more") * len(SIDE))
    async with open_desk(tmp_path, provider) as gateway, client_of(gateway) as client:
        create = client.chat.completions.with_raw_response.create
        with wrong_rows(len(SIDE)) as row_of:
            for number, prompt in enumerate(SIDE):
                with row_of(prompt):
                    chat = {"X-Everturn-Session": f"chat {number}"}
                    first = await create(model="desk", messages=HI, extra_headers=chat)
                    title = await create(
                        model="desk", messages=user(prompt), max_tokens=50, extra_headers=chat
                    )
                    await create(model="desk", messages=HI, extra_headers=chat)
                    state = await gateway.service.view(first.headers["x-everturn-session"])

                    alone, last = asked(gateway)[-2:]
                    assert title.parse().choices[0].message.content == "A Title"
                    assert "x-everturn-session" not in title.headers
                    assert (alone.system, alone.tools, alone.max_output_tokens) == ("", (), 50)
                    assert said(gateway, -1) == ["hi", "hello", "hi"]
                    assert last.system.startswith("You rhyme.")
                    assert last.tools
                    assert state.turns == 2


async def test_what_a_page_says_of_its_request_counts_unless_it_is_switched_off(
    tmp_path: Path,
) -> None:
    """With words of its owner's own a header tells what they are for; by responses too."""
    folder = tmp_path / "says"
    folder.mkdir()
    header = {"X-Everturn-Task": "title_generation"}
    async with (
        open_desk(folder, ScriptedProvider("One", "Two")) as gateway,
        client_of(gateway) as client,
    ):
        await client.chat.completions.create(model="desk", messages=HI, extra_headers=header)
        response = await client.responses.create(model="desk", input="hi", extra_headers=header)
        sessions = await gateway.service.reader.sessions(after="", limit=10)

    assert response.output_text == "Two"
    assert [request.tools for request in asked(gateway)] == [(), ()]
    assert not sessions

    # Then such a request is one like any other.
    folder = tmp_path / "off"
    folder.mkdir()
    header = {**CHAT, "X-Everturn-Task": "title"}
    async with (
        open_desk(folder, ScriptedProvider()) as gateway,
        client_of(gateway) as client,
    ):
        gateway.config = replace(gateway.config, openai_api=OpenAIApiConfig(side_requests=False))
        answer = await client.chat.completions.with_raw_response.create(
            model="desk", messages=user(TITLE), extra_headers=header
        )

    assert "x-everturn-session" in answer.headers
    assert asked(gateway)[0].tools


NOT_MEANT: list[list[ChatCompletionMessageParam]] = [
    user("Generate a concise title for my essay about ### Task: and <chat_history>."),
    user(f"What does this prompt do?\n\n{TITLE}"),
    user(f"{TITLE}\n\nWhat do you think of it?"),
    user("Provide a concise, 5-word-or-less title for the conversation, please."),
    [*HI, {"role": "assistant", "content": "hello"}, *user(TITLE)],
]


async def test_people_may_write_about_titles(tmp_path: Path) -> None:
    """Only a request that is the template, and nothing else, is the page's own."""
    async with (
        open_desk(tmp_path, ScriptedProvider()) as gateway,
        client_of(gateway) as client,
    ):
        with wrong_rows(len(NOT_MEANT)) as row_of:
            for number, messages in enumerate(NOT_MEANT, 1):
                with row_of(messages):
                    await client.chat.completions.create(model="desk", messages=messages)

                    assert len(asked(gateway)) == number
                    assert asked(gateway)[-1].system.startswith("You rhyme.")
                    assert asked(gateway)[-1].tools


# --- chats of pages ---

PAGE = {"X-OpenWebUI-Chat-Id": "0e1f7d5c-6f0e-4d8f-a1a5-3a9a2e5c1b77"}


def chat(*texts: str) -> list[ChatCompletionMessageParam]:
    """Return a whole history as a page sends it: user and assistant in turns."""
    return [
        {"role": "assistant", "content": text} if n % 2 else {"role": "user", "content": text}
        for n, text in enumerate(texts)
    ]


async def say(client: openai.AsyncOpenAI, *texts: str, model: str = "test") -> tuple[str, str]:
    """Send a history; return the answer, and the session that it lies in."""
    answer = await client.chat.completions.with_raw_response.create(
        model=model, messages=chat(*texts), extra_headers=PAGE
    )
    text = answer.parse().choices[0].message.content
    return text or "", answer.headers["x-everturn-session"]


async def test_a_chat_of_a_page_is_one_session(tmp_path: Path) -> None:
    """What the page repeats of it is not said twice, and what it left out is not lost."""
    # What the page repeats of it is not said twice.
    folder = tmp_path / "whole"
    folder.mkdir()
    async with open_http_gateway(folder) as gateway, client_of(gateway) as client:
        one, first = await say(client, "a")
        two, second = await say(client, "a", one, "b")
        _, third = await say(client, "a", one, "b", two, "c")
        state = await gateway.service.view(first)

    assert first == second == third
    assert said(gateway, 2) == ["a", one, "b", two, "c"]
    assert (state.turns, state.key.chat) == (3, PAGE["X-OpenWebUI-Chat-Id"])

    # Pages that count tokens cut a long history, and nothing is lost by that.
    folder = tmp_path / "end"
    folder.mkdir()
    async with open_http_gateway(folder) as gateway, client_of(gateway) as client:
        one, first = await say(client, "a")
        two, _ = await say(client, "a", one, "b")
        _, third = await say(client, "b", two, "c")

    assert third == first
    assert said(gateway, 2) == ["a", one, "b", two, "c"]

    # A page may speak the Responses API, with its whole history as the input.
    folder = tmp_path / "responses"
    folder.mkdir()
    async with open_http_gateway(folder) as gateway, client_of(gateway) as client:
        one, first = await say(client, "a")
        more: Any = chat("a", one, "b")
        answer = await client.responses.create(
            model="test", input=more, instructions="Rhyme.", extra_headers=PAGE
        )

    assert first in answer.id
    assert said(gateway, 1) == ["a", one, "b"]
    assert "Rhyme." in asked(gateway)[1].system


@table("edited", ["b", "another b"], ids=["anew", "edited"])
async def test_an_answer_is_made_anew(tmp_path: Path, edited: str) -> None:
    """The chat goes on behind what the page still has, with what tools gave there."""
    look = ToolCall(call_id="c1", name="recall", arguments='{"days": 1}')
    provider = ScriptedProvider(Reply(text="I look.", calls=(look,)), "one", "two", "anew", "on")
    shown = "I look.\n\none"
    async with open_desk(tmp_path, provider) as gateway, client_of(gateway) as client:
        _, first = await say(client, "a", model="desk")
        await say(client, "a", shown, "b", model="desk")
        _, anew = await say(client, "a", shown, edited, model="desk")
        _, after = await say(client, "a", shown, edited, "anew", "c", model="desk")
        before = await gateway.service.view(first)
        now = await gateway.service.view(anew)

    assert first != anew == after
    assert before.status == "ended"
    messages = asked(gateway)[3].messages
    assert [type(m) for m in messages] == [UserMessage, Reply, ToolResult, Reply, UserMessage]
    assert (messages[-2].text, messages[-1].text) == ("one", edited)
    assert now.turns == 3


async def test_what_a_page_has_and_the_session_not_is_told(tmp_path: Path) -> None:
    """A chat that began elsewhere, an answer that was edited, and one that is made anew."""
    # A chat that began elsewhere, and an answer that was edited or chosen from several.
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    async with open_http_gateway(folder) as gateway, client_of(gateway) as client:
        _, first = await say(client, "a", "elsewhere", "b")
        _, same = await say(client, "a", "elsewhere", "b", "reply 1", "c")
        _, other = await say(client, "a", "elsewhere", "b", "I said so", "d")

    assert first == same != other
    assert said(gateway, 0) == ["a", "elsewhere", "b"]
    assert said(gateway, 2) == ["a", "elsewhere", "b", "I said so", "d"]

    # Nothing of the chat is left before it.
    folder = tmp_path / "first"
    folder.mkdir()
    async with open_http_gateway(folder) as gateway, client_of(gateway) as client:
        await say(client, "a")
        await say(client, "a")

    assert said(gateway, 1) == ["a"]


async def test_a_branch_survives_a_restart_with_its_files(tmp_path: Path) -> None:
    """What a message brought is kept with the branch, which has a log of its own."""
    url = f"data:image/png;base64,{b64encode(png()).decode()}"
    parts: Any = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": url}}]
    async with open_http_gateway(tmp_path) as gateway, client_of(gateway) as client:
        await client.chat.completions.create(
            model="test", messages=[{"role": "user", "content": parts}], extra_headers=PAGE
        )
        await say(client, "a", "reply 1", "b")
        _, anew = await say(client, "a", "reply 1", "other b")
    async with open_http_gateway(tmp_path) as gateway, client_of(gateway) as client:
        _, later = await say(client, "a", "reply 1", "other b", "reply 3", "c")
        state = await gateway.service.view(later)
        name = state.held_turns[0].users[0].attachments[0].name
        async with gateway.client() as plain:
            kept = await plain.get(f"/api/v1/sessions/{later}/media/{name}")

    assert later == anew
    assert kept.content == png()


@table("name", ["", "new", "temporary:17", "{{CHAT_ID}}"])
async def test_a_chat_that_the_page_does_not_keep_is_not_kept(tmp_path: Path, name: str) -> None:
    """Temporary chats and placeholders name no conversation."""
    async with open_http_gateway(tmp_path) as gateway, client_of(gateway) as client:
        answer = await client.chat.completions.with_raw_response.create(
            model="test", messages=HI, extra_headers={"X-OpenWebUI-Chat-Id": name}
        )

    assert "x-everturn-session" not in answer.headers


async def test_a_chat_is_that_of_its_principal(tmp_path: Path) -> None:
    """The same name by another token is another chat."""
    server = ServerConfig(require_token=True)
    async with open_http_gateway(tmp_path, server=server) as gateway:
        sessions: list[str] = []
        for name in ("ann", "ben"):
            token = await gateway.token(name, "talk")
            async with client_of(gateway, key=token) as client:
                _, session = await say(client, "a")
                sessions.append(session)

    assert len({*sessions}) == 2
    assert [said(gateway, n) for n in (0, 1)] == [["a"], ["a"]]


@table("route", ["chat", "responses"])
async def test_metadata_name_a_conversation(tmp_path: Path, route: str) -> None:
    """Clients that can send no header name it there; `user` names it where nothing else does."""
    name: Any = {"metadata": {"conversation_id": "ticket 4711"}}
    async with open_http_gateway(tmp_path) as gateway, client_of(gateway) as client:
        for _ in range(2):
            if route == "chat":
                await client.chat.completions.create(model="test", messages=HI, user="u", **name)
            else:
                await client.responses.create(model="test", input="hi", **name)
        (session,) = await gateway.service.reader.sessions(after="", limit=10)

    assert session.key.chat == "ticket 4711"
    assert said(gateway, 1) == ["hi", "reply 1", "hi"]
