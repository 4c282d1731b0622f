"""What `everturn.yaml` says of channels and routes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar, cast

from pydantic import AfterValidator, BeforeValidator, ValidationError, create_model

from everturn_actors.json_values import as_list, as_object, is_list, is_object
from everturn_channels.adapter import ChatType
from everturn_channels.settings import ChannelSettings, Route
from everturn_gateway.errors import Fault
from everturn_gateway.plugins import ChannelPlugin, PluginChannelSettings, Registry
from everturn_gateway.plugins.base import Remarks
from everturn_gateway.yaml_files import Document, FieldPath, SettingsModel, dotted

WEBHOOK_PATH: Final = "/channels/{name}/webhook"
RESERVED: Final = frozenset(
    ("delegate", "http", "link", "once", "principal", "program", "schedule", "terminal")
)
"Channels that are there without being set up, and what stands in the place of one."
_ROOTS: Final = ("channels", "gateways")

SettingsT = TypeVar("SettingsT", bound=SettingsModel)

# --- values --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelConfig:
    """One channel, as its owner set it up."""

    plugin: ChannelPlugin
    "What kind of channel it is."
    options: PluginChannelSettings = field(repr=False)
    "Its settings, which may hold secrets."
    folder: Path
    "The folder of the configuration, absolute."
    workspace: Path = Path()
    "The gateway's, absolute."

    @property
    def name(self) -> str:
        """Of the channel, as conversations have it."""
        return self.options.channel(self.plugin.name)

    @property
    def platform(self) -> str:
        """Where it is."""
        return self.options.platform(self.plugin.name)

    @property
    def settings(self) -> ChannelSettings:
        """What holds whatever the platform is."""
        return self.options.common()

    @property
    def secrets(self) -> tuple[str, ...]:
        """What nothing that people read may show."""
        return tuple(self.plugin.secrets(self.options))


# --- the file ------------------------------------------------------------------------------------


def _some(value: str) -> str:
    if not value.strip():
        msg = "must not be empty"
        raise ValueError(msg)
    return value


def _listed(value: object) -> object:
    """Read one section as a list of it alone."""
    if is_object(value):
        return [value]
    if not is_list(value):
        msg = "must be a section of fields, or a list of them for several bots"
        raise ValueError(msg)
    return value


_Some = Annotated[str, AfterValidator(_some)]


class ChannelsSettings(SettingsModel):
    """`channels`; a platform is one section, or a list of them for several bots.

    Its fields are the plug-ins that are installed, see `channels_model`.
    """

    def entries(self) -> Iterator[tuple[str, PluginChannelSettings]]:
        """Yield the channels with the names of their plug-ins."""
        for kind in type(self).model_fields:
            for section in cast("tuple[object, ...]", getattr(self, kind)):
                if isinstance(section, PluginChannelSettings):
                    yield kind, section

    def values(
        self, registry: Registry, folder: Path, workspace: Path = Path()
    ) -> tuple[ChannelConfig, ...]:
        """Return those that are enabled; `folder` is that of the configuration."""
        return tuple(
            ChannelConfig(plugin=plugin, options=section, folder=folder, workspace=workspace)
            for kind, section in self.entries()
            if section.enabled and (plugin := registry.channels.get(kind)) is not None
        )


def channels_model(document: Document, registry: Registry) -> type[ChannelsSettings]:
    """Return the model of `channels`, with the settings of the plug-ins that the file names.

    Of the others it knows the names. What one that cannot be used would read, is not looked at.
    """
    fields: dict[str, Any] = {}
    named = _kinds(document)
    known = registry.channels.names
    # Channels stand in the order of the configuration.
    for kind in dict.fromkeys((*(each for each in named if each in known), *known)):
        plugin = registry.channels.get(kind) if kind in named else None
        section: Any = Any if plugin is None else plugin.settings
        fields[kind] = (Annotated[tuple[section, ...], BeforeValidator(_listed)], ())
    for kind in _left_out(document, registry):
        fields.setdefault(kind, (Any, ()))
    return create_model("ChannelsSettings", __base__=ChannelsSettings, **fields)


def _kinds(document: Document) -> tuple[str, ...]:
    """Return the names under `channels`."""
    return tuple(
        dict.fromkeys(kind for root in _ROOTS for kind in _fields(document.data.get(root)))
    )


def _left_out(document: Document, registry: Registry) -> Iterator[str]:
    """Yield the names under `channels` of plug-ins that are there and cannot be used."""
    channels = registry.channels
    for kind in _kinds(document):
        if channels.get(kind) is None and channels.fault(kind) is not None:
            yield kind


class MatchSettings(SettingsModel):
    """When a route holds; what is left out does not matter."""

    channel: str | None = None
    gateway: str | None = None  # Duragent's name for it
    chat_type: ChatType | None = None
    chat_id: str | None = None
    topic: str | None = None
    sender_id: str | None = None


class RouteSettings(SettingsModel):
    """One of `routes`."""

    match: MatchSettings = MatchSettings.model_construct()
    agent: _Some

    def value(self) -> Route:
        """Return it."""
        match = self.match
        return Route(
            agent=self.agent,
            channel=match.channel or match.gateway or "",
            chat_type=match.chat_type or "",
            chat_id=match.chat_id or "",
            topic=match.topic or "",
            sender_id=match.sender_id or "",
        )


# --- what fields say together --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One section that could be read by itself, whatever is wrong elsewhere."""

    path: FieldPath
    plugin: ChannelPlugin
    section: PluginChannelSettings

    @property
    def channel(self) -> str:
        """The name of the channel."""
        return self.section.channel(self.plugin.name)

    @property
    def names(self) -> tuple[str, ...]:
        """By which routes may call it."""
        return tuple(dict.fromkeys((self.channel, self.section.platform(self.plugin.name))))


