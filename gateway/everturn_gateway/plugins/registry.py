"""Finds what is installed. A plug-in is loaded where it is asked for, and not before.

One that cannot be used is left out, and named with its package and the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Final, Generic, TypeAlias, TypeVar

from anyio import to_thread
from msgspec import Struct

from everturn_gateway.plugins.base import INTERFACE, Plugin
from everturn_gateway.plugins.channels import ChannelPlugin
from everturn_gateway.plugins.policies import PolicyPlugin
from everturn_gateway.plugins.providers import ProviderPlugin
from everturn_gateway.plugins.stores import StorePlugin
from everturn_gateway.plugins.tools import ToolPlugin

logger = logging.getLogger(__name__)

PluginT = TypeVar("PluginT", bound=Plugin)

OWN_PACKAGE: Final = "everturn"
_PREFIX: Final = "everturn."
_FILE: Final = "entry_points.txt"


class PluginFault(Struct, frozen=True, kw_only=True):
    """A plug-in that is left out."""

    group: str
    "Of the entry point: `everturn.channels`."
    name: str
    package: str
    "Name and version of the distribution."
    reason: str

    def __str__(self) -> str:
        return f"{self.group}: {self.name} of {self.package} is left out: {self.reason}"


class _Found(Struct, frozen=True, kw_only=True):
    """An entry point, and whose it is."""

    point: EntryPoint
    package: str
    version: str

    @property
    def shown_package(self) -> str:
        return f"{self.package} {self.version}"

    @property
    def is_own(self) -> bool:
        return self.package == OWN_PACKAGE


class Group(Generic[PluginT]):
    """The plug-ins of one kind, by name."""

    def __init__(
        self,
        name: str,
        kind: type[PluginT],
        found: Sequence[_Found],
    ) -> None:
        """Take the entry points of the group `name`, which have to give values of `kind`."""
        self.name = name
        self._kind = kind
        self._found: dict[str, _Found] = {}
        self._loaded: dict[str, PluginT] = {}
        self._faults: dict[tuple[str, str], PluginFault] = {}
        # Ours first: no package takes the name of a built-in one.
        for each in sorted(found, key=lambda each: (not each.is_own, each.package)):
            self._enter(each, found)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of those that are there, sorted; some may turn out not to be usable."""
        return tuple(sorted(self._found))

    def package(self, name: str) -> str:
        """Return name and version of the distribution that a plug-in is from."""
        return self._found[name].shown_package

    def is_own(self, name: str) -> bool:
        """Whether a plug-in came with Everturn."""
        return name in self._found and self._found[name].is_own

    def get(self, name: str) -> PluginT | None:
        """Return a plug-in; None where there is none of this name, or it cannot be used.

        The first call imports its module: not for the event loop.
        """
        if name in self._loaded or name not in self._found:
            return self._loaded.get(name)
        found = self._found[name]
        if (found.package, name) in self._faults:
            return None
        # A boundary: whatever the code of others raises costs that plug-in alone.
        try:
            plugin = self._load(found)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
            self._leave_out(found, _words(error), error)
            return None
        self._loaded[name] = plugin
        return plugin

    def all(self) -> tuple[PluginT, ...]:
        """Return all that can be used, by name. Imports their modules: not for the event loop."""
        found = ((name, self.get(name)) for name in self.names)
        return tuple(plugin for name, plugin in found if plugin and plugin.name == name)

    def fault(self, name: str) -> PluginFault | None:
        """Return why a plug-in of this name is left out, as far as that is known by now."""
        return next((each for each in self._faults.values() if each.name == name), None)

    def faults(self) -> tuple[PluginFault, ...]:
        """Return which are left out, by name. Imports those of others: not for the event loop.

        Those that came with Everturn are as good as its other modules, and are loaded where they
        are needed.
        """
        for name in self.names:
            if not self.is_own(name):
                self.get(name)  # loading is the only way to find out
        return tuple(sorted(self._faults.values(), key=lambda each: (each.name, each.package)))

    def _enter(self, each: _Found, found: Sequence[_Found]) -> None:
        """Take an entry point; a name that is there twice is nobody's, except where it is ours."""
        name = each.point.name
        others = [one for one in found if one.point.name == name and one is not each]
        if others and not each.is_own:
            packages = ", ".join(sorted({one.shown_package for one in others}))
            self._leave_out(each, f"{packages} has a plug-in of that name too; keep one of them")
            return
        self._found[name] = each

    def _load(self, found: _Found) -> PluginT:
        """Return the value that an entry point names.

        Raises:
            Exception: Whatever the code of others raises.
        """
        value: object = found.point.load()
        if not isinstance(value, self._kind):
            msg = f"{found.point.value} is a {type(value).__name__}, not a {self._kind.__name__}"
            raise TypeError(msg)
        # Before anything else of it is used: it may mean something different.
        if value.interface != INTERFACE:
            msg = (
                f"it was written for version {value.interface} of the interface, and this is"
                f" {INTERFACE}; install a release of {found.package} that goes with it"
            )
            raise ValueError(msg)
        if found.point.name not in value.names:
            msg = f"it calls itself {value.name!r}, and its entry point {found.point.name!r}"
            raise ValueError(msg)
        if not found.is_own:  # ours are built with the file that they are a part of
            value.settings.model_rebuild()
            # What it cannot say now, no schema and no help could show later.
            value.settings.model_json_schema()
        return value

    def _leave_out(self, found: _Found, reason: str, error: BaseException | None = None) -> None:
        kind = "" if error is None or isinstance(error, TypeError | ValueError) else type(error)
        shown = f"{kind.__name__}: {reason}" if isinstance(kind, type) else reason
        self._faults[found.package, found.point.name] = PluginFault(
            group=self.name,
            name=found.point.name,
            package=found.shown_package,
            reason=" ".join(shown.split()),
        )


