"""From `spec.model` to an address and a key."""

from __future__ import annotations

import pytest
from support.tables import table

from everturn_actors.spec import ModelSpec
from everturn_gateway.providers import ProviderConfigError
from everturn_gateway.providers.transport.endpoints import endpoint_for, is_loopback

KEYS = {
    "OPENAI_API_KEY": "sk-openai",
    "OPENROUTER_API_KEY": "sk-or",
    "ANTHROPIC_API_KEY": "sk-ant",
    "GEMINI_API_KEY": "AI-gem",
    "OLLAMA_API_KEY": "ol-key",
}
GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai"


@table(
    ("provider", "base_url", "url", "key", "field"),
    [
        (
            "openai",
            "",
            "https://api.openai.com/v1/chat/completions",
            "sk-openai",
            "max_completion_tokens",
        ),
        ("openrouter", "", "https://openrouter.ai/api/v1/chat/completions", "sk-or", "max_tokens"),
        ("ollama", "", "http://127.0.0.1:11434/api/chat", "", "max_tokens"),
        ("ollama", "http://gpu:11434", "http://gpu:11434/api/chat", "", "max_tokens"),
        ("ollama", "http://gpu:11434/api/", "http://gpu:11434/api/chat", "", "max_tokens"),
        ("ollama", "http://g/ollama", "http://g/ollama/api/chat", "", "max_tokens"),
        ("ollama", "http://g/v1", "http://g/v1/chat/completions", "", "max_tokens"),
        ("ollama", "https://ollama.com", "https://ollama.com/api/chat", "ol-key", "max_tokens"),
        ("anthropic", "", "https://api.anthropic.com/v1/messages", "sk-ant", "max_tokens"),
        ("anthropic", "https://p/v1", "https://p/v1/messages", "sk-ant", "max_tokens"),
        ("anthropic", "https://p/a/", "https://p/a/v1/messages", "sk-ant", "max_tokens"),
        (
            "anthropic",
            "https://p/a/v1/messages?beta=true",
            "https://p/a/v1/messages?beta=true",
            "sk-ant",
            "max_tokens",
        ),
        ("gemini", "", f"{GEMINI}/chat/completions", "AI-gem", "max_tokens"),
        (
            "openai",
            "http://localhost:8000/v1/",
            "http://localhost:8000/v1/chat/completions",
            "sk-openai",
            "max_tokens",
        ),
        (
            "openai",
            "https://x.openai.azure.com/openai/v1/chat/completions?api-version=preview",
            "https://x.openai.azure.com/openai/v1/chat/completions?api-version=preview",
            "sk-openai",
            "max_tokens",
        ),
        ("openai", "http://[::1]:80", "http://[::1]:80/v1/chat/completions", "sk-openai",
         "max_tokens"),
    ],
)  # fmt: skip
def test_addresses_and_keys(provider: str, base_url: str, url: str, key: str, field: str) -> None:
    """A wrong address fails on the first message, a wrong key goes to a stranger."""
    endpoint = endpoint_for(ModelSpec(provider=provider, name="m", base_url=base_url), KEYS)

    assert endpoint.address + endpoint.path == url
    assert endpoint.key == key
    assert endpoint.max_tokens_field == field
    assert key not in repr(endpoint) or not key


@table(
    ("provider", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
    ],
)
@table("value", ["", "  \n"])
def test_a_missing_key_names_its_variable(provider: str, variable: str, value: str) -> None:
    """The operator needs exactly that name."""
    with pytest.raises(ProviderConfigError, match=variable):
        endpoint_for(ModelSpec(provider=provider, name="m"), {variable: value})


@table(
    ("provider", "base_url", "stall_timeout_s"),
    [
        ("openai", "", 60),
        ("openai", "http://10.0.0.5:1", 60),
        ("openai", "http://[::1]:1", 600),
        # It loads a model of forty gigabytes without a word, wherever it is.
        ("ollama", "http://gpu:11434", 600),
    ],
)
def test_a_server_that_loads_models_may_be_silent_for_longer(
    provider: str, base_url: str, stall_timeout_s: float
) -> None:
    """Far away silence means a dead line, here that a large model is being loaded."""
    model = ModelSpec(provider=provider, name="m", base_url=base_url)

    assert endpoint_for(model, KEYS).stall_timeout_s == stall_timeout_s


