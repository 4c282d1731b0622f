"""What every model provider owes the turn, whatever is behind it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from support import provider_kinds
from support.model_api import Answer, open_model_api, unauthorized
from support.patience import WAIT_S
from support.tables import table

from everturn.testing._providers import whole_request as request
from everturn_actors.errors import ModelError
from everturn_actors.model import (
    Reply,
)
from everturn_actors.ports import ModelProvider
from everturn_actors.spec import ModelSpec
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.providers import open_providers

KEY = "sk-contract-0123456789"
ENGINE = Path(__file__).parent.parent / "support" / "stub_engine"
REMOTE = {kind.title: kind for kind in provider_kinds.KINDS}
KINDS = ("builtin", "scripted", "local", *REMOTE)

SCRIPT = """
replies:
  - {match: fail, error: auth}
  - {match: hold, chunks: [a, b], delay_ms: 3600000}
  - {match: '', text: One two three.}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A provider under test, and how to make it do things."""

    provider: ModelProvider
    hold: Callable[[], str]
    "Makes the next call wait for ever after its first piece; returns what to say for it."
    fail: Callable[[], str]
    "Makes the next call fail; returns what to say for it."


@asynccontextmanager
async def open_subject(kind: str, folder: Path) -> AsyncGenerator[Subject]:
    """Open one kind of provider with everything it stands on."""
    keys = dict.fromkeys(provider_kinds.KEYS, KEY)
    environ = {**os.environ, **keys, "PYTHONPATH": str(ENGINE)}
    (folder / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    (folder / "model.gguf").write_bytes(b"GGUF")
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(open_model_api(default=Answer(text="One two three.")))
        providers = await stack.enter_async_context(
            open_providers(environ=environ, models_dir=folder, registry=SecretRegistry())
        )

        def hold() -> str:
            api.script(Answer(text="a b", stall_after=1))
            return "hang" if kind == "local" else "hold"

        def fail() -> str:
            shown = "" if kind == "ollama" else KEY  # its server is sent none in the open
            refusal = REMOTE[kind].refuse(401, f"bad key {shown}") if kind in REMOTE else None
            api.script(refusal or unauthorized())
            return "die" if kind == "local" else "fail"

        name = {"scripted": "script.yaml", "local": "model.gguf"}.get(kind, "m")
        base_url = REMOTE[kind].base_url(api) if kind in REMOTE else ""
        provider_name = REMOTE[kind].name if kind in REMOTE else kind
        spec = ModelSpec(provider=provider_name, name=name, base_url=base_url)
        # In a thread, as the library of agents does it.
        provider = await anyio.to_thread.run_sync(providers.make, spec, folder)
        yield Subject(provider=provider, hold=hold, fail=fail)


def ignore(_piece: str) -> None:
    """Take a piece of text that does not matter."""


@table("kind", KINDS)
async def test_the_pieces_are_the_text(kind: str, tmp_path: Path) -> None:
    """What people saw while it came is what is stored, and it stands in no log yet."""
    said: list[str] = []
    async with open_subject(kind, tmp_path) as subject:
        reply = await subject.provider.complete(request(), said.append)

    assert reply.text == "".join(said)
    assert len(said) > 1
    assert all(said)
    assert reply.seq == 0
    assert reply.stop_reason == "stop"
    assert reply.model


@table("kind", KINDS)
async def test_calls_run_side_by_side(kind: str, tmp_path: Path) -> None:
    """One provider serves all sessions of its agent; their replies must not mix."""
    replies: list[Reply] = []
    said: list[list[str]] = [[] for _ in range(5)]
    async with open_subject(kind, tmp_path) as subject:

        async def call(number: int) -> None:
            reply = await subject.provider.complete(request(), said[number].append)
            replies.append(reply)

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(call, number)

    assert len(replies) == 5
    assert {"".join(pieces) for pieces in said} == {replies[0].text}


@table("kind", KINDS[1:])
async def test_a_cancelled_call_ends_at_once_and_harms_nothing(kind: str, tmp_path: Path) -> None:
    """People press stop; the next message must be answered as if nothing had been."""
    begun = anyio.Event()
    async with open_subject(kind, tmp_path) as subject:
        if kind == "scripted":
            begun.set()  # its first piece is what it waits for
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                subject.provider.complete, request(subject.hold()), lambda _piece: begun.set()
            )
            with anyio.fail_after(WAIT_S):
                await begun.wait()
                await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
        with anyio.fail_after(WAIT_S):
            reply = await subject.provider.complete(request(), ignore)

    assert reply.text


@table("kind", KINDS[1:])
async def test_a_failure_is_a_model_error_without_secrets(kind: str, tmp_path: Path) -> None:
    """The turn knows only these; anything else would end the session."""
    async with open_subject(kind, tmp_path) as subject:
        with pytest.raises(ModelError) as raised:
            await subject.provider.complete(request(subject.fail()), ignore)

    assert str(raised.value)
    assert KEY not in str(raised.value)
