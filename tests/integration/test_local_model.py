"""The local model's process: started once, started again, never left behind.

Everything but the last test runs with a stand-in for the engine, which needs no weights.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import psutil
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from support.children import Children
from support.patience import WAIT_S

from everturn_actors.errors import ModelError, ModelRefusedError, ModelTransientError
from everturn_actors.model import ModelRequest, ToolDefinition, UserMessage
from everturn_actors.ports import ModelProvider
from everturn_actors.spec import ModelSpec
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.providers import ProviderConfigError, Providers, open_providers
from everturn_gateway.providers.local.provider import threads
from everturn_gateway.providers.local.weights import SMOLLM2

ENGINE = Path(__file__).parent.parent / "support" / "stub_engine"


def ignore(_piece: str) -> None:
    """Take a piece of text that does not matter."""


def request(text: str = "hi", **fields: Any) -> ModelRequest:
    """Return a request with one message."""
    return ModelRequest(model="model", system="", messages=(UserMessage(text=text),), **fields)


class Remembering(SecretRegistry):
    """Remembers what it was told to mask."""

    def __init__(self) -> None:
        super().__init__()
        self.added: list[str] = []

    def add(self, value: str) -> None:
        self.added.append(value)
        super().add(value)


@asynccontextmanager
async def open_stub(
    folder: Path,
    *,
    weights: bytes = b"GGUF",
    environ: Mapping[str, str] | None = None,
    registry: SecretRegistry | None = None,
) -> AsyncGenerator[tuple[Providers, ModelProvider]]:
    """Open the providers and a local model on the stand-in."""
    file = folder / "model.gguf"
    await anyio.to_thread.run_sync(file.write_bytes, weights)
    given = {**os.environ, "PYTHONPATH": str(ENGINE), **(environ or {})}
    async with open_providers(environ=given, models_dir=folder, registry=registry) as providers:
        yield providers, providers.make(ModelSpec(provider="local", name="model.gguf"), folder)


async def said(model: ModelProvider, asked: ModelRequest | None = None) -> tuple[int, Any]:
    """Return the pid of the process and what it saw."""
    with anyio.fail_after(WAIT_S):
        reply = await model.complete(asked or request(), ignore)
    _, pid, seen = reply.text.split(" ", 2)
    return int(pid), json.loads(seen)


async def said_in_the_end(model: ModelProvider) -> int:
    """Return the pid of the process that answers, after as many tries as it takes."""
    with anyio.fail_after(WAIT_S):
        while True:
            with suppress(ModelTransientError):
                pid, _ = await said(model)
                return pid


async def test_one_process_serves_all_calls_and_ends_with_the_gateway(
    tmp_path: Path, children: Children
) -> None:
    """It starts with the first call, or before that where it is warmed, and is not left behind.

    Its key opens the model to every process of this machine, and is masked.
    """
    registry = Remembering()
    async with open_stub(tmp_path, registry=registry) as (providers, model):
        assert children() == []
        with anyio.fail_after(WAIT_S):
            await providers.warm()
        (child,) = children()
        first, _ = await said(model)
        again = providers.make(ModelSpec(provider="local", name="model.gguf"), tmp_path)
        second, _ = await said(again)

    assert child.pid == first == second
    assert not psutil.pid_exists(first)
    (key,) = registry.added
    assert len(key) > 30


async def test_it_is_started_small_alone_and_without_secrets(tmp_path: Path) -> None:
    """Only its own port on loopback, one core left free, and no key of another provider."""
    async with open_stub(tmp_path, environ={"OPENAI_API_KEY": "sk-secret"}) as (_, model):
        tool = ToolDefinition(name="f", description="", parameters={})
        pid, seen = await said(model, request(tools=(tool,)))
        arguments = psutil.Process(pid).cmdline()

    assert seen["n_ctx"] == 4096
    assert seen["threads"] == threads() >= 1
    assert seen["hostnames"] == ["127.0.0.1"]
    assert seen["max_tokens"] == 512
    assert seen["tools"] is False
    assert "OPENAI_API_KEY" not in seen["environ"]
    assert arguments[1:] == ["-P", "-m", "everturn_gateway.providers.local.server"]


async def test_it_is_started_again_when_it_died(tmp_path: Path) -> None:
    """A crash of the engine costs one try of one call."""
    async with open_stub(tmp_path) as (_, model):
        first, _ = await said(model)
        with pytest.raises(ModelError) as raised:
            await said(model, request("die"))
        second = await said_in_the_end(model)

    assert raised.value.retryable
    assert first != second


async def test_a_file_that_is_no_model_is_named_with_the_engines_words(
    tmp_path: Path, children: Children
) -> None:
    """The operator learns which file, and why."""
    async with open_stub(tmp_path, weights=b"BAD") as (_, model):
        with pytest.raises(ModelRefusedError) as raised:
            await said(model)

    text = str(raised.value)
    assert f"the local model {tmp_path / 'model.gguf'} cannot be loaded: Failed to init" in text
    assert "invalid magic characters" in text
    assert children() == []


async def test_missing_weights_say_what_to_run(tmp_path: Path) -> None:
    """The text is the way out, and the pull helps without a restart."""
    given = {**os.environ, "PYTHONPATH": str(ENGINE)}
    async with open_providers(environ=given, models_dir=tmp_path) as providers:
        model = providers.make(ModelSpec(provider="local", name=SMOLLM2.name), tmp_path)
        with pytest.raises(ModelRefusedError, match="run `everturn local pull`"):
            await said(model)
        await providers.warm()  # logs it and goes on
        await anyio.to_thread.run_sync((tmp_path / SMOLLM2.file).write_bytes, b"GGUF")

        assert await said(model)


# Run by Python itself when the child starts: then the engine is as if it were not there.
NO_ENGINE = "import sys; sys.modules['xllamacpp'] = None"


async def test_a_missing_engine_says_what_to_install(tmp_path: Path) -> None:
    """The extra is optional; who asks for the model without it gets its name."""
    await anyio.to_thread.run_sync((tmp_path / "sitecustomize.py").write_text, NO_ENGINE)
    async with open_stub(tmp_path, environ={"PYTHONPATH": str(tmp_path)}) as (_, model):
        with pytest.raises(ModelRefusedError, match=r"pip install 'everturn\[local\]'"):
            await said(model)


async def test_an_address_does_not_go_with_it(tmp_path: Path) -> None:
    """It would be ignored, and its author would wonder."""
    async with open_providers(environ={}, models_dir=tmp_path) as providers:
        with pytest.raises(ProviderConfigError, match="base_url does not go with"):
            providers.make(ModelSpec(provider="local", name="x", base_url="http://h"), tmp_path)


PARENT = """
import anyio, os, sys
from pathlib import Path
from everturn_actors.spec import ModelSpec
from everturn_gateway.providers import open_providers

