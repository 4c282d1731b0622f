"""Who the bot is in its workspace, and how Slack reaches it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

SLACK_API: Final = "https://slack.com/api"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackAccount:
    """An app in one workspace, as its owner set it up."""

    bot_token: str = field(repr=False)
    "`xoxb-...`: with it the bot reads and writes."
    app_token: str = field(default="", repr=False)
    "`xapp-...`, for Socket Mode; empty = Slack delivers over HTTP."
    signing_secret: str = field(default="", repr=False)
    "With it Slack signs what it delivers over HTTP; empty = it comes through a socket."
    has_threads: bool = True
    """Whether what is asked in a channel is answered in a thread.

    Each of them is a conversation of its own.
    """
    api_base: str = SLACK_API
    proxy: str = ""
    "`http://host:port` or `socks5://host:port`; empty = none."
