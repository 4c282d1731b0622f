"""A channel of one's own by the installed command: the sample of the documentation."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from support.model_api import open_model_api
from support.process import gateway_process
from support.talking import (
    DEADLINE_S,
    OPEN,
    Brain,
    until_state,
    write_talking,
)

SAMPLE = Path(__file__).parents[2] / "docs" / "plugin-example" / "tcp_chat.py"
LINE_BYTES = 1000


async def test_the_sample_of_the_documentation_answers_over_a_kill(tmp_path: Path) -> None:
    """Who copies it has to get a channel that works, and one that ends with its gateway."""
    external = {
        "name": "tcp",
        "command": sys.executable,
        "args": ["-IS", str(SAMPLE)],
        "env": {"CHAT_PORT": "0"},
    }
    async with open_model_api(default=Brain()) as model:
        write_talking(
            tmp_path, model.url, channels={"external": [external]}, agents={"helper": OPEN}
        )
        for name in ("ann", "bob"):
            async with gateway_process(tmp_path) as gateway, gateway.client() as client:
                await until_state(client, "connected")
                (channel,) = (await client.get("/api/v1/channels")).json()["channels"]
                account = urlsplit(channel["account"])
                assert account.hostname
                assert account.port
                person = await anyio.connect_tcp(account.hostname, account.port)
                async with person:
                    await person.send(f"{name}\nhello, I am {name}\n".encode())
                    heard: list[bytes] = []
                    lines = BufferedByteReceiveStream(person)
                    with anyio.fail_after(DEADLINE_S):
                        while not heard or heard[-1] == b"...":  # its typing indicator
                            heard.append(await lines.receive_until(b"\n", LINE_BYTES))
                        await gateway.kill()
                        with pytest.raises((anyio.IncompleteRead, anyio.BrokenResourceError)):
                            while True:
                                await lines.receive_until(b"\n", LINE_BYTES)

            assert heard[-1] == f"re: hello, I am {name}".encode()
