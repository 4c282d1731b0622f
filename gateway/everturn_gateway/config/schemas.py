"""The fields of `everturn.yaml`, as models: what may stand there, not what is done with it."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, create_model

from everturn_actors.model import Compaction
from everturn_gateway.config.channels import ChannelsSettings, RouteSettings, channels_model
from everturn_gateway.config.cluster import ClusterSettings
from everturn_gateway.config.keep import SessionsKeepSettings
from everturn_gateway.config.links import LinkSettings
from everturn_gateway.config.owners import OwnerSettings
from everturn_gateway.config.providers import PriceSettings, ProvidersSettings, providers_model
from everturn_gateway.config.stores import store_model
from everturn_gateway.config.voice import VoiceSettings
from everturn_gateway.logs import LogFormat
from everturn_gateway.plugins import Registry, StoreSettings
from everturn_gateway.private_hosts import read_private_host
from everturn_gateway.time_zones import check_zone
from everturn_gateway.yaml_files import Document, SettingsModel
from everturn_gateway.yaml_files.fields import FolderPath

STOP_TIMEOUT_S: Final = 25.0
PORTS: Final = 65_535
MEGABYTE: Final = 1024 * 1024

ProxyNetwork: TypeAlias = IPv4Network | IPv6Network


def _token(value: str) -> str:
    # It travels in a header; a blank in it is a mistake in the environment, and would never match.
    if not value.isascii() or any(not " " < character <= "~" for character in value):
        msg = "must be printable ASCII without blanks"
        raise ValueError(msg)
    return value


def check_host(value: str) -> str:
    """Return a host to listen on.

    Raises:
        ValueError: It is none.
    """
    if not value.strip() or any(c.isspace() or c in "/?#@" for c in value):
        msg = "must be a host name or an address to listen on, like 127.0.0.1"
        raise ValueError(msg)
    return value


def _zone(value: str) -> str:
    check_zone(value)
    return value


def _private_host(value: str) -> str:
    read_private_host(value)
    return value


def _proxy(value: str) -> str:
    proxy_network(value)
    return value


def proxy_network(value: str) -> ProxyNetwork:
    """Return the network of a proxy; an address is a network of its own.

    Raises:
        ValueError: It is neither.
    """
    try:
        return ipaddress.ip_network(value.strip().strip("[]"))
    except ValueError as error:
        msg = f"must be an address or a network, like 10.0.0.7 or 10.0.0.0/24, not {value!r}"
        raise ValueError(msg) from error


def _http_address(value: str) -> str:
    parts = urlsplit(value)
    if value and (parts.scheme not in {"http", "https"} or not parts.hostname):
        msg = "must be an address like http://127.0.0.1:4318"
        raise ValueError(msg)
    return value


def _public_url(value: str) -> str:
    _http_address(value)
    parts = urlsplit(value)
    if parts.path not in {"", "/"} or parts.query or parts.fragment or "@" in parts.netloc:
        msg = "must be scheme and host alone, like https://bots.example.org"
        raise ValueError(msg)
    return value.rstrip("/")


_Token = Annotated[str, AfterValidator(_token), Field(repr=False)]
_Seconds = Annotated[float, Field(gt=0, le=31_536_000, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1)]


class ServerSettings(SettingsModel):
    """`server`."""

    host: Annotated[str, AfterValidator(check_host)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=PORTS)] = 8080
    api_token: _Token = ""
    admin_token: _Token = ""
    require_token: bool = False
    console: bool = True
    public_url: Annotated[str, AfterValidator(_public_url)] = ""
    trusted_proxies: tuple[Annotated[str, AfterValidator(_proxy)], ...] = ()
    address_requests_per_minute: _Count | None = None
    request_timeout_seconds: _Seconds = 300
    idle_timeout_seconds: _Seconds = 60
    keep_alive_interval_seconds: _Seconds | None = None
    max_connections: _Count = 1024
    max_followers: _Count | None = None
    max_body_bytes: _Count = 1024 * 1024
    max_upload_bytes: _Count = 40 * MEGABYTE
    stop_timeout_seconds: Annotated[float, Field(ge=5, le=600)] = STOP_TIMEOUT_S


class SessionsSettings(SettingsModel):
    """`sessions`."""

    ttl_hours: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 168
    compaction: Compaction = "archive"
    passivate_after_seconds: _Seconds = 600
    max_active: _Count = 2000
    results_max_megabytes: _Count = 256
    keep: SessionsKeepSettings = SessionsKeepSettings.model_construct()


class SchedulesSettings(SettingsModel):
    """`schedules`."""

    timezone: Annotated[str, AfterValidator(_zone)] | None = None
    allow_private: tuple[Annotated[str, AfterValidator(_private_host)], ...] = ()


class LoggingSettings(SettingsModel):
    """`logging`."""

    format: LogFormat = "plain"


class TelemetrySettings(SettingsModel):
    """`telemetry`."""

    otlp_endpoint: Annotated[str, AfterValidator(_http_address)] = ""


class PassedOnSettings(SettingsModel):
    """`openai_api.passed_on`: who answers requests for embeddings and audio."""

    provider: Literal["openai", "openrouter", "gemini", "ollama"] = "openai"
    base_url: Annotated[str, AfterValidator(_http_address)] = ""


class OpenAIApiSettings(SettingsModel):
    """`openai_api`: what clients of OpenAI's API get beside the agents."""

    side_requests: bool = True
    approval_wait_seconds: Annotated[float, Field(ge=0, le=3600)] = 20
    passed_on: PassedOnSettings | None = None


