"""What `open_gateway` was called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from everturn._agents import Agent
from everturn._stores import Store
from everturn_actors.ports import ModelProvider
from everturn_channels.adapter import Adapter

OpenStore: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]
"Opens where sessions live."


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The arguments of `open_gateway`."""

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
