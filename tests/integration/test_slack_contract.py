"""Slack keeps the published contract, on a pretended workspace that fails as a test wants."""

from __future__ import annotations

from support.slack_world import SlackContract


class TestSlack(SlackContract):
    """By Socket Mode."""
