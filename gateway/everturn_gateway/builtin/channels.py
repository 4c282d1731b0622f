"""The channels that come with Everturn: Telegram, Discord, Matrix, and programs of one's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, Field

from everturn_actors.model import ConversationKey
from everturn_channels.adapter import Adapter, ChatType
from everturn_channels.ingestion.history import BacklogLimits
from everturn_gateway.builtin.addresses import ProxyUrl, SocketUrl, Url, proxy_password
from everturn_gateway.config.channels import WEBHOOK_PATH
from everturn_gateway.late_loading import late
from everturn_gateway.plugins import (
    ChannelPlugin,
    ChannelSetup,
    PluginChannelSettings,
    secret_fields,
)
from everturn_gateway.plugins.channels import ChannelName
from everturn_gateway.yaml_files import FieldPath, SettingsModel

if TYPE_CHECKING:
    from everturn_channels import discord, matrix, plugin, telegram
else:
    discord = late("everturn_channels.discord")
    matrix = late("everturn_channels.matrix")
    plugin = late("everturn_channels.plugin")
    telegram = late("everturn_channels.telegram")

TELEGRAM_API: Final = "https://api.telegram.org"
_TELEGRAM_TOKEN: Final = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
_WEBHOOK_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")
_SECRET_NAME: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)


def _token(value: str) -> str:
    if not value.isascii() or any(not " " < character <= "~" for character in value):
        msg = "must be printable ASCII without blanks"
        raise ValueError(msg)
    return value


def _some(value: str) -> str:
    if not value.strip():
        msg = "must not be empty"
        raise ValueError(msg)
    return value


Token = Annotated[str, AfterValidator(_token), Field(repr=False)]
_Some = Annotated[str, AfterValidator(_some)]
_Remarks = Iterator[tuple[FieldPath, str]]


class BotSettings(PluginChannelSettings):
    """What Telegram, Discord and Slack have in common."""

    bot_token: Token = ""
    "The bot's token."
    api_base: Url | None = None
    "Of the platform's API, where it is not its own."
    proxy: ProxyUrl | None = None
    "Through which it is reached."


def secrets_of(settings: BotSettings) -> Iterator[str]:
    """Yield what has to be masked wherever it shows."""
    yield from secret_fields(settings)
    yield from proxy_password(settings.proxy)


def bot_token(settings: BotSettings) -> str:
    """Return what no two channels may share."""
    return settings.bot_token


def _missing_token(settings: BotSettings, plugin: str) -> _Remarks:
    if not settings.bot_token:
        message = f"bot_token is empty; set {plugin.upper()}_BOT_TOKEN, or enabled: false"
        yield ("bot_token",), message


# --- Telegram ------------------------------------------------------------------------------------


class WebhookSettings(SettingsModel):
    """Where Telegram delivers, and how it shows that it is Telegram."""

    url: Url | None = None
    "Where Telegram reaches this gateway."
    secret: Token = ""
    "What it shows with each delivery."


class TelegramSettings(BotSettings):
    """`channels.telegram`."""

    mode: Literal["polling", "webhook"] = "polling"
    "Whether Telegram is asked for what is new, or delivers it."
    webhook: WebhookSettings = WebhookSettings.model_construct()


def webhook_url(settings: TelegramSettings, channel: str) -> str:
    """Return where Telegram is told to deliver; an address without a path is the gateway's own."""
    url = settings.webhook.url or ""
    parts = urlsplit(url)
    if not url or parts.path not in {"", "/"}:
        return url
    return urlunsplit(parts._replace(path=WEBHOOK_PATH.format(name=channel)))


def _telegram(setup: ChannelSetup[TelegramSettings]) -> Adapter:
    settings = setup.settings
    return telegram.TelegramAdapter(
        name=setup.name,
        token=settings.bot_token,
        clock=setup.clock,
        api_base=settings.api_base or TELEGRAM_API,
        webhook=telegram.WebhookPlace(
            url=webhook_url(settings, setup.name), secret=settings.webhook.secret
        )
        if settings.mode == "webhook"
        else None,
        proxy=settings.proxy or "",
        backlog_max_messages=settings.backlog.max_messages,
    )


