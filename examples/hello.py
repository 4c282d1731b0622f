"""One agent, one question, one answer. Nothing is kept."""

from __future__ import annotations

import anyio

import everturn

# builtin/echo needs no key and is no model: it repeats what it is told. Name a real one instead,
# for example anthropic/claude-sonnet-5 with ANTHROPIC_API_KEY in the environment.
AGENT = everturn.Agent(name="hello", instructions="You greet people.", model="builtin/echo")


async def main() -> None:
    """Ask, and print the answer."""
    async with everturn.open_gateway(AGENT) as gateway:
        print((await gateway.ask("hello", "Hi!")).text)


if __name__ == "__main__":
    anyio.run(main)
