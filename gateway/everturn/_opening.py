"""Opens a gateway for a program."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from anyio import CancelScope, to_thread

from everturn._agents import Agent
from everturn._gateway import Gateway
from everturn._stores import Store
from everturn_actors.faults import first_cause
from everturn_actors.ports import ModelProvider
from everturn_channels.adapter import Adapter
from everturn_gateway.errors import ConfigError

if TYPE_CHECKING:  # the gateway is loaded when one is opened
    from everturn_gateway.app import Gateway as OpenGateway
    from everturn_gateway.config.channels import ChannelConfig
    from everturn_gateway.config.settings import Config

OpenStore: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]

_DECLARED = "declared"  # in the workspace: the folders of agents that stand in no file


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
    given = _Given(
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
        opened = await to_thread.run_sync(_prepare, given, folder)
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
async def _folder(given: _Given) -> AsyncGenerator[str]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What `open_gateway` was called with."""

    declared: Sequence[Agent]
    agents: str | Path | None
    workspace: str | Path | None
    config: str | Path | None
    providers: Mapping[str, ModelProvider]
    channels: Sequence[Adapter]
    store: OpenStore | None
    environ: Mapping[str, str]

    @property
    def keeps(self) -> bool:
        """Whether anything is kept when the gateway closes."""
        return self.workspace is not None or self.config is not None


def _prepare(given: _Given, passing: str) -> AbstractAsyncContextManager[OpenGateway]:
    """Return what opens the gateway. Loads it and reads files: not for the event loop.

    Raises:
        ConfigError: The configuration or an agent is not valid.
    """
    from everturn_gateway.app import (  # noqa: PLC0415 - importing this package is to load the core alone
        Additions,
        open_gateway,
        open_in_memory,
    )

    names = [agent.name for agent in given.declared]
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        msg = f"two agents are called {', '.join(twins)}"
        raise ConfigError(msg)
    config = _read(given, passing)
    config = replace(config, channels=(*config.channels, *_channels(given.channels, config)))
    own = {name: each for agent in given.declared for name, each in agent.own_provider.items()}
    folder = config.workspace / _DECLARED
    additions = Additions(
        agents=tuple(agent.declared(folder / agent.name) for agent in given.declared),
        providers={**given.providers, **own},
        open_store=given.store or (None if given.keeps else open_in_memory),
    )
    return open_gateway(config, environ=given.environ, additions=additions)


def _channels(channels: Sequence[Adapter], config: Config) -> tuple[ChannelConfig, ...]:
    """Return channels of a program as the gateway has those of plug-ins.

    Raises:
        ConfigError: Two have one name, or one has a name that no channel can have.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - as said above

    from everturn_gateway.config.channels import (  # noqa: PLC0415 - as said above
        RESERVED,
        ChannelConfig,
    )
    from everturn_gateway.plugins import (  # noqa: PLC0415 - as said above
        INTERFACE,
        ChannelPlugin,
        ChannelSection,
    )

    made: list[ChannelConfig] = []
    taken = {channel.name for channel in config.channels} | RESERVED
    for channel in channels:
        if channel.name in taken:
            msg = f"channels: {channel.name!r} is taken; give each channel a name of its own"
            raise ConfigError(msg)
        taken.add(channel.name)
        try:
            ChannelSection(name=channel.name)  # it follows the rules of names in files
        except ValidationError as error:
            msg = f"channels: {channel.name!r} {error.errors()[0]['msg']}"
            raise ConfigError(msg) from None
        plugin = ChannelPlugin(
            name=channel.name,
            interface=INTERFACE,
            settings=ChannelSection,
            make=partial(_itself, channel),
        )
        made.append(ChannelConfig(plugin=plugin, options=ChannelSection(), folder=config.workspace))
    return tuple(made)


def _itself(channel: Adapter, _setup: object) -> Adapter:
    return channel


def _read(given: _Given, passing: str) -> Config:
    """Return the configuration.

    Raises:
        ConfigError: Its file is not valid.
    """
    from everturn_gateway.config.settings import (  # noqa: PLC0415 - as said above
        Config,
        load_config,
    )

    agents_dir = Path(given.agents).absolute() if given.agents is not None else None
    if given.config is not None:
        return load_config(
            Path(given.config),
            environ=given.environ,
            workspace=Path(given.workspace).absolute() if given.workspace is not None else None,
            agents_dir=agents_dir,
        )
    workspace = Path(given.workspace or passing).absolute()
    return Config(workspace=workspace, agents_dir=agents_dir or workspace / "agents")