async def main():
    folder = Path(sys.argv[1])
    async with open_providers(environ=os.environ, models_dir=folder) as providers:
        providers.make(ModelSpec(provider="local", name="model.gguf"), folder)
        await providers.warm()
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
async def test_it_dies_with_a_gateway_that_is_killed(tmp_path: Path) -> None:
    """A gateway that was killed cleans nothing up; a model left behind would eat the machine."""
    await anyio.to_thread.run_sync((tmp_path / "model.gguf").write_bytes, b"GGUF")
    async with await anyio.open_process(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ENGINE)},
    ) as parent:
        assert parent.stdout is not None
        with anyio.fail_after(WAIT_S):
            await BufferedByteReceiveStream(parent.stdout).receive_until(b"ready\n", 100)
        (child,) = psutil.Process(parent.pid).children()
        parent.kill()
        await parent.wait()
        await anyio.to_thread.run_sync(child.wait, WAIT_S)

    assert not child.is_running()


def _real_weights() -> Path | None:
    folders = [Path(os.environ.get("EVERTURN_MODELS_DIR", "")), Path(".everturn/models")]
    found = [folder / SMOLLM2.file for folder in folders if (folder / SMOLLM2.file).is_file()]
    return found[0] if found else None


@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the extra `local` is not installed")
@pytest.mark.skipif(_real_weights() is None, reason="no weights: run `everturn local pull`")
async def test_the_real_model_answers() -> None:
    """The stand-in says what the engine should be like; this says that it is."""
    weights = _real_weights()
    assert weights is not None
    pieces: list[str] = []
    async with open_providers(environ=os.environ, models_dir=weights.parent) as providers:
        model = providers.make(ModelSpec(provider="local", name=SMOLLM2.name), weights.parent)
        with anyio.fail_after(WAIT_S):
            reply = await model.complete(
                request("Say hello.", max_output_tokens=8, temperature=0.0), pieces.append
            )

    assert reply.text == "".join(pieces)
    assert reply.text
    assert 0 < reply.usage.output_tokens <= 8
