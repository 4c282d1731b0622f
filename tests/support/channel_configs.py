"""Channels as an owner would set them up, without a file."""

from __future__ import annotations

from pathlib import Path

from everturn_gateway.config.channels import ChannelConfig
from everturn_gateway.plugins import installed


def channel(kind: str, *, folder: Path | None = None, **settings: object) -> ChannelConfig:
    """Return a channel.

    Args:
        kind: The name of its plug-in.
        folder: Of the configuration.
        settings: As they would stand in the file.
    """
    plugin = installed().channels.get(kind)
    assert plugin is not None, kind
    base = folder or Path("/")
    return ChannelConfig(
        plugin=plugin,
        options=plugin.settings.model_validate(settings),
        folder=base,
        workspace=base / ".everturn",
    )
