"""Channels with the status that a test gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from everturn_channels.chats.lanes import BlockedLane
from everturn_channels.health import ChannelStatus
from everturn_channels.ingestion.deliveries import DeliveryAnswer
from everturn_gateway.channels import CheckedChannel

AT = datetime(2026, 11, 22, 8, 0, 0, tzinfo=UTC)
WELL = ChannelStatus(
    name="telegram",
    platform="telegram",
    state="connected",
    since=AT,
    account="@my_bot",
    last_received_at=AT,
    is_healthy=True,
    received=5,
    sent=4,
    skipped=3,
    unreadable=2,
    blocked=(
        BlockedLane(chat="-100", since=AT, tried_at=AT, tries=4, why="the disk does not answer"),
    ),
    blocked_count=1,
)
ILL = ChannelStatus(
    name="discord-club",
    platform="discord",
    state="retrying",
    since=AT,
    error="connection refused",
    retry_at=AT,
    retries=2,
)
SECRET = "X-Telegram-Bot-Api-Secret-Token"


@dataclass(slots=True, kw_only=True)
class TwoChannels:
    """Channels with the status that they are given; `telegram` takes what is delivered."""

    shown: tuple[ChannelStatus, ...] = (WELL, ILL)
    status: int = 200
    taken: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])

    def statuses(self) -> tuple[ChannelStatus, ...]:
        """Return their status."""
        return self.shown

    def troubled(self) -> tuple[ChannelStatus, ...]:
        """Return those that do not receive."""
        return tuple(status for status in self.shown if not status.is_healthy)

    async def check(self, name: str) -> CheckedChannel | None:
        """Find that `telegram` is well, and not what the other lacks."""
        lines = {"telegram": ("ok",), "discord-club": ("problem: no intents",)}.get(name)
        return CheckedChannel(lines=lines, has_problem=len(lines[0]) > 2) if lines else None

    def admits_webhook(self, name: str, headers: Mapping[str, str]) -> bool | None:
        """Let everything in that is for the right channel; its secret is looked at later."""
        del headers
        return True if name == "telegram" else None

    async def take_webhook(
        self, name: str, headers: Mapping[str, str], body: bytes
    ) -> DeliveryAnswer | None:
        """Note what is delivered."""
        if name != "telegram":
            return None
        self.taken.append((headers.get(SECRET, ""), body))
        return DeliveryAnswer(status=self.status)

    def answer_challenge(self, name: str, query: Mapping[str, str]) -> DeliveryAnswer | None:
        """Say back what `hub.challenge` is, on one channel."""
        if name != "telegram":
            return None
        body = query.get("hub.challenge", "").encode()
        return DeliveryAnswer(status=self.status, body=body, media_type="text/plain")
