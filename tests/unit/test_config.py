"""everturn.yaml: defaults, paths, secrets, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.tables import table

from everturn_channels.settings import Route
from everturn_gateway.config.settings import (
    Config,
    Overrides,
    SchedulesConfig,
    ServerConfig,
    SessionsConfig,
    check_listener,
    is_loopback,
    load_config,
)
from everturn_gateway.errors import ConfigError

DURAGENT_FILE = """\
workspace: .duragent
server:
  host: 127.0.0.1
  port: 8081
  request_timeout_seconds: 30
  idle_timeout_seconds: 20
  keep_alive_interval_seconds: 15
  max_connections: 7
  admin_token: ${ADMIN_TOKEN:-}
  api_token: ${API_TOKEN:-}
services:
  session:
    path: .duragent/sessions
world_memory:
sessions:
  ttl_hours: 24
  compaction: discard
gateways:
  telegram:
    enabled: true
    bot_token: ${TELEGRAM_BOT_TOKEN}
  external:
    - name: matrix
      command: /usr/local/bin/matrix
      args: ["--verbose"]
      env: {TOKEN: "${TELEGRAM_BOT_TOKEN}"}
      restart: on_failure
routes:
  - match:
      gateway: telegram
      chat_type: group
      chat_id: -100123456
    agent: group-moderator
  - match: {}
    agent: assistant
sandbox:
  mode: trust
"""


@contextmanager
def working_in(folder: Path) -> Generator[None]:
    """Make `folder` the current one."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def load(tmp_path: Path, text: str, **environ: str) -> Config:
    """Load a configuration that consists of `text`."""
    file = tmp_path / "everturn.yaml"
    file.write_text(text, encoding="utf-8")
    return load_config(file, environ=environ)


