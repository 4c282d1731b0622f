"""What `everturn.yaml` says of channels and routes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, cast
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from everturn_actors.state.validation import ATTACHMENT_BYTES
from everturn_channels.adapter import ChatType
from everturn_channels.settings import ChannelSettings, Route
from everturn_gateway.errors import Fault
from everturn_gateway.yaml_files import Document, FieldPath, Section, dotted

TELEGRAM_API: Final = "https://api.telegram.org"
WEBHOOK_PATH: Final = "/channels/{name}/webhook"
_TAKEN: Final = frozenset(("delegate", "http", "once", "schedule", "terminal"))
"Channels that are there without being set up."
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
_NAME_CHARACTERS = 40
_TELEGRAM_TOKEN: Final = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
_WEBHOOK_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")
_SECRET_NAME: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_MEGABYTE = 1024 * 1024
_FILES_MAX_MEGABYTES = ATTACHMENT_BYTES // _MEGABYTE
_EMOJI_CHARACTERS = 32  # some are joined of many; Discord's own have a name and a number
_ROOTS: Final = ("channels", "gateways")

SectionT = TypeVar("SectionT", bound=Section)

# --- values --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramConfig:
    """One Telegram bot."""

    name: str
    "Of the channel."
    bot_token: str = field(repr=False)
    api_base: str = TELEGRAM_API
    "Of the Bot API server: Telegram's, or one's own."
    mode: Literal["polling", "webhook"] = "polling"
    webhook_url: str = ""
    "Where Telegram reaches this gateway."
    webhook_secret: str = field(default="", repr=False)
    proxy: str = field(default="", repr=False)
    settings: ChannelSettings = field(default_factory=ChannelSettings)

    @property
    def platform(self) -> str:
        """Where it is."""
        return "telegram"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordConfig:
    """One Discord bot."""

    name: str
    bot_token: str = field(repr=False)
    api_base: str = ""
    "Empty = Discord's, as below."
    gateway_url: str = ""
    proxy: str = field(default="", repr=False)
    settings: ChannelSettings = field(default_factory=ChannelSettings)

    @property
    def platform(self) -> str:
        """Where it is."""
        return "discord"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginConfig:
    """A channel that is a program of its own."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    "All that it gets of an environment, beside what every program needs."
    cwd: Path
    "The folder of the configuration, absolute."
    restart: Literal["always", "on_failure", "never"] = "on_failure"
    settings: ChannelSettings = field(default_factory=ChannelSettings)

    @property
    def platform(self) -> str:
        """Its own name."""
        return self.name


ChannelConfig: TypeAlias = TelegramConfig | DiscordConfig | PluginConfig


def channel_secrets(channel: ChannelConfig) -> Iterator[str]:
    """Yield what nothing that people read may show."""
    if isinstance(channel, PluginConfig):
        yield from (value for name, value in channel.env.items() if _SECRET_NAME.search(name))
        return
    yield channel.bot_token
    password = urlsplit(channel.proxy).password
    if password:
        yield from (password, unquote(password))
    if isinstance(channel, TelegramConfig):
        yield channel.webhook_secret


# --- the file ------------------------------------------------------------------------------------


def _token(value: str) -> str:
    if not value.isascii() or any(not " " < character <= "~" for character in value):
        msg = "must be printable ASCII without blanks"
        raise ValueError(msg)
    return value


def _name(value: str) -> str:
    if not _NAME.fullmatch(value) or len(value) > _NAME_CHARACTERS:
        msg = f"must be lower-case letters, digits and hyphens, at most {_NAME_CHARACTERS}"
        raise ValueError(msg)
    return value


def _address(value: str, schemes: Sequence[str]) -> str:
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or any(character <= " " for character in value):
        msg = f"must be an address that starts with {' or '.join(f'{s}://' for s in schemes)}"
        raise ValueError(msg)
    return value


def _web_address(value: str) -> str:
    return _address(value, ("https", "http"))


def _socket_address(value: str) -> str:
    return _address(value, ("wss", "ws"))


