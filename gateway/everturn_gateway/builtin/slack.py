"""The Slack channel as a plug-in: its settings, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal

from everturn_actors.model import ConversationKey
from everturn_channels.adapter import Adapter, ChatType
from everturn_channels.ingestion.history import BacklogLimits
from everturn_gateway.builtin.channels import BotSettings, Token, bot_token, secrets_of
from everturn_gateway.late_loading import late
from everturn_gateway.plugins import ChannelPlugin, ChannelSetup
from everturn_gateway.yaml_files import FieldPath

if TYPE_CHECKING:
    from everturn_channels import slack
else:
    slack = late("everturn_channels.slack")


class SlackSettings(BotSettings):
    """`channels.slack`."""

    mode: Literal["socket", "events"] = "socket"
    "Whether the gateway opens a socket to Slack, or Slack delivers to the gateway."
    app_token: Token = ""
    "Of the app, with mode: socket."
    signing_secret: Token = ""
    "Of the app, with mode: events: by it Slack shows that it is Slack."
    threads: bool = True
    "Whether what is asked in a channel is answered in a thread, a conversation of its own."


def _slack(setup: ChannelSetup[SlackSettings]) -> Adapter:
    settings, common = setup.settings, setup.settings.common()
    return slack.SlackAdapter(
        name=setup.name,
        account=slack.SlackAccount(
            bot_token=settings.bot_token,
            app_token=settings.app_token if settings.mode == "socket" else "",
            signing_secret=_signing_secret(settings),
            has_threads=settings.threads,
            api_base=settings.api_base or slack.SLACK_API,
            proxy=settings.proxy or "",
        ),
        clock=setup.clock,
        backlog=BacklogLimits(
            max_messages=common.backlog_max_messages, max_age_s=common.backlog_max_age_s
        ),
    )


def _faults(settings: SlackSettings) -> Iterator[tuple[FieldPath, str]]:
    if not settings.bot_token:
        message = "bot_token is empty; set SLACK_BOT_TOKEN, or enabled: false"
        yield ("bot_token",), message
    elif not settings.bot_token.startswith("xoxb-"):
        yield ("bot_token",), "is no token of a bot; Slack's begin with xoxb-"
    if settings.mode == "events":
        if not settings.signing_secret:
            message = "is required with mode: events: without it anybody could deliver"
            yield ("signing_secret",), message
    elif not settings.app_token:
        yield ("app_token",), "app_token is empty; set SLACK_APP_TOKEN, or use mode: events"
    elif not settings.app_token.startswith("xapp-"):
        yield ("app_token",), "is no token of an app; Slack's begin with xapp-"
    shown = settings.status_reactions
    emojis = {"acknowledge": settings.acknowledge, **dict(shown or {})}
    for name, emoji in emojis.items():
        if emoji and not slack.name_of(emoji):
            where = (name,) if name == "acknowledge" else ("status_reactions", name)
            yield where, "Slack takes emojis by their names: write :eyes: for one"


def _notes(settings: SlackSettings) -> Iterator[tuple[FieldPath, str]]:
    unused = "app_token" if settings.mode == "events" else "signing_secret"
    if getattr(settings, unused):
        yield (unused,), f"has no effect with mode: {settings.mode}"


def _signing_secret(settings: SlackSettings) -> str:
    return settings.signing_secret if settings.mode == "events" else ""


def _chat_type(key: ConversationKey) -> ChatType:
    """Return the type of a chat: the ids of those with one person begin with a D.

    Source: https://docs.slack.dev/reference/objects/conversation-object (read 2026-11-27).
    """
    return "dm" if key.chat.startswith("D") else "group"


def slack_manifest(name: str) -> str:
    """Return what makes the app of a bot on Slack, as YAML."""
    return slack.manifest(name)


SLACK: Final = ChannelPlugin(
    name="slack",
    interface=1,
    summary="a Slack app",
    docs="docs/slack.md",
    settings=SlackSettings,
    make=_slack,
    faults=_faults,
    notes=_notes,
    secrets=secrets_of,
    identity=bot_token,
    chat_type=_chat_type,
    webhook_secret=_signing_secret,
    webhook_header="X-Slack-Signature",
    is_webhook_signed=True,
    is_shareable=True,
)