def faults_of(tmp_path: Path, text: str, **environ: str) -> list[str]:
    """Return what is wrong with a configuration, without its path."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, **environ)
    return [
        str(fault).removeprefix(f"{tmp_path / 'everturn.yaml'}") for fault in caught.value.faults
    ]


def test_without_a_file_the_defaults_stand_and_the_one_in_the_folder_is_found(
    tmp_path: Path,
) -> None:
    """Nobody should have to name a file; who names one means it."""
    # Without a file the defaults stand. The gateway starts in an empty folder.
    with working_in(tmp_path):
        config = load_config(None, environ={})

    assert config == Config(workspace=tmp_path / ".everturn", agents_dir=tmp_path / "agents")
    assert config.server == ServerConfig(
        host="127.0.0.1",
        port=8080,
        request_timeout_s=300,
        idle_timeout_s=60,
        max_connections=1024,
        max_followers=0,
        max_body_bytes=1024 * 1024,
    )
    assert config.sessions == SessionsConfig(
        ttl_hours=168, compaction="archive", passivate_after_s=600, results_max_bytes=256 * 2**20
    )

    # The file in the current folder is found. Nobody should have to name it.
    (tmp_path / "everturn.yaml").write_text("server: {port: 9}", encoding="utf-8")

    with working_in(tmp_path):
        config = load_config(None, environ={})

    assert config.server.port == 9
    assert config.path == tmp_path / "everturn.yaml"

    # A named file that is missing is an error. Defaults in its place would start the wrong gateway.
    with pytest.raises(ConfigError, match=r"other\.yaml: there is no such file"):
        load_config(tmp_path / "other.yaml", environ={})


def test_paths_start_at_the_file_or_where_the_command_is_given(tmp_path: Path) -> None:
    """Whoever wrote a path knows from where."""
    # Relative paths start at the file. The same file means the same folders, wherever the command
    # is given.
    (tmp_path / "elsewhere").mkdir()

    with working_in(tmp_path / "elsewhere"):
        config = load(tmp_path, "workspace: data/ws\nagents_dir: ../team\n")

    assert config.workspace == tmp_path / "data/ws"
    assert config.agents_dir == tmp_path / "../team"

    # Options override the file. And their paths start where the command is given.
    file = tmp_path / "everturn.yaml"
    file.write_text("server: {host: localhost, port: 1}\nworkspace: ws\n", encoding="utf-8")
    (tmp_path / "here").mkdir()

    with working_in(tmp_path / "here"):
        config = load_config(
            file,
            environ={},
            overrides=Overrides(
                host="::1", port=0, workspace=Path("mine"), agents_dir=Path("agents")
            ),
        )

    assert (config.server.host, config.server.port) == ("::1", 0)
    assert config.workspace == tmp_path / "here/mine"
    assert config.agents_dir == tmp_path / "here/agents"


@table(
    ("text", "followers"),
    [("", 768), ("max_connections: 10", 7), ("max_connections: 1", 1), ("max_followers: 3", 3)],
)
def test_followers_may_have_a_part_of_the_connections(
    tmp_path: Path, text: str, followers: int
) -> None:
    """Where nothing else is said, a quarter is left for messages."""
    assert load(tmp_path, f"server: {{{text}}}\n").server.follower_limit == followers


def test_what_does_not_go_together_is_named_with_its_line(tmp_path: Path) -> None:
    """Said at the start, and not when it first matters."""
    # Followers may not have all connections. Messages would find no room, and nobody would know
    # why.
    (fault,) = faults_of(tmp_path, "server:\n  max_connections: 8\n  max_followers: 8\n")

    assert fault == (
        ":3: server.max_followers: must be below server.max_connections (8), so that messages"
        " find room beside followers, not '8'"
    )

    # A zone that is none is named at the start. Or every job of the workspace would be set aside
    # later, one by one.
    text = "schedules:\n  timezone: Europe/Berln\n  allow_private: [hooks.lan, 'http://a']\n"

    assert faults_of(tmp_path, text) == [
        (
            ":2: schedules.timezone: 'Europe/Berln' is no time zone that is known;"
            " did you mean Europe/Berlin?"
        ),
        (
            ":3: schedules.allow_private[1]: 'http://a' is neither a host name nor a network;"
            " write wiki.lan, 10.1.2.3 or 10.1.0.0/16"
        ),
    ]

    # A missing variable names file line and field. The one mistake that everybody makes once.
    (fault,) = faults_of(tmp_path, "server:\n  api_token: ${API_TOKEN}\n")

    assert fault.startswith(":2: server.api_token: the environment variable API_TOKEN is not set")

    # Both names of the channels at once are refused. One of the two would be ignored.
    assert faults_of(tmp_path, "channels: {}\ngateways: {}\n") == [
        ":2: gateways: is Duragent's name for channels; keep one of the two"
    ]

    # What a cluster needs and cannot share is named. Said at the start: the store, the secret and
    # the address.
    text = """\
cluster:
  node: "a b"
  listen: 0.0.0.0:7070
  secret: short
  advertise: a..b:7070
"""
    whole = text.replace('"a b"', "a").replace("short", "0123456789abcdef")
    whole = whole.replace("a..b:7070", '""')

    assert faults_of(tmp_path, text) == [
        (
            ":2: cluster.node: must begin with a letter or a digit, and hold these, `.`, `_` and"
            " `-` alone, at most 63"
        ),
        ":4: cluster.secret: must have at least 16 characters: openssl rand -hex 32",
        (":5: cluster.advertise: must be an address like 10.0.0.7:7070, or the path of a socket"),
    ]
    assert faults_of(tmp_path, whole) == [
        (
            ":1: cluster: several gateways cannot share the store 'file'; take `store: {type:"
            " postgres}`"
        ),
        (
            ":5: cluster.advertise: is needed where it listens on 0.0.0.0: the address that the"
            " others use"
        ),
    ]


def test_every_bad_value_is_named(tmp_path: Path) -> None:
    """One run shows all that is wrong."""
    # Ranges are checked at the start, not when they first matter.
    text = """\
workspace: ~/data
server:
  host: ""
  port: 65536
  api_token: "two words"
  request_timeout_seconds: 0
  idle_timeout_seconds: inf
  max_connections: 0
  max_body_bytes: many
