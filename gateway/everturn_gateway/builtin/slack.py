"""The Slack channel as a plug-in: its settings, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

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

    app_token: Token = ""
    "Of the app, for Socket Mode."
    threads: bool = True
    "Whether what is asked in a channel is answered in a thread, a conversation of its own."


def _slack(setup: ChannelSetup[SlackSettings]) -> Adapter:
    settings, common = setup.settings, setup.settings.common()
    return slack.SlackAdapter(
        name=setup.name,
        account=slack.SlackAccount(
            bot_token=settings.bot_token,
            app_token=settings.app_token,
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
    if not settings.app_token:
        yield ("app_token",), "app_token is empty; set SLACK_APP_TOKEN, for Socket Mode"
    elif not settings.app_token.startswith("xapp-"):
        yield ("app_token",), "is no token of an app; Slack's begin with xapp-"
    shown = settings.status_reactions
    emojis = {"acknowledge": settings.acknowledge, **dict(shown or {})}
    for name, emoji in emojis.items():
        if emoji and not slack.name_of(emoji):
            where = (name,) if name == "acknowledge" else ("status_reactions", name)
            yield where, "Slack takes emojis by their names: write :eyes: for one"


def _chat_type(key: ConversationKey) -> ChatType:
    """Return the type of a chat: the ids of those with one person begin with a D.

    Source: https://docs.slack.dev/reference/objects/conversation-object (read 2026-11-27).
    """
    return "dm" if key.chat.startswith("D") else "group"


SLACK: Final = ChannelPlugin(
    name="slack",
    interface=1,
    summary="a Slack app",
    docs="docs/slack.md",
    settings=SlackSettings,
    make=_slack,
    faults=_faults,
    secrets=secrets_of,
    identity=bot_token,
    chat_type=_chat_type,
    is_shareable=True,
)
