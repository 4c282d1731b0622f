"""The floor: the same turn by a bare script - one request in, one model call, one synced append.

.venv/bin/python benchmarks/floor.py

The script uses the libraries that the gateway uses (uvicorn, httpx2) and nothing else: no session,
no history, no recovery. What a gateway adds is what it takes above this. Asked at `/stream`, it
passes each piece of the reply on as it comes.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import uvicorn
from harness import Connection, Running, model_api, p, p50, running, show, timed, workspace

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


async def ask(client: httpx2.AsyncClient, model_url: str, content: str) -> AsyncGenerator[str]:
    """Yield the pieces of the model's reply."""
    body = {"model": "bench", "stream": True, "messages": [{"role": "user", "content": content}]}
    async with client.stream("POST", f"{model_url}/chat/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: {") and (choices := json.loads(line[6:])["choices"]):
                yield choices[0]["delta"].get("content") or ""


def append(log: int, content: str, text: str) -> None:
    """Write a turn down."""
    os.write(log, json.dumps({"in": content, "out": text}).encode() + b"\n")
    os.fdatasync(log)


def application(model_url: str, log: int) -> Callable[[Message, Receive, Send], Awaitable[None]]:
    """Return the script: it answers every POST with what the model says."""
    client = httpx2.AsyncClient()

    async def answer(content: str, send: Send) -> None:
        text = "".join([piece async for piece in ask(client, model_url, content)])
        append(log, content, text)
        reply = json.dumps({"content": text}).encode()
        length = str(len(reply)).encode()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}
        )
        await send({"type": "http.response.body", "body": reply})

    async def stream(content: str, send: Send) -> None:
        async def write(name: str, data: object, *, more: bool = True) -> None:
            event = f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
            await send({"type": "http.response.body", "body": event, "more_body": more})

        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        text = ""
        async for piece in ask(client, model_url, content):
            await write("token", {"offset": len(text), "text": piece})
            text += piece
        append(log, content, text)
        await write("done", {"content": text}, more=False)

    async def serve(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            content = json.loads((await receive())["body"])["content"]
            await (stream if scope["path"] == "/stream" else answer)(content, send)

    return serve


async def floor_ms(url: str, turns: int) -> list[float]:
    """Return the milliseconds of each bare turn."""
    async with Connection(url) as connection:
        return [
            await timed(connection, "/", {"content": f"message {number}"})
            for number in range(turns)
        ]


@contextmanager
def bare_script(model_url: str, folder: Path) -> Generator[Running]:
    """Run the script as a process until the block ends."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", model_url, folder / "floor.jsonl"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield running(process.stdout.readline().strip(), process.pid, began)
    finally:
        process.kill()
        process.wait()


def _serve(model_url: str, path: str) -> None:
    log = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    config = uvicorn.Config(
        application(model_url, log),
        port=0,
        log_level="error",
        lifespan="off",
        timeout_keep_alive=60,  # while others are measured, nobody asks
    )
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
        bare_script(model_url, folder) as script,
    ):
        asyncio.run(floor_ms(script.url, 50))
        before = script.cpu_s()
        times = asyncio.run(floor_ms(script.url, 1000))
        cpu_ms = (script.cpu_s() - before) * 1000 / len(times)
    show(
        "the floor of a turn",
        ("p50 ms", "p95 ms", "CPU ms"),
        [(p50(times), p(times, 0.95), cpu_ms)],
    )


if __name__ == "__main__":
    main()
