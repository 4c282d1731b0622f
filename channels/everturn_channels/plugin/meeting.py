"""How a plug-in begins and how it ends: hello, login, and the words for what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
from msgspec.structs import replace

from everturn_actors.ports import Clock
from everturn_channels.errors import ChannelError, ConnectionLostError, SetupError
from everturn_channels.health import Login
from everturn_channels.plugin.connection import Connection, deadline
from everturn_channels.plugin.process import PluginProcess, Program
from everturn_channels.plugin.protocol import (
    PROTOCOL,
    Connected,
    Failed,
    FromPlugin,
    Greeting,
    Hello,
)
from everturn_channels.plugin.reading import Hands

HELLO_S: Final = 30.0  # from the start until the plug-in says hello
LOGIN_S: Final = 60.0  # for a check: from there until it is connected
OWNER_S: Final = 600.0  # the same where its owner has to log in


async def meet(
    connection: Connection, greeting: Greeting, hands: Hands, program: Program, clock: Clock
) -> Hello | ChannelError | None:
    """Say hello and wait for the plug-in's; return it, or what is wrong; None = it has ended."""
    said: FromPlugin | None = None
    is_in_time = False
    async with deadline(clock, HELLO_S):
        try:
            await connection.send(greeting)
            said = await connection.hear(hands)
        except anyio.EndOfStream:
            pass
        is_in_time = True
    if not is_in_time:
        return ConnectionLostError(f"{_who(program)} did not say hello within {HELLO_S:.0f} s")
    match said:
        case None:
            return None
        case Hello(protocol=protocol):
            if protocol == PROTOCOL:
                return said
            theirs = program.masked(protocol)
            return SetupError(
                f"{_who(program)} speaks {theirs!r}; this gateway speaks {PROTOCOL!r}"
            )
        case Failed():
            return failure(said, program)
        case _:
            return SetupError(f"{_who(program)} has to say hello before anything else")


async def look(
    connection: Connection,
    hands: Hands,
    program: Program,
    clock: Clock,
    show: Callable[[Login], None] | None = None,
) -> tuple[str, ...] | ChannelError | None:
    """Wait until the plug-in is logged in; return what there is to say of it; None = it ended.

    `show` shows its owner what to do for that, who is waited for; None = nobody is there.
    """
    greeting = Greeting(channel=program.channel, purpose="check", is_new=False, cursor="")
    hello = await meet(connection, greeting, hands, program, clock)
    if not isinstance(hello, Hello):
        return hello
    said: FromPlugin | None = None
    is_in_time = False
    wait_s = OWNER_S if show else LOGIN_S
    async with deadline(clock, wait_s):
        try:
            while not isinstance(said, Connected | Failed):
                said = await connection.hear(hands)
                if isinstance(said, Login):
                    if show is None:
                        break
                    show(replace(said, text=program.masked(said.text)))
        except anyio.EndOfStream:
            said = None
        is_in_time = True
    if not is_in_time:
        return ConnectionLostError(f"{_who(program)} is not connected after {wait_s:.0f} s")
    if isinstance(said, Login):
        name = program.channel
        todo = program.masked(said.text)
        return SetupError(f"{_who(program)} needs a login, by `channel login {name}`: {todo}")
    if isinstance(said, Failed):
        return failure(said, program)
    if not isinstance(said, Connected):
        return None
    lines = (
        f"speaks {PROTOCOL} as {' '.join(filter(None, (hello.name, hello.version)))}",
        f"logged in as {said.account or 'nobody in particular'}",
        *said.findings,
    )
    return tuple(program.masked(line) for line in lines)


def failure(said: Failed, program: Program) -> ChannelError:
    """Return the error for what the plug-in says of itself."""
    text = f"{_who(program)}: {program.masked(said.why)}"
    return SetupError(text) if said.kind == "setup" else ConnectionLostError(text)


async def obituary(process: PluginProcess, program: Program, why: str) -> tuple[str, bool]:
    """Return how a plug-in ended, and whether it did so by itself and without a failure.

    Args:
        process: That has ended, or at least says nothing any more.
        program: What it was.
        why: What it did so that it had to be ended; empty = it was not.
    """
    code = await process.exit_code()
    if why:
        how = f"was ended: {why}"
    elif code is None:
        how = "closed its output"
    elif code < 0:
        how = f"was ended by signal {-code}"
    else:
        how = f"ended with exit code {code}"
    text = f"{_who(program)} {how}"
    if process.last_words:
        text = f"{text}; its last words: {process.last_words}"
    return text, code == 0 and not why


def _who(program: Program) -> str:
    return f"the plug-in of channel {program.channel!r}"
