"""Slack keeps the published contract, on a pretended workspace that fails as a test wants."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from support.slack_api import SIGNING_SECRET
from support.slack_world import BACKLOG, SlackPlatform, deliver_to, make_bot
from support.suites import hold_to_suite
from support.tables import table

from everturn.testing import ChannelContract
from everturn.testing._channel_inbound import ReceivingContract
from everturn_channels.slack import SlackAdapter


class BySocket(SlackPlatform, ChannelContract):
    """By Socket Mode."""


class ByEvents(SlackPlatform, ReceivingContract):
    """By the Events API; what is sent is the same."""

    def make_channel(self) -> SlackAdapter:
        """Return the bot, to which Slack delivers from now on."""
        bot = make_bot(self.api, BACKLOG, app_token="", signing_secret=SIGNING_SECRET)
        self.api.deliver = partial(deliver_to, bot)
        self.api.repeats_after_s = 0.2  # else a test would wait for the first repeat
        return bot

    async def interrupt(self) -> None:
        """Lose nothing: there is no connection that could be cut."""


@table(
    ("way", "left_out"),
    [(BySocket, ["test_files_of_one_message_are_one_message"]), (ByEvents, [])],
)
def test_slack_keeps_the_contract_of_channels(
    way: type[SlackPlatform], left_out: list[str], tmp_path: Path
) -> None:
    """As every channel does, whatever goes wrong on its platform."""
    hold_to_suite(way, tmp_path, left_out=left_out)