def _telegram_faults(settings: TelegramSettings) -> _Remarks:
    yield from _missing_token(settings, "telegram")
    if settings.bot_token and not _TELEGRAM_TOKEN.fullmatch(settings.bot_token):
        yield ("bot_token",), "is no token of a bot; BotFather gives one like 123456:ABC-DEF"
    if settings.mode != "webhook":
        return
    webhook = settings.webhook
    if webhook.url is None:
        message = "is required with mode: webhook: where Telegram reaches this gateway"
        yield ("webhook", "url"), message
    elif not settings.api_base and not webhook.url.startswith("https:"):
        yield (
            ("webhook", "url"),
            "must start with https://: Telegram delivers nowhere else",
        )
    if not webhook.secret:
        message = "is required with mode: webhook: without it anybody could deliver"
        yield ("webhook", "secret"), message
    elif not _WEBHOOK_SECRET.fullmatch(webhook.secret):
        yield ("webhook", "secret"), "must be 1 to 256 letters, digits, _ or -"


def _telegram_notes(settings: TelegramSettings) -> _Remarks:
    if settings.mode == "polling" and "webhook" in settings.model_fields_set:
        yield ("webhook",), "has no effect without mode: webhook"


def _webhook_secret(settings: TelegramSettings) -> str:
    return settings.webhook.secret if settings.mode == "webhook" else ""


def _chat_type(key: ConversationKey) -> ChatType:
    """Return the type of a chat: groups and channels have negative ids.

    Source: https://core.telegram.org/bots/api#chat (read 2026-11-22).
    """
    return "group" if key.chat.startswith("-") else "dm"


TELEGRAM: Final = ChannelPlugin(
    name="telegram",
    interface=1,
    summary="a Telegram bot",
    docs="docs/telegram.md",
    settings=TelegramSettings,
    extra="everturn[telegram]",
    libraries=("aiogram", "telegramify_markdown"),
    make=_telegram,
    faults=_telegram_faults,
    notes=_telegram_notes,
    secrets=secrets_of,
    identity=bot_token,
    chat_type=_chat_type,
    has_number_ids=True,
    webhook_secret=_webhook_secret,
    webhook_header="X-Telegram-Bot-Api-Secret-Token",
    is_shareable=True,
)

# --- Discord -------------------------------------------------------------------------------------


class DiscordSettings(BotSettings):
    """`channels.discord`."""

    gateway_url: SocketUrl | None = None
    "Of Discord's gateway, where it is not its own."
    threads: bool = False
    "Whether what is asked in a channel is answered in a thread, a conversation of its own."


def _discord(setup: ChannelSetup[DiscordSettings]) -> Adapter:
    settings, common = setup.settings, setup.settings.common()
    return discord.DiscordAdapter(
        name=setup.name,
        token=settings.bot_token,
        clock=setup.clock,
        servers=discord.DiscordServers(
            api_base=settings.api_base or "",
            gateway_url=settings.gateway_url or "",
            proxy=settings.proxy or "",
        ),
        backlog=BacklogLimits(
            max_messages=common.backlog_max_messages, max_age_s=common.backlog_max_age_s
        ),
        has_threads=settings.threads,
    )


def _discord_faults(settings: DiscordSettings) -> _Remarks:
    yield from _missing_token(settings, "discord")


DISCORD: Final = ChannelPlugin(
    name="discord",
    interface=1,
    summary="a Discord bot",
    docs="docs/discord.md",
    settings=DiscordSettings,
    extra="everturn[discord]",
    libraries=("discord", "markdown_it"),
    make=_discord,
    faults=_discord_faults,
    secrets=secrets_of,
    identity=bot_token,
    has_number_ids=True,
    is_shareable=True,
)

# --- Matrix --------------------------------------------------------------------------------------


