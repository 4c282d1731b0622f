"""`channels` and `routes` in everturn.yaml: what is taken, and how mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.channel_configs import channel
from support.tables import table

from everturn_channels.settings import ChannelSettings, Route
from everturn_gateway.builtin.channels import TelegramSettings, webhook_url
from everturn_gateway.config.settings import Config, load_config
from everturn_gateway.errors import ConfigError

TOKEN = "123456:ABC-DEF_ghi"


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


def notes_of(tmp_path: Path, text: str) -> list[str]:
    """Return what a configuration says without effect, without its path."""
    notes = load(tmp_path, text, T=TOKEN).notes
    return [note.removeprefix(f"{tmp_path / 'everturn.yaml'}") for note in notes]


def test_a_token_is_all_that_a_bot_needs(tmp_path: Path) -> None:
    """And an address all that a webhook needs."""
    # The shortest configuration is the one that most people have.
    config = load(tmp_path, "channels: {telegram: {bot_token: '${T}'}}\n", T=TOKEN)

    assert config.channels == (channel("telegram", folder=tmp_path, bot_token=TOKEN),)
    assert (config.notes, config.routes) == ((), ())

    # A webhook address with a path is taken as it is. A proxy in front may have a path of its own.
    text = (
        "channels: {telegram: {bot_token: '${T}', mode: webhook,"
        " webhook: {url: 'https://example.org/hooks/a', secret: s}}}\n"
    )
    (telegram,) = load(tmp_path, text, T=TOKEN).channels

    assert isinstance(telegram.options, TelegramSettings)
    assert webhook_url(telegram.options, "telegram") == "https://example.org/hooks/a"


def test_everything_that_can_be_said_of_channels(tmp_path: Path) -> None:
    """Each word reaches the value that the channel works with."""
    config = load(
        tmp_path,
        """\