def _some(value: str) -> str:
    if not value.strip():
        msg = "must not be empty"
        raise ValueError(msg)
    return value


def _listed(value: object) -> object:
    """Read one section as a list of it alone."""
    if isinstance(value, dict):
        return [cast("dict[str, object]", value)]
    if not isinstance(value, list):
        msg = "must be a section of fields, or a list of them for several bots"
        raise ValueError(msg)  # noqa: TRY004 - pydantic reports this one
    return cast("list[object]", value)


_Token = Annotated[str, AfterValidator(_token), Field(repr=False)]
_Name = Annotated[str, AfterValidator(_name)]
_Url = Annotated[str, AfterValidator(_web_address)]
_SocketUrl = Annotated[str, AfterValidator(_socket_address)]
_Some = Annotated[str, AfterValidator(_some)]


class BacklogSection(Section):
    """Which messages are read that were written while the gateway was away."""

    max_messages: Annotated[int, Field(ge=0)] = 100
    max_age_hours: Annotated[float, Field(ge=0, le=8760, allow_inf_nan=False)] = 24


class DeliverySection(Section):
    """How long it is tried to deliver what is said."""

    give_up_after_hours: Annotated[float, Field(gt=0, le=8760, allow_inf_nan=False)] = 24


class _ChannelSection(Section):
    enabled: bool = True
    streaming: bool = True
    tool_activity: bool = False
    long_replies: Literal["split", "file"] = "split"
    file_after_chunks: Annotated[int, Field(ge=1)] = 5
    acknowledge: Annotated[str, Field(max_length=_EMOJI_CHARACTERS)] = ""
    files_max_megabytes: Annotated[int, Field(ge=0, le=_FILES_MAX_MEGABYTES)] = 20
    backlog: BacklogSection = BacklogSection()
    delivery: DeliverySection = DeliverySection()
    pairing: bool = True

    def settings(self) -> ChannelSettings:
        """Return what holds whatever the platform is."""
        return ChannelSettings(
            streaming=self.streaming,
            tool_activity=self.tool_activity,
            long_replies=self.long_replies,
            file_after_chunks=self.file_after_chunks,
            acknowledge=self.acknowledge,
            files_max_bytes=self.files_max_megabytes * _MEGABYTE,
            backlog_max_messages=self.backlog.max_messages,
            backlog_max_age_s=self.backlog.max_age_hours * 3600,
            give_up_after_s=self.delivery.give_up_after_hours * 3600,
            pairing=self.pairing,
        )


class _BotSection(_ChannelSection):
    name: _Name | None = None
    bot_token: _Token = ""
    api_base: _Url | None = None
    proxy: _Url | None = None


class WebhookSection(Section):
    """Where Telegram delivers, and how it shows that it is Telegram."""

    url: _Url | None = None
    secret: _Token = ""


class TelegramSection(_BotSection):
    """`channels.telegram`."""

    mode: Literal["polling", "webhook"] = "polling"
    webhook: WebhookSection = WebhookSection()

    def channel(self) -> str:
        """Return the name of the channel."""
        return f"telegram-{self.name}" if self.name else "telegram"

    def value(self, base: Path) -> TelegramConfig:
        """Return it."""
        del base
        name = self.channel()
        return TelegramConfig(
            name=name,
            bot_token=self.bot_token,
            api_base=self.api_base or TELEGRAM_API,
            mode=self.mode,
            webhook_url=_webhook_url(self.webhook.url or "", name),
            webhook_secret=self.webhook.secret,
            proxy=self.proxy or "",
            settings=self.settings(),
        )


class DiscordSection(_BotSection):
    """`channels.discord`."""

    gateway_url: _SocketUrl | None = None

    def channel(self) -> str:
        """Return the name of the channel."""
        return f"discord-{self.name}" if self.name else "discord"

    def value(self, base: Path) -> DiscordConfig:
        """Return it."""
        del base
        return DiscordConfig(
            name=self.channel(),
            bot_token=self.bot_token,
            api_base=self.api_base or "",
            gateway_url=self.gateway_url or "",
            proxy=self.proxy or "",
            settings=self.settings(),
        )


