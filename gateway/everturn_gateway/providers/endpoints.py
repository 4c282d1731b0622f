"""Where each provider's API is, and which key it takes. Pure: no IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from everturn_actors.spec import ModelSpec
from everturn_gateway.providers.errors import ProviderConfigError

STALL_TIMEOUT_S = 60.0  # a model that thinks for long sends comments meanwhile
# A server on this machine that ends closes its connections: while it is silent it reads a long
# prompt, loads a model or serves somebody else, and the deadline of the call is enough.
OWN_STALL_TIMEOUT_S = 600.0

MaxTokensField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
Tells: TypeAlias = Literal["nothing", "listing", "ollama", "anything"]

_COMPLETIONS: Final = "/chat/completions"
_DEFAULT_PATH: Final = "/v1"  # where base_url names a host alone: of Ollama, vLLM, llama.cpp, ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a model is, and what is special about it."""

    address: str
    "Scheme, host and port."
    path: str
    "Path and query of its chat completions."
    key: str = field(default="", repr=False)
    "Sent as bearer token; empty = none."
    max_tokens_field: MaxTokensField = "max_tokens"
    hint: str = ""
    "What to do where nothing answers at this address."
    stall_timeout_s: float = STALL_TIMEOUT_S
    "How long it may send nothing before it is given up."
    tells: Tells = "nothing"
    "How it tells a model's window: not at all, in a list, as Ollama does, or nobody knows how."

    @property
    def base(self) -> str:
        """Path under which the API stands: `/v1`."""
        return self.path.partition("?")[0].removesuffix(_COMPLETIONS)

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        return _on_this_machine(self.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A provider with an OpenAI-compatible API."""

    base_url: str
    key_variable: str = ""
    "Environment variable with the key; empty = it takes none."
    hint: str = ""
    tells: Tells = "nothing"
    "See `Endpoint.tells`; elsewhere than at its own address, a server may tell in any way."


# Sources, read 2026-11-21: https://platform.openai.com/docs/api-reference,
# https://openrouter.ai/docs/api-reference/overview, https://docs.ollama.com/api/openai-compatibility
VENDORS: Final[Mapping[str, Vendor]] = {
    "openai": Vendor(base_url="https://api.openai.com/v1", key_variable="OPENAI_API_KEY"),
    "openrouter": Vendor(
        base_url="https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
        tells="listing",
    ),
    "ollama": Vendor(
        base_url="http://127.0.0.1:11434/v1",
        hint="is Ollama running? (`ollama serve`)",
        tells="ollama",
    ),
}


def endpoint_for(model: ModelSpec, environ: Mapping[str, str]) -> Endpoint:
    """Return the endpoint of `model`, whose provider is one of `VENDORS`.

    The vendor's own address needs its key. Any other `base_url` gets it where it is set.

    Raises:
        ProviderConfigError: No key, one that no header can hold, or a `base_url` that is none.
    """
    vendor = VENDORS[model.provider]
    address, path = _split(model.base_url or vendor.base_url)
    variable = vendor.key_variable
    key = environ.get(variable, "").strip() if variable else ""
    if variable and not key and not model.base_url:
        msg = (
            f"the provider {model.provider} needs a key:"
            f" set the environment variable {variable}, or choose another spec.model.provider"
        )
        raise ProviderConfigError(msg)
    if not (key.isascii() and key.isprintable()) or " " in key:
        msg = f"{variable} is not a key: it holds blanks or characters that no key has"
        raise ProviderConfigError(msg)
    return Endpoint(
        address=address,
        path=path,
        key=key,
        # What OpenAI's newer models insist on is what most other servers do not know.
        max_tokens_field=(
            "max_completion_tokens" if address == "https://api.openai.com" else "max_tokens"
        ),
        hint=vendor.hint,
        stall_timeout_s=OWN_STALL_TIMEOUT_S if _on_this_machine(address) else STALL_TIMEOUT_S,
        tells=_tells(model, vendor, address),
    )


def _tells(model: ModelSpec, vendor: Vendor, address: str) -> Tells:
    own = vendor.base_url.startswith(address)
    return vendor.tells if own or model.provider != "openai" else "anything"


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _on_this_machine(address: str) -> bool:
    return is_loopback(urlsplit(address).hostname or "")


def _split(base_url: str) -> tuple[str, str]:
    """Return address, and path with query, of the chat completions under `base_url`."""
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
    path = parts.path.rstrip("/").removesuffix(_COMPLETIONS) or _DEFAULT_PATH
    shown_host = f"[{host}]" if ":" in host else host
    address = f"{parts.scheme}://{shown_host}{f':{port}' if port else ''}"
    query = f"?{parts.query}" if parts.query else ""
    return address, f"{path}{_COMPLETIONS}{query}"


def _not_an_address(base_url: str, why: str) -> ProviderConfigError:
    return ProviderConfigError(f"spec.model.base_url {base_url!r} is not an address: {why}")