channels:
  telegram:
    bot_token: ${T}
    api_base: http://127.0.0.1:8081
    proxy: http://user:pass%21word@proxy.lan:3128
    mode: webhook
    webhook: {url: https://bot.example.org, secret: s3cret}
    streaming: false
    tool_activity: true
    long_replies: file
    file_after_chunks: 3
    acknowledge: 👀
    files_max_megabytes: 5
    backlog: {max_messages: 7, max_age_hours: 0.5}
    pairing: false
  discord:
    - {bot_token: one, gateway_url: "ws://127.0.0.1:1/", api_base: "http://127.0.0.1:2/api/v10"}
    - {name: club-2, bot_token: two}
  external:
    - {name: matrix, command: bin/matrix, args: [--fast], env: {MATRIX_TOKEN: m, LEVEL: info},
       restart: always, tool_activity: true}
""",
        T=TOKEN,
    )
    telegram, discord, club, matrix = config.channels

    assert telegram.settings == ChannelSettings(
        streaming=False,
        tool_activity=True,
        long_replies="file",
        file_after_chunks=3,
        acknowledge="👀",
        files_max_bytes=5 * 2**20,
        backlog_max_messages=7,
        backlog_max_age_s=1800,
        pairing=False,
    )
    assert telegram.options.model_dump(include={"bot_token", "api_base", "proxy", "mode"}) == {
        "bot_token": TOKEN,
        "api_base": "http://127.0.0.1:8081",
        "proxy": "http://user:pass%21word@proxy.lan:3128",
        "mode": "webhook",
    }
    assert discord == channel(
        "discord",
        folder=tmp_path,
        bot_token="one",  # noqa: S106 - made up
        gateway_url="ws://127.0.0.1:1/",
        api_base="http://127.0.0.1:2/api/v10",
    )
    assert club.options.model_dump(include={"bot_token"}) == {"bot_token": "two"}
    assert matrix.options.model_dump(include={"command", "args", "env", "restart"}) == {
        "command": "bin/matrix",
        "args": ("--fast",),
        "env": {"MATRIX_TOKEN": "m", "LEVEL": "info"},
        "restart": "always",
    }
    assert matrix.settings == ChannelSettings(tool_activity=True)
    assert matrix.folder == tmp_path
    assert [each.name for each in config.channels] == [
        "telegram",
        "discord",
        "discord-club-2",
        "matrix",
    ]
    assert [each.platform for each in config.channels] == [
        "telegram",
        "discord",
        "discord",
        "matrix",
    ]
    assert [sorted(each.secrets) for each in config.channels] == [
        [TOKEN, "pass!word", "pass%21word", "s3cret"],
        ["one"],
        ["two"],
        ["m"],
    ]
    assert not any(
        word in repr(config) for word in (TOKEN, "s3cret", "!word", "%21word", "two", "'m'")
    )


def test_a_channel_that_is_not_opened_needs_no_token(tmp_path: Path) -> None:
    """Whether it is off, or nobody opens it now."""
    # A channel that is off needs nothing. Whoever switches one off need not keep its token in the
    # environment.
    text = """\
channels:
  telegram:
    - {enabled: false, bot_token: "${NOT_SET}", mode: webhook}
    - {bot_token: "${T}"}
  discord: {enabled: no, bot_token: "${NOT_SET}"}
  external: [{name: telegram, command: x, enabled: false}]
"""
    config = load(tmp_path, text, T=TOKEN)

    assert [channel.name for channel in config.channels] == ["telegram"]
    assert faults_of(tmp_path, "channels: {discord: {bot_token: '${NOT_SET}'}}\n") == [
        (
            ":1: channels.discord.bot_token: the environment variable NOT_SET is not set;"
            " set it, or give a default: ${NOT_SET:-...}"
        )
    ]

    # A command that opens no channel needs no token. `everturn pair approve` in another terminal
    # must not ask for the token of the bot.
    file = tmp_path / "everturn.yaml"
    file.write_text('channels: {telegram: {bot_token: "${NOT_SET}"}}\nroutes: [{agent: a}]\n')
    config = load_config(file, environ={}, with_channels=False)

    assert [route.agent for route in config.routes] == ["a"]
    with pytest.raises(ConfigError, match="NOT_SET is not set"):
        load_config(file, environ={})


@table(
    ("text", "fault"),
    [
        (
            "telegram: {bot_token: '${E:-}'}",
            "telegram.bot_token: bot_token is empty; set TELEGRAM_BOT_TOKEN, or enabled: false",
        ),
        (
            "discord: {bot_token: ''}",
            "discord.bot_token: bot_token is empty; set DISCORD_BOT_TOKEN, or enabled: false",
        ),
        (
            "telegram: {bot_token: hunter2}",
            "telegram.bot_token: is no token of a bot; BotFather gives one like 123456:ABC-DEF",
        ),
        ("discord: {bot_token: 'a b'}", "discord.bot_token: must be printable ASCII without"),
        (
            "matrix: {homeserver: 'https://m.example.org', password: ''}",
            "matrix.password: password is empty; set MATRIX_PASSWORD and name its user,",
        ),
        (
            "matrix: {homeserver: 'https://m.example.org', password: a}",
            "matrix.user: is required with password: the account, @bot:example.org",
        ),
        (
            "matrix: {homeserver: 'https://m.example.org', user: a, access_token: b}",
            "matrix.access_token: stands beside user and password; keep one of the two",
        ),
        (
            "email: {address: b@x.org, imap: {host: i}, smtp: {host: s}, authserv_id: x}",
            "email.password: password is empty; set EMAIL_PASSWORD, or a token_command,",
        ),
        (
            "email: {address: b@x.org, password: p, imap: {host: i}, smtp: {host: s}}",
            "email.authserv_id: is required, or secret_tag: anybody can write any From line",
        ),
        (
            (
                "email: {address: b@x.org, password: p, authserv_id: x, smtp: {host: s},"
                " imap: {host: i, security: none}}"
            ),
            "email.imap.security: none would send the password for all to read",
        ),
        (
            "email: {address: 'Bot <b@x.org>', imap: {host: i}, smtp: {host: s}}",
            "email.address: must be an address like bot@example.org",
        ),
        (
            "slack: {bot_token: xoxb-1, app_token: ''}",
            "slack.app_token: app_token is empty; set SLACK_APP_TOKEN, or use mode: events",
        ),
        (
            "slack: {bot_token: xoxb-1, mode: events}",
            "slack.signing_secret: is required with mode: events: without it anybody could",
        ),
        (
            "slack: {bot_token: xapp-1, app_token: xapp-1}",
            "slack.bot_token: is no token of a bot; Slack's begin with xoxb-",
        ),
        (
            "slack: {bot_token: xoxb-1, app_token: xapp-1, status_reactions: {working: '🦑'}}",
            "slack.status_reactions.working: Slack takes emojis by their names: write :eyes: for",
        ),
        (
            "whatsapp: {phone_number_id: '+1 555', token: a, app_secret: b, verify_token: c}",
            "whatsapp.phone_number_id: must be digits alone: the Phone number ID in the app,",
        ),
        (
            "whatsapp: {phone_number_id: '106540352242922', token: a, app_secret: b}",
            "whatsapp.app_secret: is no secret of an app; Meta's are 32 hexadecimal digits",
        ),
        (
            "whatsapp: {phone_number_id: '106540352242922', token: a, verify_token: c}",
            "whatsapp.app_secret: is required: without it anybody could deliver",
        ),
        ("telegram: yes", "telegram: must be a section of fields, or a list of them for several"),
        (
            "telegram: {bot_token: '1:a', name: Family}",
            "telegram.name: must be lower-case letters, digits and hyphens, at most 40",
        ),
        (
            "telegram: {bot_token: '1:a', api_base: api.example.org}",
            "telegram.api_base: must be an address that starts with https:// or http://",
        ),
        (
            "discord: {bot_token: a, gateway_url: 'https://x/'}",
            "discord.gateway_url: must be an address that starts with wss:// or ws://",
        ),
        (
            "telegram: [{bot_token: '1:a'}, {bot_token: '2:b'}]",
            "telegram[1]: telegram is the name of the channel in line 1 too; name them apart",
        ),
        (
            "telegram: [{bot_token: '1:a'}, {bot_token: '1:a', name: b}]",
            "telegram[1].bot_token: is the token of telegram too; each channel needs a bot of its",
        ),
        (
            "external: [{name: link, command: x}]",
            "external[0].name: link is a name of the gateway's own; choose another one",
        ),
        (
            "external: [{name: http, command: x}]",
            "external[0].name: http is a name of the gateway's own; choose another one",
        ),
        (
            "external: [{name: discord, command: x}], discord: {bot_token: a}",
            "external[0].name: discord is the name of the channel in line 1 too; name them apart",
        ),
        ("external: [{name: x, command: ' '}]", "external[0].command: must not be empty"),
        (
            "telegram: {bot_token: '1:a', mode: webhook, webhook: {secret: s}}",
            "telegram.webhook.url: is required with mode: webhook: where Telegram reaches this",
        ),
        (
            "telegram: {bot_token: '1:a', mode: webhook, webhook: {url: 'https://x'}}",
            "telegram.webhook.secret: is required with mode: webhook: without it anybody could",
        ),
        (
            "telegram: {bot_token: '1:a', mode: webhook, webhook: {url: 'https://x', secret: ä}}",
            "telegram.webhook.secret: must be printable ASCII without blanks",
        ),
        (
            "telegram: {bot_token: '1:a', mode: webhook, webhook: {url: 'https://x', secret: a+b}}",
            "telegram.webhook.secret: must be 1 to 256 letters, digits, _ or -",
        ),
        (
            "telegram: {bot_token: '1:a', mode: webhook, webhook: {url: 'http://x', secret: s}}",
            "telegram.webhook.url: must start with https://: Telegram delivers nowhere else",
        ),
        (
            "telegram: {bot_token: '1:a', files_max_megabytes: 21}",
            "telegram.files_max_megabytes: must be at most 20, not '21'",
        ),
        (
            "discord: {bot_token: a, backlog: {max_age_hours: -1}}",
            "discord.backlog.max_age_hours: must be at least 0, not '-1'",
        ),
        (
            "discord: [{bot_token: a}, {name: b, bot_tokn: b}]",
            "discord[1].bot_tokn: is not a known field; did you mean bot_token?",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, fault: str) -> None:
    """It is found before a platform refuses, or a message goes astray."""
    found = faults_of(tmp_path, f"channels: {{{text}}}\n")

    assert any(each.startswith(f":1: channels.{fault}") for each in found), found


def test_routes_say_who_answers(tmp_path: Path) -> None:
    """Ids are numbers to people and texts to platforms; Duragent's word for a channel is taken."""
    text = """\
channels: {telegram: [{bot_token: "${T}", name: family}]}
routes:
  - {match: {channel: telegram-family, chat_type: group, chat_id: -100123}, agent: a}
  - {match: {gateway: telegram, sender_id: 5}, agent: b}
  - {match: {}, agent: c}
"""
    config = load(tmp_path, text, T=TOKEN)

    assert config.routes == (
        Route(agent="a", channel="telegram-family", chat_type="group", chat_id="-100123"),
        Route(agent="b", channel="telegram", sender_id="5"),
        Route(agent="c"),
    )
    assert config.notes == ()


def test_what_has_no_effect_is_said(tmp_path: Path) -> None:
    """And refused, where one of two would have none."""
    # It stands there because somebody expects something of it.
    text = """\
channels:
  telegram: {bot_token: "${T}", webhook: {url: https://example.org}}
routes:
  - {match: {channel: telegrm}, agent: a}
  - {agent: b}
  - {match: {chat_type: dm}, agent: c}
"""

    assert notes_of(tmp_path, text) == [
        ":2: channels.telegram.webhook: has no effect without mode: webhook",
        ":4: routes[0].match.channel: no channel is called 'telegrm'; there are: telegram",
        ":6: routes[2]: is never reached: the route in line 5 takes everything",
    ]
    assert notes_of(tmp_path, "routes: [{agent: a}]\n") == [
        ":1: routes: has no effect without channels"
    ]

    # A route that names a channel twice is refused. One of the two would be ignored.
    text = "routes: [{match: {channel: a, gateway: b}, agent: x}]\n"

    assert faults_of(tmp_path, text) == [
        ":1: routes[0].match.gateway: is Duragent's name for channel; keep one of the two"
    ]
