"""The description of a tool, or of several that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from everturn_actors.ports import Clock, Tool
from everturn_actors.service import TurnService
from everturn_gateway.plugins.base import Plugin
from everturn_gateway.yaml_files import Section


class PluginToolSection(Section):
    """One of `spec.tools`; a tool adds its settings in a subclass, without `type` and `name`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSetup:
    """What the tools of a plug-in are made of, for one version of an agent."""

    settings: PluginToolSection
    agent: str
    "The agent's name."
    home: Path
    "The agent's folder, absolute."
    files: Path
    "The agent's workspace, absolute: where its tools may read and write."
    clock: Clock
    environ: Mapping[str, str] = field(repr=False)
    "The gateway's environment."
    add_secret: Callable[[str], None] = field(repr=False)
    "Tells a key, so that nothing that is written shows it."
    service: Callable[[], TurnService]
    "Returns the entry point to the conversations; to be called while a call runs, not before."


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPlugin(Plugin):
    """What agents may name in `spec.tools`; entry points of `everturn.tools`.

    Example:
        >>> DICE = ToolPlugin(
        ...     name="dice",
        ...     interface=1,
        ...     settings=PluginToolSection,
        ...     make=lambda setup: (Dice(),),
        ... )
    """

    settings: type[PluginToolSection] = PluginToolSection
    make: Callable[[ToolSetup], Iterable[Tool]]
    """Makes the tools; nothing is started. Called in a thread.

    Raises:
        ToolSettingsError: A setting makes no sense; the text names it.
    """
    faults: Callable[[Any], Iterable[str]] = lambda _settings: ()
    "Given settings, what is wrong with them beyond single fields; the agent is refused so."
