"""Makes a gateway's configuration of what a program gave. Importing it loads the gateway."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from everturn._given import Given
from everturn_channels.adapter import Adapter
from everturn_gateway.app import Additions, open_gateway, open_in_memory
from everturn_gateway.app import Gateway as OpenGateway
from everturn_gateway.config.channels import RESERVED, ChannelConfig
from everturn_gateway.config.settings import Config, Overrides, load_config
from everturn_gateway.errors import ConfigError
from everturn_gateway.plugins import INTERFACE, ChannelPlugin, PluginChannelSettings

_DECLARED = "declared"  # in the workspace: the folders of agents that stand in no file


def assemble(given: Given, passing: str) -> AbstractAsyncContextManager[OpenGateway]:
    """Return what opens the gateway. Loads it and reads files: not for the event loop.

    Raises:
        ConfigError: The configuration or an agent is not valid.
    """
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
    made: list[ChannelConfig] = []
    taken = {channel.name for channel in config.channels} | RESERVED
    for channel in channels:
        if channel.name in taken:
            msg = f"channels: {channel.name!r} is taken; give each channel a name of its own"
            raise ConfigError(msg)
        taken.add(channel.name)
        try:
            PluginChannelSettings(name=channel.name)  # it follows the rules of names in files
        except ValidationError as error:
            msg = f"channels: {channel.name!r} {error.errors()[0]['msg']}"
            raise ConfigError(msg) from None
        plugin = ChannelPlugin(
            name=channel.name,
            interface=INTERFACE,
            settings=PluginChannelSettings,
            make=partial(_itself, channel),
        )
        made.append(
            ChannelConfig(
                plugin=plugin,
                options=PluginChannelSettings(),
                folder=config.workspace,
                workspace=config.workspace,
            )
        )
    return tuple(made)


def _itself(channel: Adapter, _setup: object) -> Adapter:
    return channel


def _read(given: Given, passing: str) -> Config:
    """Return the configuration.

    Raises:
        ConfigError: Its file is not valid.
    """
    agents_dir = Path(given.agents).absolute() if given.agents is not None else None
    if given.config is not None:
        return load_config(
            Path(given.config),
            environ=given.environ,
            overrides=Overrides(
                workspace=None if given.workspace is None else Path(given.workspace),
                agents_dir=agents_dir,
            ),
        )
    workspace = Path(given.workspace or passing).absolute()
    return Config(workspace=workspace, agents_dir=agents_dir or workspace / "agents")
