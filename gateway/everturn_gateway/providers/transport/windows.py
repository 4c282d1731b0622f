"""How large a model's window is, as the server says that serves it.

Nobody has to know: whoever asks goes on without an answer. What counts is what the model is served
with; what it was trained for is taken only where the server tells nothing else.

Sources, read 2026-11-21: Ollama, https://docs.ollama.com/api/ps and /api/show; OpenRouter,
https://openrouter.ai/docs/api-reference/list-available-models; LM Studio,
https://lmstudio.ai/docs/developer/rest; Anthropic,
https://platform.claude.com/docs/en/api/models/retrieve; Gemini,
https://ai.google.dev/api/models (both 2026-11-22); of llama.cpp (`/props`, `/v1/models`) and vLLM
(`/v1/models`), what their servers send.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import anyio.to_thread
import orjson

from everturn_actors.json_values import as_list, is_object
from everturn_gateway.providers.transport.endpoints import Endpoint
from everturn_gateway.providers.transport.http_port import HttpClient

_ANSWER_LIMIT_BYTES = 16 * 1024 * 1024  # OpenRouter's list of models is about a megabyte
_WINDOW_RANGE: Final = range(256, 100_000_001)  # tokens; what is outside is no window

# Of one model in a list of them: vLLM; LM Studio; OpenRouter, Together and others; Groq.
_SERVED: Final = ("max_model_len", "loaded_context_length", "context_length", "context_window")
_NUM_CTX: Final = re.compile(r"^[ \t]*num_ctx[ \t]+(\d{1,9})\b", re.MULTILINE | re.ASCII)
WINDOW_TIMEOUT_S = 5.0  # for all questions about a model's window together
_LARGE_BYTES = 256 * 1024  # of an answer; more is parsed beside the event loop


async def served_window(client: HttpClient, endpoint: Endpoint, model: str) -> int | None:
    """Return the window of `model` at `endpoint`, None where the server does not tell.

    Raises:
        HttpError: The server cannot be reached.
    """
    questions = _Questions(client, endpoint)
    match endpoint.tells:
        case "nothing":
            return None
        case "ollama":
            return await questions.ollama(model)
        case "anthropic":
            return await questions.anthropic(model)
        case "gemini":
            return await questions.gemini(model)
        case "listing":
            return await questions.listing(model)
        case "anything":
            return await questions.anything(model)


class _Questions:
    """What one server can be asked."""

    def __init__(self, client: HttpClient, endpoint: Endpoint) -> None:
        self._client = client
        self._base = endpoint.base
        self._root = endpoint.base.removesuffix("/v1")
        self._headers = {"accept": "application/json", **endpoint.headers}
        self._key = endpoint.key

    async def listing(self, model: str) -> int | None:
        entry = entry_of(await self._ask("GET", f"{self._base}/models"), model)
        return served_in(entry) or trained_in(entry)

    async def ollama(self, model: str) -> int | None:
        loaded = loaded_in(await self._ask("GET", f"{self._root}/api/ps"), model)
        if loaded is not None:
            return loaded
        shown = await self._ask("POST", f"{self._root}/api/show", {"model": model})
        return configured_in(shown)

    async def anthropic(self, model: str) -> int | None:
        told = await self._ask("GET", f"{self._base}/v1/models/{quote(model, safe='')}")
        return _window(_at(told, "max_input_tokens"))

    async def gemini(self, model: str) -> int | None:
        """Ask the API beside the compatible one, which takes the key under another name."""
        path = f"{self._base.removesuffix('/openai')}/models/{quote(model, safe='')}"
        told = await self._ask("GET", path, headers={"x-goog-api-key": self._key})
        return _window(_at(told, "inputTokenLimit"))

    async def anything(self, model: str) -> int | None:
        """Ask a server of which nothing is known but that it speaks OpenAI's format."""
        entry = entry_of(await self._ask("GET", f"{self._base}/models"), model)
        served = served_in(entry)
        if served is None:
            served = slot_in(await self._ask("GET", f"{self._root}/props"))
        if served is None:
            served = loaded_in(await self._ask("GET", f"{self._root}/api/ps"), model)
        if served is None:
            listed = entry_of(await self._ask("GET", f"{self._root}/api/v0/models"), model)
            served, entry = served_in(listed), entry or listed
        return served or trained_in(entry)

    async def _ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> object:
        """Return the parsed answer; None where it is a refusal, or no JSON."""
        async with self._client.request(
            method,
            path,
            body=b"" if body is None else orjson.dumps(body),
            headers=self._headers if headers is None else headers,
            silence_s=WINDOW_TIMEOUT_S,
        ) as response:
            if response.status != HTTPStatus.OK:
                return None
            answer = bytearray()
            while piece := await response.read():
                answer += piece
                if len(answer) > _ANSWER_LIMIT_BYTES:
                    return None
        try:
            if len(answer) > _LARGE_BYTES:
                return await anyio.to_thread.run_sync(orjson.loads, answer)
            return orjson.loads(answer)
        except ValueError:
            return None


def entry_of(listing: object, model: str) -> object:
    """Return what a list of models says about `model`; None where it is not in it.

    The only model of a server is the one that is meant, whatever it is called.
    """
    entries = list(_entries(listing))
    # OpenRouter lists a model without the variants of it that it makes itself: `name:online`.
    for name in (model, model.rpartition(":")[0]):
        for entry in entries:
            if name and name in (entry.get("id"), entry.get("name"), entry.get("model")):
                return entry
    return entries[0] if len(entries) == 1 else None


def served_in(entry: object) -> int | None:
    """Return the window that one model of a list is served with."""
    found = [_window(_at(entry, key)) for key in _SERVED]
    found += [_window(_at(entry, "top_provider", "context_length"))]  # of OpenRouter's first choice
    found += [_window(_at(entry, "meta", "n_ctx"))]  # llama.cpp
    return min((tokens for tokens in found if tokens is not None), default=None)


def trained_in(entry: object) -> int | None:
    """Return the window that one model of a list was made for: as much as it can have."""
    # LM Studio and Mistral; llama.cpp
    return _window(_at(entry, "max_context_length")) or _window(_at(entry, "meta", "n_ctx_train"))


def slot_in(props: object) -> int | None:
    """Return the window of one slot of llama.cpp: what one request may have."""
    slot = _window(_at(props, "default_generation_settings", "n_ctx"))
    return slot or _window(_at(props, "n_ctx"))


def loaded_in(running: object, model: str) -> int | None:
    """Return the window with which Ollama has loaded a model; None where it has not."""
    names = (model, f"{model}:latest")
    for entry in _entries(running):
        if entry.get("name") in names or entry.get("model") in names:
            return _window(entry.get("context_length"))
    return None


def configured_in(shown: object) -> int | None:
    """Return the window that the file of an Ollama model sets; None where it sets none."""
    parameters = _at(shown, "parameters")
    found = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    return _window(int(found[1])) if found else None


def _entries(listing: object) -> Iterator[dict[str, object]]:
    """Yield the models of a list: `{"data": [...]}`, `{"models": [...]}`, or the list itself."""
    found = _at(listing, "data") or _at(listing, "models") or listing
    for entry in as_list(found):
        if is_object(entry):
            yield entry


def _at(value: object, *path: str) -> object:
    for key in path:
        if not is_object(value):
            return None
        value = value.get(key)
    return value


def _window(value: object) -> int | None:
    return value if isinstance(value, int) and value in _WINDOW_RANGE else None