def without_idle_faults(
    document: Document, registry: Registry, *, everything: bool = False
) -> Document:
    """Return the document without what could not be read in channels that are off.

    Whoever switches one off need not keep its token in the environment; with `everything`, none of
    them is opened. One whose plug-in cannot be used is not opened either.
    """
    off = [
        entry.path
        for entry in _entries(document, registry)
        if everything or not entry.section.enabled
    ]
    off += [(root, kind) for root in _ROOTS for kind in _left_out(document, registry)]
    idle = tuple(f"{dotted(path)}{end}" for path in off for end in ".[")
    switches = {dotted((*path, "enabled")) for path in off}
    faults = tuple(
        fault
        for fault in document.faults
        if fault.field in switches or not fault.field.startswith(idle or ("\0",))
    )
    return replace(document, faults=faults)


def channel_faults(document: Document, registry: Registry) -> Iterator[Fault]:
    """Yield what is wrong with channels and routes that single fields do not show."""
    said = {fault.field for fault in document.faults}
    for path, message in (*_all_faults(document, registry), *_route_faults(document)):
        if dotted(path) not in said:
            yield document.fault(path, message)


def channel_notes(document: Document, registry: Registry) -> Iterator[str]:
    """Yield what stands there and has no effect, a line each."""
    for path, message in (*_channel_notes(document, registry), *_route_notes(document, registry)):
        yield str(document.fault(path, message))


_Notes: TypeAlias = Iterator[tuple[FieldPath, str]]


def _all_faults(document: Document, registry: Registry) -> _Notes:
    names: dict[str, FieldPath] = {}
    identities: dict[str, str] = {}
    entries = _entries(document, registry)
    # First those that are called as their platform: of two of one name, the other was given it.
    for entry in sorted(entries, key=lambda entry: entry.section.name is not None):
        section, path, channel = entry.section, entry.path, entry.channel
        if not section.enabled:
            continue
        at = (*path, "name") if (*path, "name") in document.places else path
        if channel in names:
            line = document.line(names[channel])
            yield at, f"{channel} is the name of the channel in line {line} too; name them apart"
        elif channel in RESERVED:
            yield at, f"{channel} is a name of the gateway's own; choose another one"
        names.setdefault(channel, path)
        yield from _said(entry, entry.plugin.faults)
        identity = entry.plugin.identity(section)
        if identity and identity in identities:
            message = (
                f"is the token of {identities[identity]} too; each channel needs a bot of its own"
            )
            yield (*path, "bot_token"), message
        identities.setdefault(identity, channel)


def _said(entry: _Entry, ask: Callable[[PluginChannelSettings], Remarks]) -> _Notes:
    """Yield what a plug-in says of one of its sections."""
    # A boundary: the code of others must not keep the gateway from saying what else is wrong.
    try:
        remarks = tuple(ask(entry.section))
    except Exception as error:  # noqa: BLE001 - see above
        message = f"cannot be checked by its plug-in: {type(error).__name__}: {error}"
        remarks = (((), message),)
    for path, message in remarks:
        yield (*entry.path, *path), message


def _channel_notes(document: Document, registry: Registry) -> _Notes:
    for root in _ROOTS:
        for kind in _left_out(document, registry):
            if kind in _fields(document.data.get(root)):
                yield (root, kind), f"is not opened: {registry.channels.fault(kind)}"
    for entry in _entries(document, registry):
        yield from _said(entry, entry.plugin.notes)


def _route_faults(document: Document) -> _Notes:
    for path, route in _routes(document):
        if route.match.channel is not None and route.match.gateway is not None:
            message = "is Duragent's name for channel; keep one of the two"
            yield (*path, "match", "gateway"), message


def _route_notes(document: Document, registry: Registry) -> _Notes:
    entries = _entries(document, registry)
    known = tuple(dict.fromkeys(name for entry in entries for name in entry.names))
    routes = tuple(_routes(document))
    if routes and not known:
        yield ("routes",), "has no effect without channels"
        return
    caught = 0
    for path, route in routes:
        value = route.value()
        if caught:
            yield path, f"is never reached: the route in line {caught} takes everything"
        elif value.channel and value.channel not in known:
            field_name = "channel" if route.match.channel else "gateway"
            message = f"no channel is called {value.channel!r}; there are: {', '.join(known)}"
            yield (*path, "match", field_name), message
        elif value == Route(agent=value.agent):
            caught = document.line(path)


def _entries(document: Document, registry: Registry) -> Iterator[_Entry]:
    for root in _ROOTS:
        for kind, value in _fields(document.data.get(root)).items():
            plugin = registry.channels.get(kind)
            if plugin is None:
                continue
            path: FieldPath = (root, kind)
            many: list[tuple[FieldPath, object]]
            if is_list(value):
                many = [((*path, number), item) for number, item in enumerate(value)]
            else:
                many = [(path, value)]
            for place, data in many:
                section = _read(plugin.settings, data)
                if section is not None:
                    yield _Entry(path=place, plugin=plugin, section=section)


def _routes(document: Document) -> Iterator[tuple[FieldPath, RouteSettings]]:
    value = document.data.get("routes")
    for number, data in enumerate(as_list(value)):
        route = _read(RouteSettings, data)
        if route is not None:
            yield ("routes", number), route


def _read(model: type[SettingsT], data: object) -> SettingsT | None:
    """Read a section; what cannot be is told elsewhere, with its place."""
    if not isinstance(data, dict):
        return None
    try:
        return model.model_validate(data)
    except ValidationError:
        return None


def _fields(value: object) -> Mapping[str, object]:
    return as_object(value)
