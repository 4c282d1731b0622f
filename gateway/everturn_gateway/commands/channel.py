"""`everturn channel`: the status of the channels, and whether they are set up as they must be."""

from __future__ import annotations

import sys
from typing import Final

from everturn_actors.state.serialization import utc_text
from everturn_channels.health import ChannelStatus
from everturn_gateway.client import ask_channels
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK
from everturn_gateway.commands.shared.finding import find_running
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_done, print_json
from everturn_gateway.commands.shared.progress import slow_progress
from everturn_gateway.commands.shared.settings import api_token, load, run_async
from everturn_gateway.commands.shared.tables import print_table
from everturn_gateway.config.channels import ChannelConfig
from everturn_gateway.config.settings import Config
from everturn_gateway.doctor.channel_words import moment_text, shortfalls, state_text
from everturn_gateway.errors import GatewayError
from everturn_gateway.logs import SecretRegistry

_NONE: Final = "no channels; everturn.yaml sets them up under channels\n"


# --- list ---


def list_channels(options: Options, *, as_json: bool) -> int:
    """Print how the channels of the running gateway fare, or which are set up; return the code."""
    config = load(options, with_channels=True)

    async def main() -> int:
        running = await find_running(config.workspace)
        if running is None:
            _print_configured(config, as_json=as_json)
            return EXIT_OK
        statuses = await ask_channels(running.url, token=api_token(config))
        if as_json:
            print_json([_record(status) for status in statuses])
        elif statuses:
            print_table(
                ("channel", "platform", "account", "state", "last heard of", "in", "out"),
                [_row(status) for status in statuses],
                right=("in", "out"),
            )
        else:
            sys.stdout.write(_NONE)
        return EXIT_OK

    return run_async(main)


def _print_configured(config: Config, *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {"name": channel.name, "platform": channel.platform, "state": "not running"}
                for channel in config.channels
            ]
        )
    elif config.channels:
        rows = [(channel.name, channel.platform, "not running") for channel in config.channels]
        print_table(("channel", "platform", "state"), rows)
    else:
        sys.stdout.write(_NONE)


def _row(status: ChannelStatus) -> tuple[str, ...]:
    return (
        status.name,
        status.platform,
        status.account,
        "; ".join((state_text(status) + _why(status), *shortfalls(status))),
        moment_text(status.last_received_at),
        f"{status.received:,}",
        f"{status.sent:,}",
    )


def _why(status: ChannelStatus) -> str:
    return f": {status.error}" if status.error else ""


def _record(status: ChannelStatus) -> dict[str, object]:
    heard_at, retry_at = status.last_received_at, status.retry_at
    return {
        "name": status.name,
        "platform": status.platform,
        "account": status.account,
        "state": status.state,
        "since": utc_text(status.since),
        "healthy": status.is_healthy,
        "last_received_at": utc_text(heard_at) if heard_at else None,
        "error": status.error,
        "retry_at": utc_text(retry_at) if retry_at else None,
        "received": status.received,
        "sent": status.sent,
        "skipped": status.skipped,
        "given_up": status.given_up,
        "unreadable": status.unreadable,
        "blocked_count": status.blocked_count,
        "blocked": [
            {"chat": each.chat, "since": utc_text(each.since), "tries": each.tries, "why": each.why}
            for each in status.blocked
        ],
    }


# --- check ---


def check_channels(options: Options, name: str, *, as_json: bool = False) -> int:
    """Log in on one channel, or all, and print what is wrong; return the code, 1 for a problem.

    Nothing is sent to anybody, and nothing is taken from a gateway that runs.

    Args:
        options: Where the configuration is.
        name: Of the channel; empty = all.
        as_json: Print JSON.

    Raises:
        ConfigError: The configuration is not valid.
        GatewayError: There is no such channel, or the library of its platform is missing.
    """
    config = load(options, with_channels=True)
    channels = _chosen(config, name)
    if not channels:
        print_done(_NONE.rstrip("\n"), {"channels": []}, as_json=as_json)
        return EXIT_OK
    # What builds channels knows the whole gateway.
    from everturn_gateway.channels import check_channel  # as said

    secrets = SecretRegistry()
    for secret in config.secrets:
        secrets.add(secret)

    async def main() -> int:
        found: list[dict[str, object]] = []
        for channel in channels:
            async with slow_progress(f"asking {channel.name}"):
                checked = await check_channel(channel, SystemClock(), secrets.mask)
            problem, lines = checked.has_problem, list(checked.lines)
            found.append({"name": channel.name, "has_problem": problem, "lines": lines})
            for line in () if as_json else lines:
                sys.stdout.write(f"{channel.name}  {line}\n")
            sys.stdout.flush()
        if as_json:
            print_json({"channels": found})
        return EXIT_FAILED if any(each["has_problem"] for each in found) else EXIT_OK

    return run_async(main)


def _chosen(config: Config, name: str) -> tuple[ChannelConfig, ...]:
    chosen = tuple(each for each in config.channels if name in {"", each.name, each.platform})
    if name and not chosen:
        raise unknown_channel(config, name)
    return chosen


def unknown_channel(config: Config, name: str) -> GatewayError:
    """Return the error for a channel that is not there, or not enabled."""
    known = ", ".join(channel.name for channel in config.channels) or "none"
    return GatewayError(f"there is no channel {name!r} that is enabled; there are: {known}")
