"""Finds model servers on this machine, and asks any server which models it has.

Sources, read 2026-11: https://docs.ollama.com/api/tags;
https://lmstudio.ai/docs/developer/openai-compat;
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html;
llama.cpp, tools/server/README.md;
https://platform.claude.com/docs/en/api/models/list; https://ai.google.dev/gemini-api/docs/openai.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import anyio
import httpx2
import orjson
from anyio.to_thread import run_sync
from msgspec import Struct

from everturn_actors.json_values import as_object, is_list
from everturn_actors.spec import ModelSpec
from everturn_gateway.errors import GatewayError
from everturn_gateway.providers.transport.endpoints import Endpoint, endpoint_for, endpoints_for

_LOOK_S: Final = 1.5  # a server on this machine answers in milliseconds, unless it is busy
_ASK_S: Final = 20.0
_LIST_BYTES: Final = 16 * 1024 * 1024  # OpenRouter's list is about a megabyte
_OWN: Final = "everturn"  # who owns the models that a gateway of ours lists

# Where each listens by default: what it is called, its port.
_PLACES: Final = (("LM Studio", 1234), ("vLLM", 8000), ("llama.cpp", 8080), ("Jan", 1337))
_OWNERS: Final = {"vllm": "vLLM", "llamacpp": "llama.cpp", "organization_owner": "LM Studio"}
_OLLAMA_PORT: Final = 11434

# Parts of names that say that a model does not talk.
_NO_TALK: Final = re.compile(
    r"embed|whisper|tts|dall-e|moderation|transcri|realtime|audio|image|rerank|bge-|clip|imagen|veo"
    r"|davinci-002|babbage-002|sora|-aqa",
    re.IGNORECASE,
)


class KeyRefusedError(GatewayError):
    """The server wants a key, or another one."""


class NoListError(GatewayError):
    """The server does not say which models it has."""


class Server(Struct, frozen=True, kw_only=True):
    """A model server that was found on this machine."""

    title: str
    provider: str
    base_url: str = ""
    "Empty = the provider's usual address."
    models: tuple[str, ...] = ()


async def find_servers(environ: Mapping[str, str]) -> list[Server]:
    """Return the servers that answer on this machine, in the order in which they are offered."""
    found: dict[str, Server] = {}

    async def look(title: str, provider: str, base_url: str) -> None:
        model = ModelSpec(provider=provider, name="-", base_url=base_url)
        with anyio.move_on_after(_LOOK_S):
            try:
                listed = await _listed(endpoint_for(model, {}))
            except GatewayError:
                return
            owner = next((row.owner for row in listed if row.owner), "")
            if owner != _OWN:
                names = tuple(row.name for row in listed if not _NO_TALK.search(row.name))
                found[base_url] = Server(
                    title=_OWNERS.get(owner, title),
                    provider=provider,
                    base_url=base_url,
                    models=names,
                )

    asked = {f"http://127.0.0.1:{port}/v1": (title, "openai") for title, port in _PLACES}
    asked = {_ollama(environ): ("Ollama", "ollama"), **asked}
    async with anyio.create_task_group() as tasks:
        for base_url, (title, provider) in asked.items():
            tasks.start_soon(look, title, provider, base_url)
    return [found[base_url] for base_url in asked if base_url in found]


def _ollama(environ: Mapping[str, str]) -> str:
    """Return where Ollama listens. Source: https://docs.ollama.com/faq, `OLLAMA_HOST`."""
    given = environ.get("OLLAMA_HOST", "").strip()
    parts = urlsplit(given if "//" in given else f"//{given}")
    host = parts.hostname or "127.0.0.1"
    host = "127.0.0.1" if host == "0.0.0.0" else host  # noqa: S104 - it is where it is reached
    try:
        port = parts.port or _OLLAMA_PORT
    except ValueError:
        port = _OLLAMA_PORT
    return f"{parts.scheme or 'http'}://{host}:{port}"


async def models_of(model: ModelSpec, environ: Mapping[str, str]) -> list[str]:
    """Return the names of the models that a server has and that talk, newest first.

    Args:
        model: Names the provider and its address.
        environ: Holds the key.

    Raises:
        KeyRefusedError: It wants a key, or another one.
        NoListError: It does not say, for the reason that is told.
        ProviderConfigError: The address or the key is none.
    """
    *others, last = endpoints_for(model, environ)
    for each in others:  # a key that is refused may have a better one beside it
        try:
            listed = await _listed(each)
            break
        except KeyRefusedError:
            continue
    else:
        listed = await _listed(last)
    listed.sort(key=lambda row: -row.created)
    return [row.name for row in listed if not _NO_TALK.search(row.name)]


class _Row(Struct, frozen=True, kw_only=True):
    name: str
    owner: str = ""
    created: float = 0


async def _listed(to: Endpoint) -> list[_Row]:
    path = {"ollama": "/api/tags", "anthropic": "/v1/models?limit=1000"}.get(to.api, "/models")
    base = to.base.removesuffix("/v1") if to.api == "ollama" else to.base
    # Not for the event loop: it reads the certificates of the machine.
    made = partial(httpx2.AsyncClient, timeout=_ASK_S, trust_env=not to.is_loopback)
    http = await run_sync(made)
    try:
        async with (
            http,
            http.stream("GET", f"{to.address}{base}{path}", headers=to.headers) as response,
        ):
            data = await _read(response)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        usual = "does it run?" if to.is_loopback else "a proxy would stand in HTTPS_PROXY"
        why = str(error) or type(error).__name__
        msg = f"{to.address} cannot be reached: {why}; {to.hint or usual}"
        raise NoListError(msg) from error
    if response.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        refused = "refused the key: it may be cut short, taken back, or that of another server"
        msg = f"{to.address} {refused if to.key else 'wants a key'}"
        raise KeyRefusedError(msg)
    rows = _rows(data)
    if response.status_code != HTTPStatus.OK or rows is None:
        kind = response.headers.get("content-type", "").partition(";")[0]
        what = "a web page" if kind == "text/html" else "no list of models"
        msg = (
            f"{to.address} answers with {what} (status {response.status_code});"
            " is that the address of its API, and no proxy in between?"
        )
        raise NoListError(msg)
    return rows


async def _read(response: httpx2.Response) -> bytes:
    data = bytearray()
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > _LIST_BYTES:
            break
    return bytes(data)


def _rows(data: bytes) -> list[_Row] | None:
    """Return the models in an answer; None where it is no list."""
    try:
        told: object = orjson.loads(data)
    except ValueError:
        return None
    fields = as_object(told)
    listed = fields.get("data", fields.get("models"))
    if not is_list(listed):
        return None
    rows: list[_Row] = []
    for each in listed:
        row = as_object(each)
        name, created = row.get("id", row.get("name")), row.get("created")
        if isinstance(name, str) and name.isprintable():
            rows.append(
                _Row(
                    name=name.removeprefix("models/"),  # as Gemini calls them
                    owner=str(row.get("owned_by") or ""),
                    created=created if isinstance(created, int | float) else 0,
                )
            )
    return rows
