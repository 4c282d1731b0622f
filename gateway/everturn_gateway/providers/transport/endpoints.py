"""Where each provider's API is, what it speaks, and which key it takes. Pure: no IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from everturn_actors.spec import ModelSpec
from everturn_gateway.providers.errors import ProviderConfigError

STALL_TIMEOUT_S = 60.0  # a model that thinks for long sends comments meanwhile
# A server on this machine that ends closes its connections: while it is silent it reads a long
# prompt, loads a model or serves somebody else, and the deadline of the call is enough.
OWN_STALL_TIMEOUT_S = 600.0

Api: TypeAlias = Literal["openai", "responses", "anthropic", "ollama"]
Vendor: TypeAlias = Literal["", "openrouter", "gemini"]
MaxTokensField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
Tells: TypeAlias = Literal["nothing", "listing", "ollama", "anthropic", "gemini", "anything"]

Counts: TypeAlias = Literal["", "openai", "anthropic", "gemini"]

ANTHROPIC_VERSION: Final = "2023-06-01"  # of the API; the only one that its documents describe

_PATHS: Final[Mapping[Api, str]] = {
    "openai": "/chat/completions",
    "responses": "/responses",
    "anthropic": "/v1/messages",
    "ollama": "/api/chat",
}
_DEFAULT_PATH: Final = "/v1"  # where base_url names a host alone: of vLLM, llama.cpp, ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a model is, and what is special about it."""

    address: str
    "Scheme, host and port."
    path: str
    "Path and query that requests are posted to."
    api: Api = "openai"
    "What it speaks."
    vendor: Vendor = ""
    "Whose additions to OpenAI's format it understands."
    key: str = field(default="", repr=False)
    "Empty = none is sent."
    max_tokens_field: MaxTokensField = "max_tokens"
    hint: str = ""
    "What to do where nothing answers at this address."
    stall_timeout_s: float = STALL_TIMEOUT_S
    "How long it may send nothing before it is given up."
    tells: Tells = "nothing"
    "How it tells a model's window: not at all, in a list, as its vendor does, or nobody knows how."

    counts: Counts = ""
    "By whose route it says what a request would cost; empty = by none."

    @property
    def base(self) -> str:
        """Path under which the API stands: `/v1`, or nothing for those that name their version."""
        return self.path.partition("?")[0].removesuffix(_PATHS[self.api])

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        return _on_this_machine(self.address)

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries to be let in."""
        if self.api == "anthropic":
            version = {"anthropic-version": ANTHROPIC_VERSION}
            return {**version, "x-api-key": self.key} if self.key else version
        return {"authorization": f"Bearer {self.key}"} if self.key else {}


class Provider(Struct, frozen=True, kw_only=True):
    """A provider with an API of its own address."""

    base_url: str
    key_variable: str
    "Environment variable with the key."
    needs_key: bool = True
    "Whether its own address takes no request without one."
    api: Api = "openai"
    vendor: Vendor = ""
    hint: str = ""
    tells: Tells = "nothing"
    "See `Endpoint.tells`; elsewhere than at its own address, a server may tell in any way."


# Sources, read 2026-11-22: https://platform.openai.com/docs/api-reference,
# https://openrouter.ai/docs/api-reference/overview, https://platform.claude.com/docs/en/api/messages,
# https://ai.google.dev/gemini-api/docs/openai, https://docs.ollama.com/api
PROVIDERS: Final[Mapping[str, Provider]] = {
    "openai": Provider(base_url="https://api.openai.com/v1", key_variable="OPENAI_API_KEY"),
    "anthropic": Provider(
        base_url="https://api.anthropic.com",
        key_variable="ANTHROPIC_API_KEY",
        api="anthropic",
        tells="anthropic",
    ),
    "gemini": Provider(
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_variable="GEMINI_API_KEY",
        vendor="gemini",
        tells="gemini",
    ),
    "openrouter": Provider(
        base_url="https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
        vendor="openrouter",
        tells="listing",
    ),
    "ollama": Provider(
        base_url="http://127.0.0.1:11434",
        key_variable="OLLAMA_API_KEY",
        needs_key=False,
        api="ollama",
        hint="is Ollama running? (`ollama serve`)",
        tells="ollama",
    ),
}


def endpoint_for(model: ModelSpec, environ: Mapping[str, str]) -> Endpoint:
    """Return the endpoint of `model` with the first of its keys; see `endpoints_for`.

    Raises:
        ProviderConfigError: As there.
    """
    return endpoints_for(model, environ)[0]


def endpoints_for(model: ModelSpec, environ: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Return the endpoint of `model`, whose provider is one of `PROVIDERS`, with each of its keys.

    There is at least one, in the order of the keys; the first has none where none is needed.

    The provider's own address needs its key. Any other `base_url` gets it where it is set; a key
    for Ollama, which few servers ask for, goes out encrypted or not at all.

    Raises:
        ProviderConfigError: No key, one that no header can hold, or a `base_url` that is none.
    """
    provider = PROVIDERS[model.provider]
    api = _api(model, provider)
    address, path = _split(model.base_url or provider.base_url, api)
    own = provider.base_url.startswith(address)
    keys = _keys(model, provider, environ, needs_one=provider.needs_key and own)
    if provider.api == "ollama" and not address.startswith("https://"):
        keys = ("",)
    # Ollama loads a model, and reads a long prompt, without a word.
    patient = _on_this_machine(address) or api == "ollama"
    first = Endpoint(
        address=address,
        path=path,
        api=api,
        vendor=provider.vendor or _vendor_at(address),
        key=keys[0],
        # What OpenAI's newer models insist on is what most other servers do not know.
        max_tokens_field=(
            "max_completion_tokens" if address == "https://api.openai.com" else "max_tokens"
        ),
        hint=provider.hint,
        stall_timeout_s=OWN_STALL_TIMEOUT_S if patient else STALL_TIMEOUT_S,
        tells=provider.tells if own or model.provider != "openai" else "anything",
        counts=_counts(api, model.provider if own else ""),
    )
    return (first, *(replace(first, key=key) for key in keys[1:]))