sessions:
  ttl_hours: -1
  compaction: archiv
  passivate_after_seconds: -5
  results_max_megabytes: 0
channels:
  telegram: {mode: polling}
  discord: {bot_tokn: x}
routes:
  - {match: {chat_type: room}}
"""

    assert faults_of(tmp_path, text) == [
        ":1: workspace: ~ is not expanded here; write ${HOME}",
        ":3: server.host: must be a host name or an address to listen on, like 127.0.0.1",
        ":4: server.port: must be at most 65535, not '65536'",
        ":5: server.api_token: must be printable ASCII without blanks",
        ":6: server.request_timeout_seconds: must be more than 0, not '0'",
        ":7: server.idle_timeout_seconds: must be a number, not 'inf'",
        ":8: server.max_connections: must be at least 1, not '0'",
        ":9: server.max_body_bytes: must be a whole number, not 'many'",
        ":11: sessions.ttl_hours: must be at least 0, not '-1'",
        ":12: sessions.compaction: must be archive, discard or disabled, not 'archiv'",
        ":13: sessions.passivate_after_seconds: must be more than 0, not '-5'",
        ":14: sessions.results_max_megabytes: must be at least 1, not '0'",
        (
            ":16: channels.telegram.bot_token: bot_token is empty;"
            " set TELEGRAM_BOT_TOKEN, or enabled: false"
        ),
        ":17: channels.discord.bot_tokn: is not a known field; did you mean bot_token?",
        ":19: routes[0].match.chat_type: must be dm, group or channel, not 'room'",
        ":19: routes[0].agent: is required",
    ]

    # Options out of range are refused together with the file s faults. One run shows all that is
    # wrong.
    file = tmp_path / "everturn.yaml"
    file.write_text("server: {port: high}\n", encoding="utf-8")

    with pytest.raises(ConfigError) as caught:
        load_config(file, environ={}, overrides=Overrides(host="http://x/", port=70_000))

    assert str(caught.value).splitlines() == [
        f"{file}:1: server.port: must be a whole number, not 'high'",
        "command line: --port: must be 0 to 65535, not 70000",
        ("command line: --host: must be a host name or an address to listen on, like 127.0.0.1"),
    ]


def test_sections_are_read_in_the_units_that_people_write(tmp_path: Path) -> None:
    """And what a section leaves out stays as it is."""
    # Large results are limited in megabytes. People think of disks in megabytes, and the store
    # counts bytes.
    config = load(tmp_path, "sessions: {results_max_megabytes: 1}\n")

    assert config.sessions.results_max_bytes == 1_048_576

    # Scheduled jobs have a zone and a reach of their own. One zone for an office spares a line in
    # each job; a webhook in the house needs leave.
    text = "schedules: {timezone: Europe/Berlin, allow_private: [hooks.lan, 10.1.0.0/16]}\n"

    assert load(tmp_path, text).schedules == SchedulesConfig(
        timezone="Europe/Berlin", allow_private=("hooks.lan", "10.1.0.0/16")
    )
    assert load(tmp_path, "schedules:\n  timezone:\n").schedules == SchedulesConfig()

    # The ways to watch the gateway are read. Each of them changes what an operator sees.
    file = tmp_path / "everturn.yaml"
    file.write_text(
        "server: {stop_timeout_seconds: 8}\nlogging: {format: json}\n"
        "telemetry: {otlp_endpoint: 'https://otel.example:4318/'}\n"
    )
    config = load_config(file, environ={})

    assert config.server.stop_timeout_s == 8
    assert config.logging.form == "json"
    assert config.telemetry.otlp_endpoint == "https://otel.example:4318/"


def test_secrets_do_not_show(tmp_path: Path) -> None:
    """A configuration ends up in logs and reports."""
    config = load(
        tmp_path,
        'server: {api_token: "${API_TOKEN}", admin_token: "${ADMIN_TOKEN:-}"}\n',
        API_TOKEN="hunter2",  # noqa: S106 - made up
    )

    assert config.server.api_token == "hunter2"
    assert config.server.admin_token == ""
    assert "hunter2" not in repr(config)


def test_a_file_of_duragent_s_is_taken_with_notes(tmp_path: Path) -> None:
    """Nothing in it has to be changed, and nothing is ignored in silence."""
    config = load(tmp_path, DURAGENT_FILE, TELEGRAM_BOT_TOKEN="1:a")  # noqa: S106 - made up

    assert config.server == ServerConfig(
        port=8081, request_timeout_s=30, idle_timeout_s=20, max_connections=7
    )
    assert config.sessions == SessionsConfig(ttl_hours=24, compaction="discard")
    assert [(channel.name, channel.platform) for channel in config.channels] == [
        ("telegram", "telegram"),
        ("matrix", "matrix"),
    ]
    assert config.routes == (
        Route(agent="group-moderator", channel="telegram", chat_type="group", chat_id="-100123456"),
        Route(agent="assistant"),
    )
    assert [note.removeprefix(f"{tmp_path}/everturn.yaml:") for note in config.notes] == [
        (
            "7: server.keep_alive_interval_seconds:"
            " is a setting of Duragent's that has no effect here"
        ),
        "13: services.session.path: is a setting of Duragent's that has no effect here",
        "18: gateways: is Duragent's name for channels, and is read as them",
        "37: sandbox.mode: is a setting of Duragent's that has no effect here",
    ]


def test_agents_inside_the_workspace_are_found(tmp_path: Path) -> None:
    """Duragent keeps them there; a folder beside the file comes first."""
    (tmp_path / ".duragent/agents").mkdir(parents=True)
    inside = load(tmp_path, "workspace: .duragent\n").agents_dir
    (tmp_path / "agents").mkdir()
    beside = load(tmp_path, "workspace: .duragent\n").agents_dir

    assert (inside, beside) == (tmp_path / ".duragent/agents", tmp_path / "agents")


@table(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),  # noqa: S104 - the address in question
        ("::", False),
        ("", False),
        ("192.168.0.4", False),
        ("::ffff:10.0.0.1", False),
        ("example.org", False),
        ("localhost.example.org", False),
        ("127.0.0.1.example.org", False),
    ],
)
def test_loopback_is_told_from_the_rest(host: str, *, expected: bool) -> None:
    """A wrong yes opens the gateway to the network."""
    assert is_loopback(host) is expected


def test_a_listener_beyond_loopback_needs_a_token() -> None:
    """Closed by default."""
    open_to_all = ServerConfig(host="0.0.0.0")  # noqa: S104 - the address in question

    fault = check_listener(open_to_all, Path("x.yaml"))

    assert fault is not None
    assert str(fault).startswith("x.yaml: server.host: refusing to listen on '0.0.0.0'")
    assert check_listener(replace(open_to_all, admin_token="a")) is not None  # noqa: S106
    assert check_listener(replace(open_to_all, api_token="a")) is None  # noqa: S106
    assert check_listener(ServerConfig()) is None


@table(
    ("text", "field"),
    [
        ("server: {stop_timeout_seconds: 4}", "server.stop_timeout_seconds"),
        ("server: {stop_timeout_seconds: .inf}", "server.stop_timeout_seconds"),
        ("logging: {format: xml}", "logging.format"),
        ("logging: {colour: red}", "logging.colour"),
        ("telemetry: {otlp_endpoint: localhost:4318}", "telemetry.otlp_endpoint"),
        ("telemetry: {otlp_endpoint: 'grpc://c:4317'}", "telemetry.otlp_endpoint"),
    ],
)
def test_what_watches_the_gateway_is_checked_at_the_start(
    tmp_path: Path, text: str, field: str
) -> None:
    """A collector that never hears anything is noticed when it is needed."""
    file = tmp_path / "everturn.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_config(file, environ={})

    assert [fault.field for fault in refused.value.faults] == [field]
