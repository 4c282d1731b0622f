"""The model providers that come with Everturn: five APIs, local weights, and two that are none."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from everturn_actors.ports import ModelProvider
from everturn_actors.spec import ModelSpec
from everturn_gateway.late_loading import late
from everturn_gateway.plugins import (
    KeyedSettings,
    ProviderPlugin,
    ProviderSettings,
    ProviderSetup,
)
from everturn_gateway.providers.transport.endpoints import (
    address_of,
    endpoints_for,
    speaks_responses,
)
from everturn_gateway.usage import price_table

if TYPE_CHECKING:
    from everturn_gateway.providers import builtin, connected, scripted
else:
    builtin = late("everturn_gateway.providers.builtin")
    connected = late("everturn_gateway.providers.connected")
    scripted = late("everturn_gateway.providers.scripted")

logger = logging.getLogger(__name__)

_DOCS: Final = "docs/models.md"
_CACHE_LIFE_S: Final = 300
"""Anthropic caches for five minutes from the last use, OpenAI for five to ten.

Source: "Prompt caching" of https://platform.claude.com/docs and https://platform.openai.com/docs,
read 2026-11-26.
"""


def _connected(setup: ProviderSetup) -> connected.ConnectedProviders:
    # With the HTTP client, which takes 80 ms to load; builtin and scripted do without.
    made: connected.ConnectedProviders = setup.shared(
        "everturn", lambda: connected.ConnectedProviders(setup)
    )
    return made


def _remote(setup: ProviderSetup) -> ModelProvider:
    endpoints = endpoints_for(setup.model, setup.environ)
    for each in endpoints:
        setup.add_secret(each.key)
    endpoint = endpoints[0]
    if endpoint.key and endpoint.address.startswith("http://") and not endpoint.is_loopback:
        logger.warning("key goes out unencrypted", extra={"address": endpoint.address})
    return _connected(setup).remote(setup.model, endpoints)


def _local(setup: ProviderSetup) -> ModelProvider:
    return _connected(setup).local(setup.model, setup.folder)


def _builtin(setup: ProviderSetup) -> ModelProvider:
    del setup
    return builtin.BuiltinResponder()


def _scripted(setup: ProviderSetup) -> ModelProvider:
    file = setup.folder / (setup.model.base_url or setup.model.name)
    return scripted.load_script(file, setup.environ)


def _always(_model: ModelSpec) -> bool:
    return True


def _free_at_ollama(model: ModelSpec) -> bool:
    return "cloud" not in model.name and "ollama.com" not in model.base_url


def _free_at_openrouter(model: ModelSpec) -> bool:
    return model.name.endswith(":free")


_api: Final = partial(
    ProviderPlugin,
    interface=1,
    docs=_DOCS,
    settings=KeyedSettings,
    make=_remote,
    address=address_of,
)
"An API that is called at an address, with a key."

OPENAI: Final = _api(
    name="openai",
    usual_model="gpt-5-mini",
    summary="OpenAI, and every server that speaks its format",
    compacts=speaks_responses,
    compacts_where="openai with spec.model.base_url: https://api.openai.com/v1/responses",
    prices=price_table.OPENAI,
    cache_life_s=_CACHE_LIFE_S,
)
ANTHROPIC: Final = _api(
    name="anthropic",
    usual_model="claude-sonnet-5",
    summary="Anthropic",
    compacts=_always,
    prices=price_table.ANTHROPIC,
    cache_life_s=_CACHE_LIFE_S,
)
GEMINI: Final = _api(
    name="gemini",
    usual_model="gemini-3.5-flash",
    summary="Google's Gemini",
    prices=price_table.GEMINI,
)
OPENROUTER: Final = _api(
    name="openrouter",
    usual_model="openai/gpt-5-mini",
    summary="OpenRouter",
    is_free=_free_at_openrouter,
)
OLLAMA: Final = _api(
    name="ollama",
    usual_model="llama3.2",
    summary="Ollama, on this machine or elsewhere",
    is_free=_free_at_ollama,
)
LOCAL: Final = ProviderPlugin(
    name="local",
    usual_model="smollm2-135m-instruct",
    interface=1,
    summary="weights in a process of the gateway",
    docs=_DOCS,
    settings=ProviderSettings,
    extra="everturn[local]",
    libraries=("xllamacpp",),
    make=_local,
    is_free=_always,
    max_concurrent=1,
    calls_tools=False,
    windows=(("smollm2-135m", 4096),),  # trained for 2,048, and served with no more than this
)
BUILTIN: Final = ProviderPlugin(
    name="builtin",
    usual_model="builtin",
    interface=1,
    summary="the built-in responder, which is no language model",
    docs=_DOCS,
    make=_builtin,
    is_free=_always,
    is_model=False,
)
SCRIPTED: Final = ProviderPlugin(
    name="scripted",
    interface=1,
    summary="replies from a file",
    docs=_DOCS,
    make=_scripted,
    is_free=_always,
    is_model=False,
)
