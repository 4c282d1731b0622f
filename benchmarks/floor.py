"""The floor: the same turn by a bare script - one request in, one model call, one synced append.

.venv/bin/python benchmarks/floor.py

The script uses the libraries that the gateway uses (uvicorn, httpx2) and nothing else: no session,
no history, no recovery. What a gateway adds is what it takes above this.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import uvicorn
from harness import Connection, model_api, p, p50, show, timed, workspace

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


def application(model_url: str, log: int) -> Callable[[Message, Receive, Send], Awaitable[None]]:
    """Return the script: it answers every POST with what the model says."""
    client = httpx2.AsyncClient()

    async def serve(
        scope: Message,
        receive: Receive,
        send: Send,
    ) -> None:
        if scope["type"] != "http":
            return
        content = json.loads((await receive())["body"])["content"]
        body = {
            "model": "bench",
            "stream": True,
            "messages": [{"role": "user", "content": content}],
        }
        text = ""
        url = f"{model_url}/chat/completions"
        async with client.stream("POST", url, json=body) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {") and (choices := json.loads(line[6:])["choices"]):
                    text += choices[0]["delta"].get("content") or ""
        os.write(log, json.dumps({"in": content, "out": text}).encode() + b"\n")
        os.fdatasync(log)
        reply = json.dumps({"content": text}).encode()
        length = str(len(reply)).encode()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}
        )
        await send({"type": "http.response.body", "body": reply})

    return serve


async def floor_ms(url: str, turns: int) -> list[float]:
    """Return the milliseconds of each bare turn."""
    async with Connection(url) as connection:
        return [
            await timed(connection, "/", {"content": f"message {number}"})
            for number in range(turns)
        ]


@contextmanager
def bare_script(model_url: str, folder: Path) -> Generator[str]:
    """Run the script as a process; give its URL."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", model_url, folder / "floor.jsonl"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def _serve(model_url: str, path: str) -> None:
    log = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    config = uvicorn.Config(application(model_url, log), port=0, log_level="error", lifespan="off")
    socket = config.bind_socket()
    socket.listen()  # who comes before the server runs waits
    print(f"http://127.0.0.1:{socket.getsockname()[1]}", flush=True)
    uvicorn.Server(config).run([socket])


def main() -> None:
    """Print the table."""
    if sys.argv[1:2] == ["--serve"]:
        _serve(*sys.argv[2:])
        return
    with (
        model_api() as model_url,
        workspace(model_url) as folder,
        bare_script(model_url, folder) as url,
    ):
        times = asyncio.run(floor_ms(url, 1000))
    show("the floor of a turn", ("p50 ms", "p95 ms"), [(p50(times), p(times, 0.95))])


if __name__ == "__main__":
    main()
