"""A look at what may be wrong with an app, for its owner."""

from __future__ import annotations

from typing import Final

from everturn_channels.ingestion.json_fields import Json, objects_of, text_of
from everturn_channels.slack.account import SlackAccount
from everturn_channels.slack.requests import RequestFailedError, SlackApi

SCOPES: Final = {
    "app_mentions:read": "read mentions",
    "channels:history": "read public channels",
    "channels:read": "know public channels",
    "chat:write": "write",
    "commands": "take slash commands",
    "files:read": "read files",
    "files:write": "send files",
    "groups:history": "read private channels",
    "groups:read": "know private channels",
    "im:history": "read direct messages",
    "im:read": "know direct messages",
    "mpim:history": "read group messages",
    "mpim:read": "know group messages",
    "reactions:read": "read reactions",
    "reactions:write": "react",
    "users:read": "know people's names",
}
"What the bot's token has to allow, and what it could not do without."
EVENTS: Final = (
    "app_uninstalled",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "reaction_added",
    "tokens_revoked",
)
"What the app has to subscribe to."


def manifest(name: str) -> str:
    """Return what makes an app on Slack with all that the channel needs, as YAML.

    Source: https://docs.slack.dev/reference/app-manifest, read 2026-11-27.
    """
    scopes = "\n".join(f"      - {scope}" for scope in SCOPES)
    events = "\n".join(f"      - {event}" for event in EVENTS)
    return f"""display_information:
  name: {name}
features:
  app_home: {{messages_tab_enabled: true, messages_tab_read_only_enabled: false}}
  bot_user: {{display_name: {name}, always_online: true}}
  slash_commands:
    - {{command: /everturn, description: Commands of the agent, usage_hint: "help"}}
oauth_config:
  scopes:
    bot:
{scopes}
settings:
  event_subscriptions:
    bot_events:
{events}
  interactivity: {{is_enabled: true}}
  socket_mode_enabled: true
"""


async def look(api: SlackApi, account: SlackAccount, who: Json, channel: str) -> list[str]:
    """Return a line for each thing found; those with `problem: ` need the owner.

    Raises:
        RequestFailedError: Slack does not tell.
    """
    found = [f"the bot is @{text_of(who, 'user')} in {text_of(who, 'team')}"]
    if api.scopes:
        found += [
            f"problem: the scope {scope} is missing: the bot cannot {what}"
            for scope, what in SCOPES.items()
            if scope not in api.scopes
        ]
    page = await api.read(
        "users.conversations",
        {"types": "public_channel,private_channel", "exclude_archived": True},
    )
    count = len(objects_of(page, "channels"))
    found.append(f"it is in {count} channels" if count else "it is in no channel: /invite it")
    if not account.app_token:
        found.append("Slack delivers over HTTP; whether it reaches this gateway, it shows there")
        return found
    try:
        await api.call("apps.connections.open", token=account.app_token)
    except RequestFailedError as error:
        setting = f"channels.{channel}.app_token"
        found.append(f"problem: {error.to_connection_error(setting)}")
    else:
        found.append("Socket Mode is on")
    return found