class ConsoleSettings(SettingsModel):
    """`console`: what the web console may do."""

    edit_agents: bool = False


class PathSettings(SettingsModel):
    """A section with a path in it."""

    path: str | None = None


class ServicesSettings(SettingsModel):
    """`services`, of Duragent's."""

    session: PathSettings | None = None


class SandboxSettings(SettingsModel):
    """`sandbox`, of Duragent's."""

    mode: Literal["trust", "bubblewrap", "docker"] = "trust"


class FileSettings(SettingsModel):
    """The whole of `everturn.yaml`."""

    workspace: FolderPath = ".everturn"
    agents_dir: FolderPath | None = None
    server: ServerSettings = ServerSettings.model_construct()
    sessions: SessionsSettings = SessionsSettings.model_construct()
    schedules: SchedulesSettings = SchedulesSettings.model_construct()
    logging: LoggingSettings = LoggingSettings.model_construct()
    telemetry: TelemetrySettings = TelemetrySettings.model_construct()
    openai_api: OpenAIApiSettings = OpenAIApiSettings.model_construct()
    console: ConsoleSettings = ConsoleSettings.model_construct()
    providers: ProvidersSettings = ProvidersSettings.model_construct()
    prices: dict[str, PriceSettings] = Field(default_factory=dict)
    channels: ChannelsSettings = ChannelsSettings.model_construct()
    store: StoreSettings = StoreSettings.model_construct()
    cluster: ClusterSettings | None = None
    voice: VoiceSettings = VoiceSettings.model_construct()
    routes: tuple[RouteSettings, ...] = ()
    owners: tuple[OwnerSettings, ...] = ()
    links: LinkSettings = Field(default_factory=dict)
    # What a file of Duragent's may hold besides.
    gateways: ChannelsSettings | None = None
    services: ServicesSettings | None = None
    world_memory: PathSettings | None = None
    sandbox: SandboxSettings | None = None


def file_model(document: Document, registry: Registry) -> type[FileSettings]:
    """Return the model of the whole file, with the settings of what is installed."""
    fields: dict[str, Any] = {}
    if {"channels", "gateways"} & document.data.keys():
        channels: Any = channels_model(document, registry)
        fields |= {"channels": (channels, channels()), "gateways": (channels | None, None)}
    if "providers" in document.data:
        providers = providers_model(document, registry)
        fields["providers"] = (providers, providers())
    if "store" in document.data:
        store: Any = store_model(document, registry)
        fields["store"] = (store, store.model_construct())
    return create_model("File", __base__=FileSettings, **fields) if fields else FileSettings
