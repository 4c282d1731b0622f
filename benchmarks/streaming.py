"""Streaming a reply of 200 chunks: the gateway's CPU, and the delay it adds to each piece.

.venv/bin/python benchmarks/streaming.py [--turns 20]

The model is part of this script, so that the moment a chunk is sent and the moment it arrives are
read from one clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

from harness import Connection, Running, gateway, new_session, p, p50, show, workspace

CHUNKS = 200
INTERVAL_S = 0.005


class Model:
    """A chat-completions API that notes when it sends each chunk."""

    def __init__(self, *, interval_s: float) -> None:
        self.interval_s = interval_s
        self.sent: list[float] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                b"transfer-encoding: chunked\r\n\r\n"
            )
            self.sent = []
            for number in range(CHUNKS):
                if self.interval_s:
                    await asyncio.sleep(self.interval_s)
                self.sent.append(time.perf_counter())
                _write(writer, {"delta": {"content": f"word{number} "}, "finish_reason": None})
            _write(writer, {"delta": {}, "finish_reason": "stop"})
            writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


def _write(writer: asyncio.StreamWriter, choice: dict[str, object]) -> None:
    data = json.dumps({"id": "1", "model": "bench", "choices": [{"index": 0, **choice}]})
    event = f"data: {data}\n\n".encode()
    writer.write(b"%x\r\n%b\r\n" % (len(event), event))


async def stream(running: Running, model: Model, session_id: str) -> list[float]:
    """Stream one reply; return the milliseconds that each chunk took from model to client."""
    arrived: list[float] = []
    words = 0
    async with Connection(running.url) as connection:
        path = f"/api/v1/sessions/{session_id}/stream"
        await connection.send("POST", path, {"content": "go"})
        async for line in connection.lines():
            if line.startswith(b'data: {"turn_id"') and b'"text":' in line and b'"offset":' in line:
                now = time.perf_counter()
                words += json.loads(line[6:])["text"].count(" ")
                arrived += [now] * (words - len(arrived))
            elif line.startswith(b"event: done"):
                break
    return [(there - sent) * 1000 for sent, there in zip(model.sent, arrived, strict=True)]


async def measure(interval_s: float, turns: int) -> tuple[list[list[float]], float]:
    """Return each turn's delays, and the gateway's CPU milliseconds a turn."""
    model = Model(interval_s=interval_s)
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    with workspace(url) as folder, gateway(folder) as running:
        async with Connection(running.url) as connection:
            session_id = await new_session(connection)
        await stream(running, model, session_id)
        before = running.cpu_s()
        delays = [await stream(running, model, session_id) for _ in range(turns)]
        cpu_ms = (running.cpu_s() - before) * 1000 / turns
    server.close()
    return delays, cpu_ms


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    turns = parser.parse_args().turns
    rows = []
    for interval_s in (0.0, INTERVAL_S):
        delays, cpu_ms = asyncio.run(measure(interval_s, turns))
        first = [turn[0] for turn in delays]
        rest = [delay for turn in delays for delay in turn[1:]]
        paced = f"every {interval_s * 1000:g} ms" if interval_s else "at once"
        rows.append((paced, cpu_ms, p50(first), p(first, 0.95), p50(rest), p(rest, 0.95)))
    show(
        f"{CHUNKS} chunks a reply, {turns} replies",
        ("chunks", "CPU ms a turn", "first p50 ms", "first p95 ms", "each p50 ms", "each p95 ms"),
        rows,
    )


if __name__ == "__main__":
    main()