AnyGroup: TypeAlias = (
    Group[ChannelPlugin]
    | Group[ProviderPlugin]
    | Group[ToolPlugin]
    | Group[PolicyPlugin]
    | Group[StorePlugin]
)


class Registry(Struct, frozen=True, kw_only=True):
    """All plug-ins that are installed. Use `installed`."""

    channels: Group[ChannelPlugin]
    providers: Group[ProviderPlugin]
    tools: Group[ToolPlugin]
    policies: Group[PolicyPlugin]
    stores: Group[StorePlugin]

    def groups(self) -> tuple[AnyGroup, ...]:
        """Return all kinds, in the order in which they are shown."""
        return (self.channels, self.providers, self.tools, self.policies, self.stores)

    def faults(self) -> tuple[PluginFault, ...]:
        """Return which plug-ins are left out. Imports those of others: not for the event loop."""
        return tuple(fault for group in self.groups() for fault in group.faults())


@cache
def installed() -> Registry:
    """Return the plug-ins of this environment, looked for once. Reads files."""
    return find_plugins()


def find_plugins(path: Sequence[str] | None = None) -> Registry:
    """Return the plug-ins in the folders of `path`; None = of this environment. Reads files."""
    found: dict[str, list[_Found]] = {}
    for group, each in _entry_points(path):
        found.setdefault(group, []).append(each)

    def group_of(name: str, kind: type[PluginT]) -> Group[PluginT]:
        return Group(f"{_PREFIX}{name}", kind, found.get(f"{_PREFIX}{name}", ()))

    return Registry(
        channels=group_of("channels", ChannelPlugin),
        providers=group_of("providers", ProviderPlugin),
        tools=group_of("tools", ToolPlugin),
        policies=group_of("policies", PolicyPlugin),
        stores=group_of("stores", StorePlugin),
    )


def _entry_points(path: Sequence[str] | None) -> Iterator[tuple[str, _Found]]:
    """Yield the entry points of Everturn's groups; of one package found twice, the first counts."""
    seen: set[str] = set()
    for distribution in distributions() if path is None else distributions(path=list(path)):
        # Most have none of ours: to parse them all takes five times as long as to look.
        if f"[{_PREFIX}" not in (distribution.read_text(_FILE) or ""):
            continue
        package, version = _named(distribution)
        if package in seen:  # the first on the path is the one that Python imports
            continue
        seen.add(package)
        for point in distribution.entry_points:
            if point.group.startswith(_PREFIX):
                yield point.group, _Found(point=point, package=package, version=version)


def _named(distribution: Distribution) -> tuple[str, str]:
    """Return name and version; those of a damaged package are question marks."""
    metadata = distribution.metadata
    return (metadata["Name"] or "?").lower().replace("_", "-"), metadata["Version"] or "?"


def _words(error: BaseException) -> str:
    """Return what an error says; a link to the documentation of a library helps nobody here."""
    return str(error).partition("\n\nFor further information")[0] or type(error).__name__


async def log_left_out() -> None:
    """Say which plug-ins cannot be used; the gateway goes on without them."""
    for fault in await to_thread.run_sync(lambda: installed().faults()):
        logger.error("a plug-in is left out", extra={"reason": str(fault)})