def split_keys(text: str) -> tuple[str, ...]:
    """Return the keys that a variable or a file holds, separated by commas, each once.

    >>> split_keys("sk-1, sk-2,")
    ('sk-1', 'sk-2')
    """
    return tuple(dict.fromkeys(filter(None, (each.strip() for each in text.split(",")))))


def _counts(api: Api, provider: str) -> Counts:
    """Return by whose route requests are counted; `provider` is empty elsewhere than at its own.

    Many servers that speak Anthropic's API have this route of it, and the others say so.
    """
    if api == "anthropic":
        return "anthropic"
    if provider == "openai":
        return "openai"
    return "gemini" if provider == "gemini" else ""


def address_of(model: ModelSpec) -> str:
    """Return scheme, host and port of `model`, whose provider is one of `PROVIDERS`.

    Raises:
        ProviderConfigError: Its `base_url` is no address.
    """
    provider = PROVIDERS[model.provider]
    return _split(model.base_url or provider.base_url, _api(model, provider))[0]


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def speaks_responses(model: ModelSpec) -> bool:
    """Whether `model`, whose provider is one of `PROVIDERS`, is asked by the Responses API."""
    return _api(model, PROVIDERS[model.provider]) == "responses"


def _api(model: ModelSpec, provider: Provider) -> Api:
    """Return what is spoken.

    An address of OpenAI's format that ends in `/responses` means its Responses API; with Ollama,
    one that ends in `/v1` means chat completions.
    """
    path = model.base_url.partition("?")[0].rstrip("/")
    if provider.api == "openai" and path.endswith(_PATHS["responses"]):
        return "responses"
    speaks_openai = path.endswith(("/v1", _PATHS["openai"]))
    return "openai" if provider.api == "ollama" and speaks_openai else provider.api


def _keys(
    model: ModelSpec, provider: Provider, environ: Mapping[str, str], *, needs_one: bool
) -> tuple[str, ...]:
    variable = provider.key_variable
    keys = split_keys(environ.get(variable, "")) or ("",)
    if not keys[0] and needs_one:
        msg = (
            f"the provider {model.provider} needs a key:"
            f" set the environment variable {variable}, or choose another spec.model.provider"
        )
        raise ProviderConfigError(msg)
    if not all(key.isascii() and key.isprintable() and " " not in key for key in keys):
        msg = f"{variable} is not a key: it holds blanks or characters that no key has"
        raise ProviderConfigError(msg)
    return keys


def _vendor_at(address: str) -> Vendor:
    for name in ("openrouter", "gemini"):
        provider = PROVIDERS[name]
        if provider.base_url.startswith(address):
            return provider.vendor
    return ""


def _on_this_machine(address: str) -> bool:
    return is_loopback(urlsplit(address).hostname or "")


def _split(base_url: str, api: Api) -> tuple[str, str]:
    """Return address, and path with query, of what requests are posted to under `base_url`."""
    try:
        parts = urlsplit(base_url.strip())
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _not_an_address(base_url, str(error)) from None
    if parts.scheme not in {"http", "https"} or not host:
        raise _not_an_address(base_url, "it has to begin with http:// or https:// and name a host")
    if parts.username is not None:
        # Not quoted back: what stands before the @ is a secret.
        msg = "spec.model.base_url must not hold a user name or a password"
        raise ProviderConfigError(msg)
    shown_host = f"[{host}]" if ":" in host else host
    address = f"{parts.scheme}://{shown_host}{f':{port}' if port else ''}"
    query = f"?{parts.query}" if parts.query else ""
    return address, f"{_path(parts.path, api)}{query}"


def _path(given: str, api: Api) -> str:
    """Return the path of requests, whichever part of it `given` has already."""
    end = _PATHS[api]
    path = given.rstrip("/").removesuffix(end)
    match api:
        case "openai" | "responses":
            return (path or _DEFAULT_PATH) + end
        case "anthropic":
            return path.removesuffix("/v1") + end
        case "ollama":
            return path.removesuffix("/api") + end


def _not_an_address(base_url: str, why: str) -> ProviderConfigError:
    return ProviderConfigError(f"spec.model.base_url {base_url!r} is not an address: {why}")
