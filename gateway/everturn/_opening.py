"""Opens a gateway for a program."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import CancelScope, to_thread

from everturn._agents import Agent
from everturn._gateway import Gateway
from everturn._given import Given, OpenStore
from everturn_actors.faults import first_cause
from everturn_actors.ports import ModelProvider
from everturn_channels.adapter import Adapter
from everturn_gateway.errors import ConfigError

if TYPE_CHECKING:  # the gateway is loaded when one is opened
    from everturn_gateway.app import Gateway as OpenGateway


@asynccontextmanager
async def open_gateway(
    *declared: Agent,
    agents: str | Path | None = None,
    workspace: str | Path | None = None,
    config: str | Path | None = None,
    providers: Mapping[str, ModelProvider] | None = None,
    channels: Sequence[Adapter] = (),
    store: OpenStore | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncGenerator[Gateway]:
    """Open a gateway, and keep it open while the block runs.

    Without `workspace` and `config` nothing is kept: sessions are in memory. With one of them they
    are files of that folder, and turns that a crash cut short go on at the next start.

    At the end running turns get some seconds to finish; what is cut off goes on at the next start.

    >>> import anyio, everturn
    >>> @everturn.tool
    ... def weather(city: str) -> str:
    ...     "Tell how the weather is."
    ...     return f"It is sunny in {city}."
    >>> async def main():
    ...     agent = everturn.Agent(name="guide", tools=[weather])
    ...     async with everturn.open_gateway(agent) as gateway:
    ...         answer = await gateway.ask("guide", 'call weather {"city": "Graz"}')
    ...         print(answer.text)
    >>> anyio.run(main)
    weather: It is sunny in Graz.

    Args:
        declared: Agents as values.
        agents: A folder with agents, one in each folder that holds an `agent.yaml`; they are read
            again when they change.
        workspace: The folder that holds all that is kept; it is made where it is missing. One
            gateway at a time may use it.
        config: An `everturn.yaml`, with channels, prices and limits; `agents` and `workspace`
            override what it says.
        providers: Models of your own, by the name that an agent's `provider` gives them.
        channels: Chat channels of your own, see `Channel`, beside those of `config`.
        store: Opens where sessions live, see `Store`; by default as said above.
        environ: The environment variables, with the keys of models; by default the process's.

    Raises:
        ConfigError: An agent or the configuration is not valid, or there is no agent at all.
        WorkspaceLockedError: Another gateway uses the workspace.
        JournalError: The workspace cannot be written.
    """
    given = Given(
        declared=declared,
        agents=agents,
        workspace=workspace,
        config=config,
        providers=providers or {},
        channels=channels,
        store=store,
        environ=dict(os.environ) if environ is None else environ,
    )
    async with _folder(given) as folder:
        # In a thread: it loads the gateway, and reads files.
        opened = await to_thread.run_sync(_assembled, given, folder)
        async with _past_groups(opened) as inner:
            _require(inner, declared)
            yield Gateway(inner)


@asynccontextmanager
async def _past_groups(
    opened: AbstractAsyncContextManager[OpenGateway],
) -> AsyncGenerator[OpenGateway]:
    """Open a gateway, and take errors past the task groups of its parts.

    What the program raises in its block it meets as it raised it; of what goes wrong in the gateway
    it meets the first cause.
    """
    failure: Exception | None = None
    try:
        async with opened as inner:
            try:
                yield inner
            except Exception as error:  # noqa: BLE001 - the boundary around the program's block
                failure = error
    except BaseExceptionGroup as group:
        raise first_cause(group) from failure
    if failure is not None:
        raise failure


def _require(gateway: OpenGateway, declared: Sequence[Agent]) -> None:
    """Refuse a gateway without the agents that it was opened with.

    Raises:
        ConfigError: With all that is wrong with agents.
    """
    known = gateway.library.names()
    if not known or any(agent.name not in known for agent in declared):
        faults = gateway.library.faults()
        raise ConfigError("" if faults else "there is no agent", faults=faults)


@asynccontextmanager
async def _folder(given: Given) -> AsyncGenerator[str]:
    """Yield a folder that is removed at the end where nothing is to be kept; else an empty text."""
    if given.keeps:
        yield ""
        return
    passing = await to_thread.run_sync(lambda: tempfile.TemporaryDirectory(prefix="everturn-"))
    try:
        yield passing.name
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(passing.cleanup)


def _assembled(given: Given, passing: str) -> AbstractAsyncContextManager[OpenGateway]:
    # Importing this package is to load the core alone: the gateway is loaded when one is opened.
    from everturn._assembly import assemble  # as said

    return assemble(given, passing)