class PluginSection(_ChannelSection):
    """One of `channels.external`."""

    name: _Name
    command: _Some
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    restart: Literal["always", "on_failure", "never"] = "on_failure"

    def channel(self) -> str:
        """Return the name of the channel."""
        return self.name

    def value(self, base: Path) -> PluginConfig:
        """Return it; `base` is where it runs."""
        return PluginConfig(
            name=self.name,
            command=self.command,
            args=self.args,
            env=dict(self.env),
            cwd=base,
            restart=self.restart,
            settings=self.settings(),
        )


AnySection: TypeAlias = TelegramSection | DiscordSection | PluginSection
_SECTIONS: Final[Mapping[str, type[AnySection]]] = {
    "telegram": TelegramSection,
    "discord": DiscordSection,
    "external": PluginSection,
}


class ChannelsSection(Section):
    """`channels`; a platform is one section, or a list of them for several bots."""

    telegram: Annotated[tuple[TelegramSection, ...], BeforeValidator(_listed)] = ()
    discord: Annotated[tuple[DiscordSection, ...], BeforeValidator(_listed)] = ()
    external: tuple[PluginSection, ...] = ()

    def values(self, base: Path) -> tuple[ChannelConfig, ...]:
        """Return those that are enabled; `base` is where plug-ins run."""
        sections: tuple[AnySection, ...] = (*self.telegram, *self.discord, *self.external)
        return tuple(section.value(base) for section in sections if section.enabled)


class MatchSection(Section):
    """When a route holds; what is left out does not matter."""

    channel: str | None = None
    gateway: str | None = None  # Duragent's name for it
    chat_type: ChatType | None = None
    chat_id: str | None = None
    sender_id: str | None = None


class RouteSection(Section):
    """One of `routes`."""

    match: MatchSection = MatchSection()
    agent: _Some

    def value(self) -> Route:
        """Return it."""
        match = self.match
        return Route(
            agent=self.agent,
            channel=match.channel or match.gateway or "",
            chat_type=match.chat_type or "",
            chat_id=match.chat_id or "",
            sender_id=match.sender_id or "",
        )


def _webhook_url(url: str, name: str) -> str:
    """Return where Telegram is told to deliver; an address without a path is the gateway's own."""
    parts = urlsplit(url)
    if not url or parts.path not in {"", "/"}:
        return url
    return urlunsplit(parts._replace(path=WEBHOOK_PATH.format(name=name)))


# --- what fields say together --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One section that could be read by itself, whatever is wrong elsewhere."""

    path: FieldPath
    kind: str
    section: AnySection

    @property
    def names(self) -> tuple[str, ...]:
        """By which routes may call it."""
        channel = self.section.channel()
        return (channel,) if self.kind == "external" else (channel, self.kind)


def without_idle_faults(document: Document, *, everything: bool = False) -> Document:
    """Return the document without what could not be read in channels that are off.

    Whoever switches one off need not keep its token in the environment; with `everything`, none of
    them is opened.
    """
    off = [entry.path for entry in _entries(document) if everything or not entry.section.enabled]
    idle = tuple(f"{dotted(path)}." for path in off)
    switches = {dotted((*path, "enabled")) for path in off}
    faults = tuple(
        fault
        for fault in document.faults
        if fault.field in switches or not fault.field.startswith(idle or ("\0",))
    )
    return replace(document, faults=faults)


def channel_faults(document: Document) -> Iterator[Fault]:
    """Yield what is wrong with channels and routes that single fields do not show."""
    said = {fault.field for fault in document.faults}
    for path, message in (*_all_faults(document), *_route_faults(document)):
        if dotted(path) not in said:
            yield document.fault(path, message)


def channel_notes(document: Document) -> Iterator[str]:
    """Yield what stands there and has no effect, a line each."""
    for path, message in (*_channel_notes(document), *_route_notes(document)):
        yield str(document.fault(path, message))


_Told: TypeAlias = Iterator[tuple[FieldPath, str]]


