"""The providers behind an API, each with the words of its own in which it refuses.

Sources of the texts: the documents and the open sources of each, read 2026-11-22; those of Ollama
as its versions 0.12.6 and 0.40 sent them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import orjson
from support import messages_format, ollama_format
from support.answers import Answer
from support.model_api import ModelApi, overflow, refused

from everturn_actors.errors import ModelError
from everturn_actors.model import (
    AnyMessage,
    ModelRequest,
    Notice,
    Reply,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UserMessage,
)
from everturn_actors.ports import ModelProvider
from everturn_actors.spec import ModelSpec
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.providers import open_providers
from everturn_gateway.providers.anthropic import Anthropic
from everturn_gateway.providers.ollama import Ollama
from everturn_gateway.providers.openai_compatible import OpenAICompatible
from everturn_gateway.providers.responses import Responses
from everturn_gateway.providers.transport.endpoints import endpoint_for
from everturn_gateway.providers.transport.http_clients import HttpClients
from everturn_gateway.providers.transport.streaming import Connection

KEY = "sk-contract-0123456789"
KEYS = dict.fromkeys(
    ("OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY"), KEY
)
LOOK = ToolDefinition(
    name="look",
    description="Looks",
    parameters={"type": "object", "properties": {"at": {"type": "string"}}},
)
LOOKED = ToolCall(call_id="toolu_01", name="look", arguments='{"at":"x"}')

Refuse = Callable[[int, str], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One provider, and how it says no."""

    name: str
    is_openai: bool
    "Whether it speaks OpenAI's format."
    refuse: Callable[..., Answer]
    "Makes a refusal of a status and a text; takes `headers`."
    overflow: Answer
    window_tokens: int | None
    "The window that the overflow names."

    path: str = ""
    "What its address ends with, where that says what it speaks."

    @property
    def title(self) -> str:
        """What tells it from the others."""
        return self.name + self.path.replace("/", "-")

    def base_url(self, api: ModelApi) -> str:
        """Return where the API is for this provider."""
        return api.url + self.path if self.is_openai else api.address

    def spec(self, api: ModelApi, **fields: Any) -> ModelSpec:
        """Return a model of this provider at the API."""
        return ModelSpec(
            **{"provider": self.name, "name": "m", "base_url": self.base_url(api), **fields}
        )


def _gemini(status: int, message: str, *, headers: Mapping[str, str] | None = None) -> Answer:
    error = {"code": status, "message": message, "status": "INVALID_ARGUMENT"}
    return Answer(status=status, headers=headers or {}, body=orjson.dumps([{"error": error}]))


_ANTHROPIC_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def _anthropic(status: int, message: str, *, headers: Mapping[str, str] | None = None) -> Answer:
    return messages_format.refused(status, _ANTHROPIC_KINDS[status], message, headers=headers)


def _ollama(status: int, message: str, *, headers: Mapping[str, str] | None = None) -> Answer:
    return replace(ollama_format.refused(status, message), headers=headers or {})


OPENAI = Kind(
    name="openai", is_openai=True, refuse=refused, overflow=overflow(), window_tokens=8192
)
RESPONSES = replace(OPENAI, path="/responses")
OPENROUTER = Kind(
    name="openrouter",
    is_openai=True,
    refuse=refused,
    overflow=refused(
        400,
        "This endpoint's maximum context length is 131072 tokens. However, you requested about"
        " 150000 tokens (149000 of text input, 1000 in the output).",
    ),
    window_tokens=131_072,
)
GEMINI = Kind(
    name="gemini",
    is_openai=True,
    refuse=_gemini,
    overflow=_gemini(
        400,
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ),
    window_tokens=1_048_576,
)
ANTHROPIC = Kind(
    name="anthropic",
    is_openai=False,
    refuse=_anthropic,
    overflow=messages_format.overflow(),
    window_tokens=200_000,
)
OLLAMA = Kind(
    name="ollama",
    is_openai=False,
    refuse=_ollama,
    overflow=ollama_format.overflow(4096),
    window_tokens=4096,
)
KINDS = (OPENAI, RESPONSES, OPENROUTER, GEMINI, ANTHROPIC, OLLAMA)
OWN_FORMATS = (OPENAI, RESPONSES, ANTHROPIC, OLLAMA)

# Overflows in the other words that these providers have for them.
OVERFLOWS: tuple[tuple[Kind, Answer, int | None], ...] = (
    *((kind, kind.overflow, kind.window_tokens) for kind in KINDS),
    (
        ANTHROPIC,
        _anthropic(
            400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"
        ),
        200_000,
    ),
    (OLLAMA, _ollama(400, "the input length exceeds the context length"), None),
    (
        OLLAMA,
        _ollama(
            400,
            "the prompt is longer than the context length currently available to the model;"
            " shorten the prompt, adjust the context length in settings, or use a model with a"
            " longer context length",
        ),
        None,
    ),
)


def ignore(_piece: str) -> None:
    """Take a piece of text that does not matter."""


def request(*messages: AnyMessage, **fields: Any) -> ModelRequest:
    """Return a request with these messages."""
    return ModelRequest(
        model="m", system="Be kind.", messages=messages or (UserMessage(text="Hi"),), **fields
    )


def a_conversation(text: str = "and now?") -> tuple[AnyMessage, ...]:
    """Return messages of all kinds."""
    return (
        Notice(text="2 messages are left out"),
        UserMessage(text="look at x"),
        Reply(calls=(LOOKED,)),
        ToolResult(call_id="toolu_01", name="look", text="a cat"),
        Reply(text="It is a cat."),
        UserMessage(text=text),
    )


@asynccontextmanager
async def open_kind(
    kind: Kind,
    api: ModelApi,
    *,
    registry: SecretRegistry | None = None,
    environ: Mapping[str, str] | None = None,
    **fields: Any,
) -> AsyncGenerator[ModelProvider]:
    """Open a provider as the gateway does."""
    async with open_providers(
        environ={**KEYS, **(environ or {})}, models_dir=Path("none"), registry=registry
    ) as providers:
        yield providers.make(kind.spec(api, **fields), Path("none"))


@asynccontextmanager
async def open_impatient(
    kind: Kind, base_url: str, stall_timeout_s: float
) -> AsyncGenerator[ModelProvider]:
    """Open an adapter that gives a silent server less time."""
    clients = HttpClients()
    model = ModelSpec(provider=kind.name, name="m", base_url=base_url)
    endpoint = replace(endpoint_for(model, KEYS), stall_timeout_s=stall_timeout_s)
    connection = Connection(endpoint=endpoint, clients=clients, mask=str)
    try:
        match endpoint.api:
            case "openai":
                yield OpenAICompatible(connection, model="m")
            case "responses":
                yield Responses(connection, model="m")
            case "anthropic":
                yield Anthropic(connection, model="m")
            case "ollama":
                yield Ollama(connection, model=model)
    finally:
        await clients.aclose()


async def answered(
    adapter: ModelProvider, asked: ModelRequest, *, tries: int = 4
) -> Reply | ModelError:
    """Call as a turn does: again on what is retryable, after the wait that was asked for."""
    failure: ModelError | None = None
    for attempt in range(tries):
        try:
            return await adapter.complete(asked, ignore)
        except ModelError as error:
            failure = error
            if not error.retryable:
                break
            # Not for synchronisation: llmock judges whether and how long the client waited.
            await anyio.sleep(error.retry_after_s or 0.25 * 2**attempt)
    assert failure is not None
    return failure
