"""Streaming a reply of 200 chunks: the gateway's CPU, and the delay it adds to each piece.

.venv/bin/python benchmarks/streaming.py [--turns 20]

The model is part of this script, so that the moment a chunk is sent and the moment it arrives are
read from one clock. The floor is a bare script that passes the pieces on; it is asked between the
gateway's turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import dataclass, field

from figures import Figure, show_figures
from floor import bare_script
from harness import Connection, Running, gateway, new_session, p, p50, show, workspace

CHUNKS = 200
INTERVAL_S = 0.005
CLOSE_S = 0.1


class Model:
    """A chat-completions API that notes what it is asked, and when it sends each chunk."""

    def __init__(self, *, interval_s: float) -> None:
        self.interval_s = interval_s
        self.sent: list[float] = []
        self.asked: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            if not head.startswith(b"POST"):  # what else there is to know of a model
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                continue
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            self.asked.append(await reader.readexactly(length))
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


async def stream(running: Running, model: Model, path: str) -> list[float]:
    """Stream one reply; return the milliseconds that each chunk took from model to client."""
    arrived: list[float] = []
    words = 0
    async with Connection(running.url) as connection:
        await connection.send("POST", path, {"content": "go"})
        async for line in connection.lines():
            if line.startswith(b"data: {") and b'"text":' in line and b'"offset":' in line:
                now = time.perf_counter()
                words += json.loads(line[6:])["text"].count(" ")
                arrived += [now] * (words - len(arrived))
            elif line.startswith(b"event: done"):
                break
    return [(there - sent) * 1000 for sent, there in zip(model.sent, arrived, strict=True)]


@dataclass(slots=True)
class Streamed:
    """What replies took through the gateway, or through the bare script."""

    cpu_ms: float = 0.0
    "Of a turn."
    first_ms: list[float] = field(default_factory=list[float])
    rest_ms: list[float] = field(default_factory=list[float])

    def row(self, name: str) -> tuple[object, ...]:
        """Return it as a row of the table."""
        first, rest = self.first_ms, self.rest_ms
        return (name, self.cpu_ms, p50(first), p(first, 0.95), p50(rest), p(rest, 0.95))


async def measure(interval_s: float, turns: int) -> tuple[Streamed, Streamed, bytes]:
    """Return what the gateway took, what the bare script did, and the gateway's first request."""
    model = Model(interval_s=interval_s)
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    ours, floor = Streamed(), Streamed()
    with workspace(url) as folder, bare_script(url, folder) as script, gateway(folder) as running:
        async with Connection(running.url) as connection:
            path = f"/api/v1/sessions/{await new_session(connection)}/stream"
        both = ((ours, running, path), (floor, script, "/bench/stream"))
        for _, who, where in both:
            await stream(who, model, where)
        for _ in range(turns):
            for into, who, where in both:
                before = who.cpu_s()
                delays = await stream(who, model, where)
                into.cpu_ms += (who.cpu_s() - before) * 1000 / turns
                into.first_ms.append(delays[0])
                into.rest_ms += delays[1:]
    server.close()
    await asyncio.sleep(CLOSE_S)  # both are gone; their connections end
    return ours, floor, model.asked[0]


def measured(turns: int) -> tuple[list[tuple[object, ...]], list[Figure]]:
    """Return the rows of the table, and the figures that have a bar."""
    rows: list[tuple[object, ...]] = []
    figures: list[Figure] = []
    for interval_s in (0.0, INTERVAL_S):
        ours, floor, _ = asyncio.run(measure(interval_s, turns))
        paced = f"every {interval_s * 1000:g} ms" if interval_s else "at once"
        rows += [ours.row(paced), floor.row(f"{paced}, floor")]
        figures.append(
            Figure(
                what=f"CPU, {CHUNKS} chunks {paced}",
                value=ours.cpu_ms,
                unit="ms",
                bar=None if interval_s else 20,  # to wake up 200 times costs any program more
                floor=floor.cpu_ms,
            )
        )
        if interval_s:  # what comes at once waits for what came before it
            for what, own, bare, bar in (
                ("first token, p95", ours.first_ms, floor.first_ms, 5),
                ("each token, p95", ours.rest_ms, floor.rest_ms, 1),
            ):
                added = max(p(own, 0.95) - p(bare, 0.95), 0.0)
                figures += [
                    Figure(
                        what=what,
                        value=p(own, 0.95),
                        unit="ms",
                        bar=bar,
                        floor=p(bare, 0.95),
                    ),
                    Figure(what=f"{what}, above the floor", value=added, unit="ms", bar=bar),
                ]
    return rows, figures


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    turns = parser.parse_args().turns
    rows, figures = measured(turns)
    show(
        f"{CHUNKS} chunks a reply, {turns} replies",
        ("chunks", "CPU ms a turn", "first p50 ms", "first p95 ms", "each p50 ms", "each p95 ms"),
        rows,
    )
    show_figures("streaming", figures)


if __name__ == "__main__":
    main()