class MatrixSettings(PluginChannelSettings):
    """`channels.matrix`."""

    homeserver: Url
    "Its address: `https://matrix.example.org`."
    user: str = ""
    "The account, `@bot:example.org`; with password."
    password: Annotated[str, Field(repr=False)] = ""
    "The account's password."
    access_token: Token = ""
    "Of a login of the bot's own; instead of user and password."
    encryption: bool = True
    "Whether encrypted rooms are read."
    threads: bool = False
    "Whether what is asked in a room is answered in a thread, a conversation of its own."
    proxy: ProxyUrl | None = None
    "Through which the homeserver is reached."


def _matrix(setup: ChannelSetup[MatrixSettings]) -> Adapter:
    settings, common = setup.settings, setup.settings.common()
    keys = setup.workspace / "channels" / setup.name
    return matrix.MatrixAdapter(
        name=setup.name,
        account=matrix.MatrixAccount(
            homeserver=settings.homeserver,
            user=settings.user,
            password=settings.password,
            access_token=settings.access_token,
            proxy=settings.proxy or "",
            keys=keys if settings.encryption else None,
            has_threads=settings.threads,
        ),
        clock=setup.clock,
        backlog=BacklogLimits(
            max_messages=common.backlog_max_messages, max_age_s=common.backlog_max_age_s
        ),
    )


def _matrix_faults(settings: MatrixSettings) -> _Remarks:
    if settings.access_token:
        if settings.password or settings.user:
            yield ("access_token",), "stands beside user and password; keep one of the two"
    elif not settings.password:
        message = (
            "password is empty; set MATRIX_PASSWORD and name its user, or access_token,"
            " or enabled: false"
        )
        yield ("password",), message
    elif not settings.user:
        yield ("user",), "is required with password: the account, @bot:example.org"


def _matrix_account(settings: MatrixSettings) -> str:
    if settings.access_token:
        return settings.access_token
    return f"{settings.homeserver} {settings.user}" if settings.user else ""


def _matrix_secrets(settings: MatrixSettings) -> Iterator[str]:
    yield from secret_fields(settings)
    yield from proxy_password(settings.proxy)


MATRIX: Final = ChannelPlugin(
    name="matrix",
    interface=1,
    summary="an account on Matrix, also in encrypted rooms",
    docs="docs/matrix.md",
    settings=MatrixSettings,
    extra="everturn[matrix]",
    libraries=("nio", "vodozemac", "peewee", "markdown_it"),
    make=_matrix,
    faults=_matrix_faults,
    secrets=_matrix_secrets,
    identity=_matrix_account,
    keeps_folder=True,
)

# --- programs ------------------------------------------------------------------------------------


class ExternalSettings(PluginChannelSettings):
    """One of `channels.external`."""

    name: ChannelName  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]
    command: _Some
    "The program."
    args: tuple[str, ...] = ()
    "What it is started with."
    env: dict[str, str] = Field(default_factory=dict)
    "All that it gets of an environment, beside what every program needs."
    restart: Literal["always", "on_failure", "never"] = "on_failure"
    "Whether it is started again when it ends."

    def channel(self, plugin: str) -> str:
        """Return its own name: each is a platform of its own."""
        del plugin
        return self.name

    def platform(self, plugin: str) -> str:
        """Return its own name."""
        return self.channel(plugin)


def _external(setup: ChannelSetup[ExternalSettings]) -> Adapter:
    settings = setup.settings
    return plugin.PluginAdapter(
        plugin.Program(
            channel=setup.name,
            command=settings.command,
            args=settings.args,
            env=settings.env,
            cwd=setup.folder,
        ),
        restart=settings.restart,
        clock=setup.clock,
    )


def _named_secrets(settings: ExternalSettings) -> tuple[str, ...]:
    return tuple(value for name, value in settings.env.items() if _SECRET_NAME.search(name))


EXTERNAL: Final = ChannelPlugin(
    name="external",
    interface=1,
    summary="a program of your own, in any language",
    docs="docs/plugin-channel.md",
    settings=ExternalSettings,
    make=_external,
    secrets=_named_secrets,
)
