"""Chat pages as clients of OpenAI's API: what they ask for themselves, and the chats of people."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from openai.types.chat import ChatCompletionMessageParam
from support.agents import write_agent
from support.gateway import HttpGateway, open_http_gateway
from support.openai_client import HI, client_of

from everturn_actors.model import ModelRequest
from everturn_actors.testing import ScriptedProvider, texts
from everturn_gateway.config.settings import OpenAIApiConfig

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


def user(text: str) -> list[ChatCompletionMessageParam]:
    """Return a request's messages with nothing but this one."""
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize("prompt", SIDE)
async def test_what_a_page_asks_for_itself_is_apart(tmp_path: Path, prompt: str) -> None:
    """The model is asked alone, and the chat knows nothing of it."""
    async with (
        open_desk(tmp_path, ScriptedProvider("hello", "A Title", "more")) as gateway,
        client_of(gateway) as client,
    ):
        first = await client.chat.completions.with_raw_response.create(
            model="desk", messages=HI, extra_headers=CHAT
        )
        title = await client.chat.completions.with_raw_response.create(
            model="desk", messages=user(prompt), max_tokens=50, extra_headers=CHAT
        )
        await client.chat.completions.create(model="desk", messages=HI, extra_headers=CHAT)
        state = await gateway.service.view(first.headers["x-everturn-session"])

    alone = asked(gateway)[1]
    assert title.parse().choices[0].message.content == "A Title"
    assert "x-everturn-session" not in title.headers
    assert (alone.system, alone.tools, alone.max_output_tokens) == ("", (), 50)
    assert texts(asked(gateway)[2]) == ["hi", "hi"]
    assert asked(gateway)[2].system.startswith("You rhyme.")
    assert asked(gateway)[2].tools
    assert state.turns == 2


async def test_a_page_may_say_so_itself(tmp_path: Path) -> None:
    """With words of its owner's own the header tells what they are for; by responses too."""
    header = {"X-Everturn-Task": "title_generation"}
    async with (
        open_desk(tmp_path, ScriptedProvider("One", "Two")) as gateway,
        client_of(gateway) as client,
    ):
        await client.chat.completions.create(model="desk", messages=HI, extra_headers=header)
        response = await client.responses.create(model="desk", input="hi", extra_headers=header)
        sessions = await gateway.service.reader.sessions(after="", limit=10)

    assert response.output_text == "Two"
    assert [request.tools for request in asked(gateway)] == [(), ()]
    assert not sessions


NOT_MEANT: list[list[ChatCompletionMessageParam]] = [
    user("Generate a concise title for my essay about ### Task: and <chat_history>."),
    user(f"What does this prompt do?\n\n{TITLE}"),
    user(f"{TITLE}\n\nWhat do you think of it?"),
    user("Provide a concise, 5-word-or-less title for the conversation, please."),
    [*HI, {"role": "assistant", "content": "hello"}, *user(TITLE)],
]


@pytest.mark.parametrize("messages", NOT_MEANT)
async def test_people_may_write_about_titles(
    tmp_path: Path, messages: list[ChatCompletionMessageParam]
) -> None:
    """Only a request that is the template, and nothing else, is the page's own."""
    async with (
        open_desk(tmp_path, ScriptedProvider()) as gateway,
        client_of(gateway) as client,
    ):
        await client.chat.completions.create(model="desk", messages=messages)

    assert asked(gateway)[0].system.startswith("You rhyme.")
    assert asked(gateway)[0].tools


async def test_it_can_be_switched_off(tmp_path: Path) -> None:
    """Then such a request is one like any other."""
    header = {**CHAT, "X-Everturn-Task": "title"}
    async with (
        open_desk(tmp_path, ScriptedProvider()) as gateway,
        client_of(gateway) as client,
    ):
        gateway.config = replace(gateway.config, openai_api=OpenAIApiConfig(side_requests=False))
        answer = await client.chat.completions.with_raw_response.create(
            model="desk", messages=user(TITLE), extra_headers=header
        )

    assert "x-everturn-session" in answer.headers
    assert asked(gateway)[0].tools
