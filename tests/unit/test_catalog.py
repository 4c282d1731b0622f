"""From `spec.model` to a provider."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import anyio.to_thread
import pytest
from support.tables import table

import everturn_gateway.providers.connected  # noqa: F401 - a thread loads it else, not the loop
from everturn_actors.model import ModelRequest, UserMessage
from everturn_actors.spec import ModelSpec
from everturn_gateway.errors import ConfigError
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.providers import ProviderConfigError, open_providers
from everturn_gateway.providers.scripted import ScriptedReplies
from everturn_gateway.providers.transport.wire import BodyWriter


@table(
    ("provider", "says"),
    [
        (
            "opnai",
            "there are: anthropic, builtin, gemini, local, ollama, openai, openrouter, scripted",
        ),
        ("", "there are: anthropic, builtin"),
    ],
)
async def test_an_unknown_provider_is_named_with_what_there_is(provider: str, says: str) -> None:
    """The author of the agent sees the word that was meant."""
    async with open_providers(environ={}, models_dir=Path()) as providers:
        with pytest.raises(ProviderConfigError) as raised:
            providers.make(ModelSpec(provider=provider, name="m"), Path())

    assert f"spec.model.provider {provider!r} is not available; " in str(raised.value)
    assert says in str(raised.value)


async def test_a_key_in_use_is_kept_from_logs_and_warned_about_in_the_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Anybody who reads one has it."""
    # A key in use is registered as a secret. From then on no log line shows it.
    registry = SecretRegistry()
    environ = {"OPENAI_API_KEY": "sk-in-use", "OPENROUTER_API_KEY": "sk-idle"}
    async with open_providers(environ=environ, models_dir=Path(), registry=registry) as providers:
        providers.make(ModelSpec(provider="openai", name="m"), Path())

    assert registry.mask("sk-in-use") == "***"

    # A key that goes out in the open is warned about. Anybody on the way can read it; on this
    # machine nobody is.
    environ = {"OPENAI_API_KEY": "sk-in-use"}
    async with open_providers(environ=environ, models_dir=Path()) as providers:
        with caplog.at_level(logging.WARNING):
            for base_url in ("http://127.0.0.1:1/v1", "https://far/v1", "http://far/v1"):
                providers.make(ModelSpec(provider="openai", name="m", base_url=base_url), Path())

    assert [record.message for record in caplog.records] == ["key goes out unencrypted"]
    assert vars(caplog.records[0])["address"] == "http://far"


async def test_scripted_finds_its_file_from_the_agents_folder(tmp_path: Path) -> None:
    """An agent folder can be moved; the script is named by `name` or by `base_url`."""
    await anyio.to_thread.run_sync((tmp_path / "s.yaml").write_text, "replies: [{text: hi}]")
    async with open_providers(environ={}, models_dir=Path()) as providers:
        for spec in (
            ModelSpec(provider="scripted", name="s.yaml"),
            ModelSpec(provider="scripted", name="demo", base_url="./s.yaml"),
        ):
            made = await anyio.to_thread.run_sync(providers.make, spec, tmp_path)
            assert isinstance(made, ScriptedReplies)
        bad = ModelSpec(provider="scripted", name="none.yaml")
        with pytest.raises(ConfigError, match="there is no such file"):
            await anyio.to_thread.run_sync(providers.make, bad, tmp_path)


def test_no_http_client_is_loaded_before_a_call() -> None:
    """It takes a tenth of the whole start, and 10 MB; nothing calls a model before it is asked."""
    code = """
import sys, anyio
from pathlib import Path
from everturn_actors.spec import ModelSpec
from everturn_gateway.providers import open_providers

async def main():
    async with open_providers(environ={}, models_dir=Path()) as providers:
        for provider in ("builtin", "ollama"):
            providers.make(ModelSpec(provider=provider, name="m"), Path())
        print({"aiohttp", "httpx2"} & sys.modules.keys())

anyio.run(main)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.strip() == "set()"


def test_half_a_character_in_a_prompt_is_replaced() -> None:
    """A YAML escape can write one, no request can hold it, and the agent must still answer."""
    request = ModelRequest(
        model="m", system="a\ud83d", messages=(UserMessage(text="\ude00b \ud83d\ude00"),)
    )

    body = BodyWriter().body(request, max_tokens_field="max_tokens").decode()

    assert '"a\N{REPLACEMENT CHARACTER}"' in body
    assert '"\N{REPLACEMENT CHARACTER}b 😀"' in body
