"""The gateway's own configuration: `everturn.yaml`, loaded once into one frozen value."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from everturn_actors.model import Compaction
from everturn_channels.access.owners import Owner
from everturn_channels.settings import Route
from everturn_gateway.config.channels import (
    ChannelConfig,
    channel_faults,
    without_idle_faults,
)
from everturn_gateway.config.checks import conflicts, crowding, notes, people_faults
from everturn_gateway.config.cluster import ClusterConfig, cluster_config, cluster_faults
from everturn_gateway.config.env_file import ENV_NAME
from everturn_gateway.config.keep import KEEP_ALL, KeepConfig
from everturn_gateway.config.links import NO_LINKS, Links, links_of
from everturn_gateway.config.providers import ProviderConfig, price_faults
from everturn_gateway.config.schemas import (
    MEGABYTE,
    PORTS,
    STOP_TIMEOUT_S,
    FileSettings,
    PassedOnSettings,
    ProxyNetwork,
    ServerSettings,
    SessionsSettings,
    check_host,
    file_model,
    proxy_network,
)
from everturn_gateway.config.stores import StoreConfig, store_config, store_faults
from everturn_gateway.config.voice import VoiceConfig
from everturn_gateway.errors import ConfigError, Fault
from everturn_gateway.logs import LogFormat
from everturn_gateway.plugins import installed
from everturn_gateway.usage import Price
from everturn_gateway.yaml_files import Document, check, read_document

DEFAULT_FILE = Path("everturn.yaml")
_AGENTS, _WORKSPACE = "agents", ".everturn"  # beside it, where it does not say otherwise
_COMMAND_LINE = Path("command line")  # stands for a file in faults of options


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The HTTP listener."""

    host: str = "127.0.0.1"
    port: int = 8080
    "0 = any free one."
    api_token: str = field(default="", repr=False)
    "Empty = none is asked for, which is allowed on loopback only."
    admin_token: str = field(default="", repr=False)
    "Empty = none."
    require_token: bool = False
    "Whether programs of this machine need a token too; with it no `api_token` is needed."
    console: bool = True
    "Whether there is a web console."
    public_url: str = ""
    "Scheme and host under which a proxy in front shows it; empty = there is none."
    trusted_proxies: tuple[ProxyNetwork, ...] = ()
    "Whose word about the address of a client is believed."
    address_requests_per_minute: int = 0
    "From one address; 0 = any number."
    request_timeout_s: float = 300
    idle_timeout_s: float = 60
    max_connections: int = 1024
    max_followers: int = 0
    "Connections that may follow sessions at a time; 0 = three quarters of `max_connections`."
    max_body_bytes: int = 1024 * 1024
    max_upload_bytes: int = 40 * MEGABYTE
    "Of the body of a message, which may hold files; never less than `max_body_bytes`."
    shares_port: bool = False
    stop_timeout_s: float = STOP_TIMEOUT_S
    "How long an orderly stop may take, all of it together."

    @property
    def follower_limit(self) -> int:
        """How many connections may follow sessions, so that messages find room beside them."""
        return self.max_followers or max(1, self.max_connections * 3 // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsConfig:
    """What holds for the sessions of every agent that does not say otherwise."""

    ttl_hours: float = 168
    "An idle session is ended after this; 0 = never."
    compaction: Compaction = "archive"
    passivate_after_s: float = 600
    "A session without work leaves memory after this."
    max_active: int = 2000
    "Beyond so many sessions in memory those without work leave it at once, longest idle first."
    results_max_bytes: int = 256 * MEGABYTE
    "Of one session's large results; beyond it the oldest go."
    keep: KeepConfig = KEEP_ALL
    "For how long what belongs to sessions is kept."


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesConfig:
    """What holds for all scheduled jobs."""

    timezone: str = ""
    "For jobs that name none, an IANA name; empty = each has to."
    allow_private: tuple[str, ...] = ()
    "Hosts and networks beyond the public Internet that webhooks of jobs may reach."


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingConfig:
    """The log of `everturn serve`."""

    form: LogFormat = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryConfig:
    """Where traces go."""

    otlp_endpoint: str = field(default="", repr=False)
    "Address of a collector that takes OTLP over HTTP; empty = what the environment says, or none."


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOnConfig:
    """Who answers requests for embeddings and audio, which are no agent's work."""

    provider: str
    base_url: str = ""
    "In place of the provider's own address; empty = that one."


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIApiConfig:
    """What clients of OpenAI's API get beside the agents."""

    side_requests: bool = True
    "Whether what chat pages ask for themselves, such as titles, is answered apart."
    approval_wait_s: float = 20
    "After how long an answer that is not streamed tells of a call that waits for a person."
    passed_on: PassedOnConfig | None = None
    "None = nobody answers those."


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConfig:
    """What the web console may do."""

    edit_agents: bool = False
    "Whether administrators may change the files of agents, and so run programs."


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration of one gateway."""

    path: Path | None = None
    "The file it was read from; None where there was none and the defaults stand."
    workspace: Path
    "Absolute. Sessions and everything else the gateway writes."
    agents_dir: Path
    "Absolute."
    common: Path | None = None
    "What several processes of one gateway share of its files; None = there is one process."
    server: ServerConfig = field(default_factory=ServerConfig)
    sessions: SessionsConfig = field(default_factory=SessionsConfig)
    schedules: SchedulesConfig = field(default_factory=SchedulesConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    telemetry: TelemetryConfig = field(default_factory=TelemetryConfig)
    openai_api: OpenAIApiConfig = field(default_factory=OpenAIApiConfig)
    console: ConsoleConfig = field(default_factory=ConsoleConfig)
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict[str, ProviderConfig])
    "By name; those that are used as by default are left out."
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    "The owner's own, by `provider/name`; a trailing `*` matches the rest."
    store: StoreConfig = field(default_factory=StoreConfig)
    "Where sessions are kept."
    cluster: ClusterConfig | None = None
    "This gateway among those that share its store; None = it is alone."
    voice: VoiceConfig = field(default_factory=VoiceConfig)
    "Who hears what people say, and speaks to them."
    channels: tuple[ChannelConfig, ...] = ()
    "Those that are enabled; no two have one name."
    routes: tuple[Route, ...] = ()
    "The first that matches decides; none = one agent answers everywhere."
    owners: tuple[Owner, ...] = ()
    "Who may act from private chats."
    links: Links = NO_LINKS
    "Who is one person in several private chats."
    notes: tuple[str, ...] = ()
    "What the file says and has no effect, one line each."

    @property
    def private_files(self) -> tuple[Path, ...]:
        """Files that hold secrets: this configuration, and those with keys."""
        keys = (each.api_key_file for each in self.providers.values())
        link = self.cluster.tls.key if self.cluster and self.cluster.tls else None
        return tuple(path for path in (self.path, self.env_file, link, *keys) if path is not None)

    @property
    def env_file(self) -> Path | None:
        """Where further variables of the environment may stand; None = nowhere."""
        return self.path.with_name(ENV_NAME) if self.path else None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What stands in it that nothing may show."""
        shared = self.cluster.secret if self.cluster else ""
        own = (self.server.api_token, self.server.admin_token, shared)
        of_channels = (each for channel in self.channels for each in channel.secrets)
        of_providers = (each for one in self.providers.values() for each in one.secrets)
        return tuple(
            each
            for each in (
                *own,
                *of_channels,
                *of_providers,
                *self.store.secrets,
                *self.voice.secrets,
            )
            if each
        )


# --- loading -------------------------------------------------------------------------------------


class Overrides(Struct, frozen=True, kw_only=True):
    """What goes before the file; None = what the file says."""

    host: str | None = None
    "In the place of `server.host`."
    port: int | None = None
    "In the place of `server.port`."
    workspace: Path | None = None
    """In the place of `workspace`; relative to the current folder, where paths in the file are
    relative to the file's."""
    agents_dir: Path | None = None
    "In the place of `agents_dir`, in the same way."


def load_config(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    overrides: Overrides | None = None,
    with_channels: bool = True,
    home: Path | None = None,
) -> Config:
    """Read the configuration; what is given beside the file goes before it.

    Reads files: not for the event loop.

    Args:
        path: The file. None = `everturn.yaml` in the current folder, or else that in `home`, or
            the defaults where there is none.
        environ: The environment variables, for `${NAME}` in the file.
        overrides: What was given beside the file, as on a command line.
        with_channels: Whether channels are to be opened. Where not, their tokens need not be in
            the environment, and what is wrong with them is left out.
        home: Where the file is for a current folder in which nothing is set up. None = nowhere.

    Raises:
        ConfigError: With every fault.
    """
    given, name = overrides or Overrides(), configuration_file(path, home)
    is_there = path is not None or name.exists()
    read = _read(name, environ, with_channels=with_channels) if is_there else _Read()
    faults = (*read.faults, *_refuse_options(given.host, given.port))
    if faults:
        raise ConfigError(faults=faults)
    values, base = read.values, name.absolute().parent
    chosen = given.workspace.absolute() if given.workspace else base / values.workspace
    agents = (
        given.agents_dir.absolute()
        if given.agents_dir
        else _agents_dir(base, chosen, values.agents_dir)
    )
    return Config(
        path=name.absolute() if read.document is not None else None,
        workspace=chosen,
        agents_dir=agents,
        server=_server(values.server, given.host, given.port),
        sessions=_sessions(values.sessions),
        schedules=SchedulesConfig(
            timezone=values.schedules.timezone or "",
            allow_private=values.schedules.allow_private,
        ),
        logging=LoggingConfig(form=values.logging.format),
        telemetry=TelemetryConfig(otlp_endpoint=values.telemetry.otlp_endpoint),
        openai_api=OpenAIApiConfig(
            side_requests=values.openai_api.side_requests,
            approval_wait_s=values.openai_api.approval_wait_seconds,
            passed_on=_passed_on(values.openai_api.passed_on),
        ),
        console=ConsoleConfig(edit_agents=values.console.edit_agents),
        providers=values.providers.values(base),
        prices={name: each.value() for name, each in values.prices.items()},
        channels=(values.gateways or values.channels).values(installed(), base, chosen),
        store=store_config(values.store, read.document),
        cluster=cluster_config(values.cluster, base),
        voice=VoiceConfig(transcription=values.voice.transcription, speech=values.voice.speech),
        routes=tuple(route.value() for route in values.routes),
        owners=tuple(owner.value() for owner in values.owners),
        links=links_of(values.links),
        notes=read.notes,
    )


def is_set_up(folder: Path) -> bool:
    """Return whether a folder holds a configuration, agents or a workspace."""
    return any((folder / name).exists() for name in (DEFAULT_FILE, _AGENTS, _WORKSPACE))


def configuration_file(path: Path | None, home: Path | None) -> Path:
    """Return the configuration that is meant, which need not be there; see `load_config`."""
    if path is None and home is not None and not is_set_up(Path()):
        file = home / DEFAULT_FILE
        return file if file.is_file() else DEFAULT_FILE
    return path or DEFAULT_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What stands in the file."""

    values: FileSettings = field(default_factory=FileSettings)
    "The defaults, where there is a fault."
    document: Document | None = None
    "None = there is no file."
    notes: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


def _read(file: Path, environ: Mapping[str, str], *, with_channels: bool) -> _Read:
    """Read the file.

    Raises:
        ConfigError: It cannot be read as a whole.
    """
    registry = installed()
    document = without_idle_faults(
        read_document(file, environ), registry, everything=not with_channels
    )
    found, faults = check(document, file_model(document, registry))
    faults += (
        *conflicts(document),
        *price_faults(document, registry),
        *store_faults(document, registry),
        *(channel_faults(document, registry) if with_channels else ()),
    )
    if found is not None:
        faults += (
            *crowding(document, found.server),
            *people_faults(document, found, registry),
            *cluster_faults(document, registry),
        )
    return _Read(
        values=found or FileSettings(),
        document=document,
        notes=() if found is None else tuple(notes(document, found, registry)),
        faults=tuple(sorted(faults, key=lambda fault: fault.line)),
    )


def _passed_on(values: PassedOnSettings | None) -> PassedOnConfig | None:
    if values is None:
        return None
    return PassedOnConfig(provider=values.provider, base_url=values.base_url)


def _sessions(values: SessionsSettings) -> SessionsConfig:
    return SessionsConfig(
        ttl_hours=values.ttl_hours,
        compaction=values.compaction,
        passivate_after_s=values.passivate_after_seconds,
        max_active=values.max_active,
        results_max_bytes=values.results_max_megabytes * MEGABYTE,
        keep=values.keep.value(),
    )


@lru_cache(maxsize=256)  # each request asks it of the same few names
def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a listener on `host`.

    A name other than `localhost` counts as reachable: what it stands for can change.
    """
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def check_listener(server: ServerConfig, file: Path | None = None) -> Fault | None:
    """Return why this listener must not be opened, or None where it may be.

    Closed by default: beyond loopback it needs a token.
    """
    if is_loopback(server.host) or server.api_token or server.require_token:
        return None
    return Fault(
        file=file or DEFAULT_FILE,
        field="server.host",
        message=f"refusing to listen on {server.host!r}, which others can reach, without a token;"
        " set server.api_token, or server.require_token and make tokens with `everturn token"
        " create`, or listen on 127.0.0.1",
    )


def _server(values: ServerSettings, host: str | None, port: int | None) -> ServerConfig:
    return ServerConfig(
        host=values.host if host is None else host,
        port=values.port if port is None else port,
        api_token=values.api_token,
        admin_token=values.admin_token,
        require_token=values.require_token,
        console=values.console,
        public_url=values.public_url,
        trusted_proxies=tuple(map(proxy_network, values.trusted_proxies)),
        address_requests_per_minute=values.address_requests_per_minute or 0,
        request_timeout_s=values.request_timeout_seconds,
        idle_timeout_s=values.idle_timeout_seconds,
        max_connections=values.max_connections,
        max_followers=values.max_followers or 0,
        max_body_bytes=values.max_body_bytes,
        max_upload_bytes=values.max_upload_bytes,
        stop_timeout_s=values.stop_timeout_seconds,
    )


def _agents_dir(base: Path, workspace: Path, given: str | None) -> Path:
    if given is not None:
        return base / given
    beside, inside = base / _AGENTS, workspace / _AGENTS
    try:  # Duragent keeps them inside its workspace.
        inside.stat()  # since Python 3.14 `is_dir` hides what cannot be looked into
        return inside if inside.is_dir() and not beside.is_dir() else beside
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return beside
    except OSError as error:
        message = f"cannot be looked into: {error.strerror or error}"
        raise ConfigError(faults=[Fault(file=inside, message=message)]) from error


def _refuse_options(host: str | None, port: int | None) -> Iterator[Fault]:
    if port is not None and not 0 <= port <= PORTS:
        message = f"must be 0 to {PORTS}, not {port}"
        yield Fault(file=_COMMAND_LINE, field="--port", message=message)
    if host is not None:
        try:
            check_host(host)
        except ValueError as error:
            yield Fault(file=_COMMAND_LINE, field="--host", message=str(error))