def test_a_key_is_shown_as_its_server_wants_it() -> None:
    """Trimmed, under the right name, and only where one is needed."""
    # Another server needs no key. Servers such as vLLM and llama.cpp are mostly run without one.
    local = ModelSpec(provider="openai", name="m", base_url="http://127.0.0.1:8000/v1")

    assert endpoint_for(local, {}).key == ""

    # A key with blanks around it is trimmed. A file that holds a key ends with a line break.
    model = ModelSpec(provider="openai", name="m")

    assert endpoint_for(model, {"OPENAI_API_KEY": " sk-1\n"}).key == "sk-1"

    # Each api is shown its key in its own way. A key under the wrong name is no key.
    anthropic = endpoint_for(ModelSpec(provider="anthropic", name="m"), KEYS)
    gemini = endpoint_for(ModelSpec(provider="gemini", name="m"), KEYS)
    ollama = endpoint_for(ModelSpec(provider="ollama", name="m"), KEYS)

    assert anthropic.headers == {"anthropic-version": "2023-06-01", "x-api-key": "sk-ant"}
    assert gemini.headers == {"authorization": "Bearer AI-gem"}
    assert ollama.headers == {}


@table("key", ["two words", "sk-\u00fc", "line\nbreak"])
def test_a_key_that_no_header_can_hold_is_refused_without_quoting_it(key: str) -> None:
    """A pasted line break would break the request, and the error must not show the key."""
    with pytest.raises(ProviderConfigError, match="OPENAI_API_KEY is not a key") as raised:
        endpoint_for(ModelSpec(provider="openai", name="m"), {"OPENAI_API_KEY": key})

    assert key not in str(raised.value)


@table(
    "base_url", ["localhost:8000", "ftp://h/v1", "http://", "http://h:port/v1", "http://h:99999"]
)
def test_what_is_no_address_is_refused(base_url: str) -> None:
    """At load, not with the first message."""
    with pytest.raises(ProviderConfigError, match="is not an address"):
        endpoint_for(ModelSpec(provider="openai", name="m", base_url=base_url), KEYS)


def test_a_password_in_the_address_is_refused_without_quoting_it() -> None:
    """It would stand in every error text."""
    model = ModelSpec(provider="openai", name="m", base_url="http://me:hunter2@h/v1")

    with pytest.raises(ProviderConfigError) as raised:
        endpoint_for(model, KEYS)

    assert "hunter2" not in str(raised.value)


@table(
    ("host", "own"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("0.0.0.0", False),  # noqa: S104 - an address to judge, not to listen on
        ("10.0.0.1", False),
        ("localhost.example.org", False),
    ],
)
def test_only_this_machine_is_loopback(host: str, own: bool) -> None:
    """Proxies and warnings depend on it."""
    assert is_loopback(host) is own


@table(
    ("provider", "base_url", "tells", "base"),
    [
        ("openai", "", "nothing", "/v1"),
        ("openai", "https://api.openai.com/v1", "nothing", "/v1"),
        ("openai", "http://127.0.0.1:8000", "anything", "/v1"),
        ("openai", "https://x.example/api/v1?version=2", "anything", "/api/v1"),
        ("openrouter", "", "listing", "/api/v1"),
        ("ollama", "", "ollama", ""),
        ("ollama", "http://gpu:11434", "ollama", ""),
        ("ollama", "http://gpu:11434/v1", "ollama", "/v1"),
        ("anthropic", "", "anthropic", ""),
        ("gemini", "", "gemini", "/v1beta/openai"),
    ],
)
def test_who_tells_a_window_and_how(provider: str, base_url: str, tells: str, base: str) -> None:
    """A server that tells nothing must not be asked with every start."""
    endpoint = endpoint_for(ModelSpec(provider=provider, name="m", base_url=base_url), KEYS)

    assert (endpoint.tells, endpoint.base) == (tells, base)


@table(
    ("provider", "base_url", "vendor", "api"),
    [
        ("openai", "", "", "openai"),
        ("openai", GEMINI, "gemini", "openai"),
        ("openai", "https://openrouter.ai/api/v1", "openrouter", "openai"),
        ("openrouter", "https://proxy.example/v1", "openrouter", "openai"),
        ("anthropic", "https://proxy.example", "", "anthropic"),
        ("ollama", "", "", "ollama"),
        ("ollama", "http://gpu:11434/v1/", "", "openai"),
    ],
)
def test_what_is_spoken_where(provider: str, base_url: str, vendor: str, api: str) -> None:
    """Additions of one vendor are refused by the others."""
    endpoint = endpoint_for(ModelSpec(provider=provider, name="m", base_url=base_url), KEYS)

    assert (endpoint.vendor, endpoint.api) == (vendor, api)
