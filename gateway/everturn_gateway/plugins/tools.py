"""The description of a tool, or of several that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from everturn_actors.ports import Clock, Tool
from everturn_actors.service import TurnService
from everturn_gateway.errors import GatewayError
from everturn_gateway.plugins.base import Plugin, Remarks, no_remarks
from everturn_gateway.yaml_files import SettingsModel

T = TypeVar("T")
SettingsT = TypeVar("SettingsT")


class ToolSettingsError(GatewayError):
    """The settings of a tool make no sense; the text names them."""


class PluginToolSettings(SettingsModel):
    """One of `spec.tools`; a tool adds its settings in a subclass, without `type` and `name`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """One of `spec.tools`, as it was read."""

    name: str
    "The plug-in's name, or one of its other names."
    settings: PluginToolSettings = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """All that an agent's file says of the tools of one plug-in."""

    entries: tuple[ToolEntry, ...]
    "At least one; more than one only where the plug-in has several names."
    home: Path
    "The agent's folder."
    state: Path | None
    "The gateway's workspace; None = there is none."
    environ: Mapping[str, str] = field(repr=False)
    "The gateway's environment."

    def settings(self, kind: type[T]) -> T:
        """Return the settings of the last entry, which are of the plug-in's own model."""
        settings = self.entries[-1].settings
        assert isinstance(settings, kind), "they were read as the plug-in's own"
        return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPlan:
    """What an agent gets of a plug-in, before any of it is made."""

    settings: object = field(repr=False)
    "What `ToolPlugin.make` is given. Compared: an agent whose plans are the same is not made anew."
    names: tuple[str, ...] = ()
    "The tools, as people are told of them; empty = by the plug-in's name."
    reads_workspace: bool = False
    "Whether a tool can read files of the agent's workspace: files that people send are put there."
    writes_workspace: bool = False
    "Whether a tool can write them."
    reaches_out: bool = True
    "Whether a call can have an effect beyond the agent's own files and conversations."
    faults: tuple[tuple[tuple[str | int, ...], str], ...] = ()
    "Why the agent is refused: fields, as paths from the entry on, and what is wrong."
    warnings: tuple[tuple[tuple[str | int, ...], str], ...] = ()
    "What its owner should know; the agent works all the same."
    inactive: tuple[str, ...] = ()
    "What is named and has no effect, and why."


def _plain_plan(request: ToolRequest) -> ToolPlan:
    return ToolPlan(settings=request.entries[-1].settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSetup(Generic[SettingsT]):
    """What the tools of a plug-in are made of, for one version of an agent."""

    settings: SettingsT
    "Those of the plan; by default as they were read from the agent's file."
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
    parts: Mapping[type, object] = field(default_factory=dict[type, object], repr=False)
    "What the tools that come with Everturn share; others are given none."

    def part(self, kind: type[T]) -> T:
        """Return what the tools that come with Everturn share, by its type."""
        part = self.parts[kind]
        assert isinstance(part, kind), "it stands under its own type"
        return part


def _nothing() -> str:
    return ""


class ToolPlugin(Plugin, frozen=True, kw_only=True):
    """What agents may name in `spec.tools`; entry points of `everturn.tools`.

    Example:
        >>> DICE = ToolPlugin(
        ...     name="dice",
        ...     interface=1,
        ...     settings=PluginToolSettings,
        ...     make=lambda setup: (Dice(),),
        ... )
    """

    settings: type[PluginToolSettings] = PluginToolSettings
    make: Callable[[ToolSetup[Any]], Iterable[Tool]]
    """Makes the tools; nothing is started. Called in a thread.

    Raises:
        ToolSettingsError: A setting makes no sense; the text names it.
    """
    faults: Callable[[Any], Remarks] = no_remarks
    "Given the settings of an entry, what is wrong with them beyond single fields."
    plan: Callable[[ToolRequest], ToolPlan] = _plain_plan
    "What an agent gets for its entries. Called in a thread; may read files, and starts nothing."
    also: tuple[str, ...] = ()
    "Other names by which agents' files call it; each is an entry point too."
    given_by: str = ""
    "The field of an agent's file that gives it, where it is not named in `spec.tools`."
    directive: Callable[[], str] = _nothing
    "What the prompt of an agent with it says of it."

    @property
    def names(self) -> tuple[str, ...]:
        """All names by which agents' files call it."""
        return (self.name, *self.also)
