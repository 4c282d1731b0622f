"""Conversations that survive a restart, and an answer that is shown as it comes."""

from __future__ import annotations

import sys
import tempfile

import anyio

import everturn

AGENT = everturn.Agent(name="companion", instructions="You remember.", model="builtin/echo")


async def first_day(workspace: str) -> None:
    """Begin two conversations; each is on disk before `ask` returns."""
    async with everturn.open_gateway(AGENT, workspace=workspace) as gateway:
        await gateway.ask("companion", "My name is Ann.", conversation="ann")
        await gateway.ask("companion", "My name is Bob.", conversation="bob")


async def next_day(workspace: str) -> None:
    """Go on with one of them, in a process that knows nothing but the folder."""
    async with everturn.open_gateway(AGENT, workspace=workspace) as gateway:
        async for piece in gateway.stream("companion", "Who am I?", conversation="ann"):
            print(piece, end="", flush=True)
        print()
        session = await gateway.session("companion", "ann")
        assert session is not None
        print(f"{session.turns} turns with Ann")


async def main() -> None:
    """Live through both days."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = sys.argv[1] if len(sys.argv) > 1 else folder
        await first_day(workspace)
        await next_day(workspace)


if __name__ == "__main__":
    anyio.run(main)
