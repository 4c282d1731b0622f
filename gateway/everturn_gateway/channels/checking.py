"""Whether a channel is set up as it has to be: a bot of its own logs in and looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import anyio
from msgspec import Struct

from everturn_actors.ports import Clock
from everturn_channels.errors import ChannelError
from everturn_channels.health import mask_token
from everturn_channels.names import clean
from everturn_gateway.channels.adapters import make_adapter
from everturn_gateway.config.channels import ChannelConfig

CHECK_S: Final = 60.0  # of one channel: logging in, and a handful of questions
PROBLEM: Final = "problem: "


class CheckedChannel(Struct, frozen=True, kw_only=True):
    """What a look at one channel has found."""

    lines: tuple[str, ...]
    "What there is to say, without secrets; what keeps it from working begins with `problem: `."
    has_problem: bool


async def check_channel(
    channel: ChannelConfig, clock: Clock, mask: Callable[[str], str]
) -> CheckedChannel:
    """Log in on a channel and look; nothing is sent, and nothing is taken from a bot that runs.

    Args:
        channel: Which one.
        clock: The time.
        mask: Takes secrets out of what platforms say.

    Raises:
        GatewayError: The library of its platform is missing.
    """
    try:
        lines = await _look(channel, clock)
    except ChannelError as error:
        lines = (f"{PROBLEM}{error}",)
    shown = tuple(clean(mask_token(mask(line))) for line in lines)
    has_problem = any(line.startswith(PROBLEM) for line in lines)
    return CheckedChannel(lines=shown if has_problem else (*shown, "ok"), has_problem=has_problem)


async def _look(channel: ChannelConfig, clock: Clock) -> Sequence[str]:
    """Return what a bot of the channel finds.

    Raises:
        ChannelError: It cannot work.
        GatewayError: The library of its platform is missing.
    """
    adapter = await make_adapter(channel, clock)
    with anyio.move_on_after(CHECK_S):
        return await adapter.check()
    return (f"{PROBLEM}its platform did not answer within {CHECK_S:g} s",)
