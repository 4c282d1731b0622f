"""The floor: the same turn by a bare script, durable, with the whole history in each request.

.venv/bin/python benchmarks/floor.py

One request in, one model call out, the message synced before the call and the reply after it: on
aiohttp, one log a conversation, and nothing else; no window, no budget, no recovery, no limits.
What a gateway adds is what it takes above this. A conversation is the first part of the path; one
that ends in `/stream` passes each piece of the reply on as it comes.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path

import orjson
from aiohttp import ClientSession, TCPConnector, web
from harness import Connection, Running, model_api, p, p50, running, show, timed, workspace

CONNECTIONS = 1_000  # to the model; no limit of the script's own is to be measured


class Conversation:
    """What was said, and the log in which it stands."""

    def __init__(self, path: Path) -> None:
        self.messages: list[dict[str, str]] = []
        self._log = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    async def append(self, role: str, content: str) -> None:
        """Add a message, and return when it is on disk."""
        message = {"role": role, "content": content}
        self.messages.append(message)
        await asyncio.to_thread(
            self._write, orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
        )

    def _write(self, line: bytes) -> None:
        os.write(self._log, line)
        os.fdatasync(self._log)


class Script:
    """The whole script: it answers every POST with what the model says."""

    def __init__(self, model_url: str, folder: Path) -> None:
        self._model_url = model_url
        self._folder = folder
        self._conversations: dict[str, Conversation] = {}

    async def connect(self, _: web.Application) -> AsyncGenerator[None]:
        """Keep a client as long as the server runs."""
        async with ClientSession(connector=TCPConnector(limit=CONNECTIONS)) as self._client:
            yield

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one message."""
        name = request.match_info["conversation"]
        content: str = orjson.loads(await request.read())["content"]
        conversation = self._conversations.get(name)
        if conversation is None:
            path = self._folder / f"{name}.jsonl"
            conversation = self._conversations[name] = Conversation(path)
        await conversation.append("user", content)
        if request.path.endswith("/stream"):
            return await self._stream(request, conversation)
        text = "".join([piece async for piece in self._ask(conversation)])
        await conversation.append("assistant", text)
        return web.json_response(body=orjson.dumps({"content": text}))

    async def _stream(self, request: web.Request, conversation: Conversation) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        response.enable_chunked_encoding()
        await response.prepare(request)

        async def write(name: bytes, data: object) -> None:
            await response.write(b"event: %s\ndata: %s\n\n" % (name, orjson.dumps(data)))

        text = ""
        async for piece in self._ask(conversation):
            await write(b"token", {"offset": len(text), "text": piece})
            text += piece
        await conversation.append("assistant", text)
        await write(b"done", {"content": text})
        return response

    async def _ask(self, conversation: Conversation) -> AsyncGenerator[str]:
        body = {"model": "bench", "stream": True, "messages": conversation.messages}
        url = f"{self._model_url}/chat/completions"
        async with self._client.post(url, data=orjson.dumps(body)) as answer:
            async for line in answer.content:
                if line.startswith(b"data: {") and (choices := orjson.loads(line[6:])["choices"]):
                    yield choices[0]["delta"].get("content") or ""


async def floor_ms(url: str, turns: int) -> list[float]:
    """Return the milliseconds of each bare turn, in conversations that are young."""
    async with Connection(url) as connection:
        return [
            await timed(connection, f"/{number // 200}", {"content": f"message {number}"})
            for number in range(turns)
        ]


@contextmanager
def bare_script(model_url: str, folder: Path) -> Generator[Running]:
    """Run the script as a process until the block ends."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", model_url, folder],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield running(process.stdout.readline().strip(), process.pid, began)
    finally:
        process.kill()
        process.wait()


async def _serve(model_url: str, folder: str) -> None:
    script = Script(model_url, Path(folder))
    application = web.Application()
    application.cleanup_ctx.append(script.connect)
    application.router.add_post("/{conversation}", script.serve)
    application.router.add_post("/{conversation}/stream", script.serve)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Print the table."""
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(_serve(*sys.argv[2:]))
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
