"""The status of a channel, in words for people."""

from __future__ import annotations

from datetime import datetime

from everturn_channels.health import ChannelStatus


def channel_text(status: ChannelStatus) -> str:
    """Return the status of a channel, in a line."""
    account = f" as {status.account}" if status.account else ""
    if status.is_healthy:
        heard = f"receives{account}, last heard of {moment_text(status.last_received_at)}"
        return "; ".join((heard, *shortfalls(status)))
    last = status.last_received_at
    why = f": {status.error}" if status.error else f" since {moment_text(last)}" if last else ""
    silent = f"has not shown that it receives: {state_text(status)}{why}"
    return "; ".join((silent, *shortfalls(status)))


def shortfalls(status: ChannelStatus) -> tuple[str, ...]:
    """Return what a channel leaves undone, in words."""
    found: list[str] = []
    if status.blocked:
        first = status.blocked[0]
        chats = (
            "1 chat waits" if status.blocked_count == 1 else f"{status.blocked_count:,} chats wait"
        )
        found.append(
            f"{chats}, the longest ({first.chat}) since {moment_text(first.since)}: {first.why}"
        )
    if status.given_up:
        messages = "1 message" if status.given_up == 1 else f"{status.given_up:,} messages"
        found.append(f"{messages} could not be delivered for too long")
    if status.unreadable:
        events = "1 event" if status.unreadable == 1 else f"{status.unreadable:,} events"
        found.append(f"{events} could not be read")
    return tuple(found)


def state_text(status: ChannelStatus) -> str:
    """Return the state of a channel."""
    if status.state != "connected" or status.is_healthy:
        return status.state
    heard = "nothing yet" if status.last_received_at is None else "nothing any more"
    return f"connected, heard {heard}"


def moment_text(moment: datetime | None) -> str:
    """Return an instant by this machine's clock."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S %Z}" if moment else "never"
