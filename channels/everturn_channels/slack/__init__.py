"""The Slack channel: one app in one workspace, by Socket Mode or over HTTP.

- `account`: who the bot is in its workspace, and how Slack reaches it
- `adapter`: the Slack channel as an `Adapter`: one login after the other, and what is said in
  between
- `checking`: a look at what may be wrong with an app
- `cursors`: how far each channel was read, and in which of its threads the bot takes part
- `events_api`: the Events API over HTTP: what Slack delivers to an address of the gateway
- `files`: files that people send: fetched when they are asked for
- `formats/`: Slack's own formats: what people write as text, and Markdown as Slack shows it
- `interactions`: clicks and slash commands: answered to one person only
- `messages`: messages as they come, and as the histories of channels tell them
- `names`: how people and channels are called: each asked for once, and then kept
- `reading`: what an event of Slack means, as values of a channel
- `receiver`: what comes from Slack, put into the queues of its channels
- `requests`: requests to Slack: each once, with a deadline, and what failed in our words
- `sender`: what the bot says and does: each request once, and what may be there already is looked
  for
- `socket_mode`: what Slack delivers comes through a socket that the bot opens
"""

from __future__ import annotations

from everturn_channels.slack.account import SLACK_API, SlackAccount
from everturn_channels.slack.adapter import SlackAdapter
from everturn_channels.slack.checking import manifest
from everturn_channels.slack.formats.emojis import name_of

__all__ = ["SLACK_API", "SlackAccount", "SlackAdapter", "manifest", "name_of"]