def _all_faults(document: Document) -> _Told:
    names: dict[str, FieldPath] = {}
    tokens: dict[str, str] = {}
    for entry in _entries(document):
        section, path, channel = entry.section, entry.path, entry.section.channel()
        if not section.enabled:
            continue
        at = (*path, "name") if (*path, "name") in document.places else path
        if channel in names:
            line = document.line(names[channel])
            yield at, f"{channel} is the name of the channel in line {line} too; name them apart"
        elif channel in _TAKEN:
            yield at, f"{channel} is a channel of the gateway's own; choose another name"
        names.setdefault(channel, path)
        if isinstance(section, PluginSection):
            continue
        yield from _bot_faults(entry.kind, section, path)
        token = section.bot_token
        if token and token in tokens:
            message = f"is the token of {tokens[token]} too; each channel needs a bot of its own"
            yield (*path, "bot_token"), message
        tokens.setdefault(token, channel)


def _bot_faults(kind: str, section: TelegramSection | DiscordSection, path: FieldPath) -> _Told:
    at = (*path, "bot_token")
    if not section.bot_token:
        yield at, f"bot_token is empty; set {kind.upper()}_BOT_TOKEN, or enabled: false"
    if isinstance(section, DiscordSection):
        return
    if section.bot_token and not _TELEGRAM_TOKEN.fullmatch(section.bot_token):
        yield at, "is no token of a bot; BotFather gives one like 123456:ABC-DEF"
    if section.mode == "webhook":
        yield from _webhook_faults(section, (*path, "webhook"))


def _webhook_faults(section: TelegramSection, path: FieldPath) -> _Told:
    webhook = section.webhook
    if webhook.url is None:
        message = "is required with mode: webhook: where Telegram reaches this gateway"
        yield (*path, "url"), message
    elif not section.api_base and not webhook.url.startswith("https:"):
        yield (*path, "url"), "must start with https://: Telegram delivers nowhere else"
    if not webhook.secret:
        message = "is required with mode: webhook: without it anybody could deliver"
        yield (*path, "secret"), message
    elif not _WEBHOOK_SECRET.fullmatch(webhook.secret):
        yield (*path, "secret"), "must be 1 to 256 letters, digits, _ or -"


def _channel_notes(document: Document) -> _Told:
    for entry in _entries(document):
        section, at = entry.section, (*entry.path, "webhook")
        is_polling = isinstance(section, TelegramSection) and section.mode == "polling"
        if is_polling and at in document.places:
            yield at, "has no effect without mode: webhook"


def _route_faults(document: Document) -> _Told:
    for path, route in _routes(document):
        if route.match.channel is not None and route.match.gateway is not None:
            message = "is Duragent's name for channel; keep one of the two"
            yield (*path, "match", "gateway"), message


def _route_notes(document: Document) -> _Told:
    known = tuple(dict.fromkeys(name for entry in _entries(document) for name in entry.names))
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


def _entries(document: Document) -> Iterator[_Entry]:
    for root in _ROOTS:
        for kind, model in _SECTIONS.items():
            path: FieldPath = (root, kind)
            value = _fields(document.data.get(root)).get(kind)
            many: list[tuple[FieldPath, object]]
            if isinstance(value, list):
                items = cast("list[object]", value)
                many = [((*path, number), item) for number, item in enumerate(items)]
            else:
                many = [(path, value)]
            for place, data in many:
                section = _read(model, data)
                if section is not None:
                    yield _Entry(path=place, kind=kind, section=section)


def _routes(document: Document) -> Iterator[tuple[FieldPath, RouteSection]]:
    value = document.data.get("routes")
    for number, data in enumerate(cast("list[object]", value) if isinstance(value, list) else ()):
        route = _read(RouteSection, data)
        if route is not None:
            yield ("routes", number), route


def _read(model: type[SectionT], data: object) -> SectionT | None:
    """Read a section; what cannot be is told elsewhere, with its place."""
    if not isinstance(data, dict):
        return None
    try:
        return model.model_validate(data)
    except ValidationError:
        return None


def _fields(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
