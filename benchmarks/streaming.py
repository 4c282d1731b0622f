"""Streaming replies of 200 chunks: the gateway's CPU, and the delay it adds to each piece.

.venv/bin/python benchmarks/streaming.py [--turns 20] [--rounds 5]

The model is part of this script, so that the moment a chunk is sent and the moment it arrives are
read from one clock. The floor is a bare script that passes the pieces on; it is asked between the
gateway's turns. One reply at a time shows the delay, many at a time what a token costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
import uvloop
from figures import Figure, show_figures
from floor import bare_script
from harness import Connection, Running, gateway, new_session, p, p50, show, workspace

CHUNKS = 200
INTERVAL_S = 0.005
CLOSE_S = 0.1
LIVE_REPLIES = (50, 300)  # at a time
LIVE_INTERVAL_S = 0.02  # 50 tokens a second, as fast models write
READ_BYTES = 64 * 1024
PROTOCOL_REPLIES = 200  # at a time


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
            due = time.perf_counter()
            for token in _TOKENS:
                if self.interval_s:  # by the clock: what it costs to send slows nothing down
                    due += self.interval_s
                    await asyncio.sleep(max(due - time.perf_counter(), 0))
                self.sent.append(time.perf_counter())
                writer.write(token)
            writer.write(_END)


def _chunk(choice: dict[str, object]) -> bytes:
    data = json.dumps({"id": "1", "model": "bench", "choices": [{"index": 0, **choice}]})
    event = f"data: {data}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(event), event)


_TOKENS = [
    _chunk({"delta": {"content": f"word{number} "}, "finish_reason": None})
    for number in range(CHUNKS)
]
_END = _chunk({"delta": {}, "finish_reason": "stop"}) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for a streamed reply."""

    path: str
    body: Mapping[str, object] = field(default_factory=lambda: {"content": "go"})
    ends: bytes = b"event: done"
    "What its last event begins with."


async def read_reply(running: Running, asked: Asked) -> None:
    """Stream one reply to its end, as cheaply as can be."""
    answer = bytearray()
    async with Connection(running.url) as connection:
        await connection.send("POST", asked.path, asked.body)
        while asked.ends not in answer[-READ_BYTES:]:
            piece = await connection.read(READ_BYTES)
            assert piece, answer[-READ_BYTES:]
            answer += piece
    assert answer.count(b"word") >= CHUNKS


async def read_replies(running: Running, asked: Sequence[Asked]) -> None:
    """Stream replies at a time."""
    async with anyio.create_task_group() as tasks:
        for each in asked:
            tasks.start_soon(read_reply, running, each)


Live: TypeAlias = list[tuple[float, float]]
"Of rounds of many replies at a time: CPU of a token in microseconds, and the share of a core."


async def live(replies: int, rounds: int) -> tuple[Live, Live]:
    """Return what many replies at a time take of the gateway, and of the bare script."""
    model = Model(interval_s=LIVE_INTERVAL_S)
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0, backlog=replies)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    ours: Live = []
    floor: Live = []
    with workspace(url) as folder, bare_script(url, folder) as script:
        with (folder / "everturn.yaml").open("a") as settings:
            settings.write(f"providers: {{openai: {{max_concurrent: {replies}}}}}\n")
        with gateway(folder) as running:
            async with Connection(running.url) as connection:
                sessions = [await new_session(connection) for _ in range(replies)]
            paths = [Asked(path=f"/api/v1/sessions/{each}/stream") for each in sessions]
            bare = [Asked(path=f"/{number}/stream") for number in range(replies)]
            await read_replies(running, paths[:5])
            for _ in range(rounds):
                for into, who, where in ((ours, running, paths), (floor, script, bare)):
                    before, began = who.cpu_s(), time.perf_counter()
                    await read_replies(who, where)
                    cpu_s = who.cpu_s() - before
                    share = cpu_s / (time.perf_counter() - began)
                    into.append((cpu_s * 1e6 / (replies * CHUNKS), share))
    server.close()
    await asyncio.sleep(CLOSE_S)
    return ours, floor


def by_protocol(number: int, session_id: str) -> dict[str, Asked]:
    """Return the same request of one client in each protocol."""
    response = {"model": "bench", "input": "go", "stream": True, "conversation": f"c{number}"}
    said = [{"role": "user", "content": "go"}]
    chat = {"model": "bench", "messages": said, "stream": True, "user": f"u{number}"}
    return {
        "native": Asked(path=f"/api/v1/sessions/{session_id}/stream"),
        "responses": Asked(path="/v1/responses", body=response, ends=b"event: response.completed"),
        "chat completions": Asked(path="/v1/chat/completions", body=chat, ends=b"data: [DONE]"),
    }


async def protocols(replies: int, rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds that many replies at a time take, by protocol, for each round."""
    model = Model(interval_s=LIVE_INTERVAL_S)
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0, backlog=replies)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    with workspace(url) as folder:
        with (folder / "everturn.yaml").open("a") as settings:
            settings.write(f"providers: {{openai: {{max_concurrent: {replies}}}}}\n")
        with gateway(folder) as running:
            async with Connection(running.url) as connection:
                sessions = [await new_session(connection) for _ in range(replies)]
            clients = [by_protocol(number, each) for number, each in enumerate(sessions)]
            taken: dict[str, list[float]] = {name: [] for name in clients[0]}
            for number in range(-1, rounds):  # the first opens the conversations
                names = [*taken]
                for name in names[number % 3 :] + names[: number % 3]:  # none is always the first
                    before = running.cpu_s()
                    await read_replies(running, [each[name] for each in clients])
                    if number >= 0:
                        taken[name].append(running.cpu_s() - before)
    server.close()
    await asyncio.sleep(CLOSE_S)
    return taken


def measured_protocols(rounds: int) -> list[Figure]:
    """Return what the protocols of OpenAI's clients cost beside the native one, in turns."""
    taken = uvloop.run(protocols(PROTOCOL_REPLIES, rounds))
    native = taken.pop("native")
    return [
        Figure(
            what=f"{PROTOCOL_REPLIES} streams of {name}, to the native API's",
            value=min(seconds) / min(native),  # what else the machine does adds to the others
            unit="x",
            bar=1.2,
        )
        for name, seconds in taken.items()
    ]


def measured_live(rounds: int) -> list[Figure]:
    """Return what a token costs where many replies come at a time."""
    figures: list[Figure] = []
    for replies in LIVE_REPLIES:
        ours, floor = (
            [p50(values) for values in zip(*rounds, strict=True)]
            for rounds in uvloop.run(live(replies, rounds))
        )
        figures.append(
            Figure(
                what=f"a streamed token, {replies} replies",
                value=ours[0],
                unit="us",
                bar=70,
                floor=floor[0],
            )
        )
        figures.append(
            Figure(
                what=f"{replies} live replies, of a core",
                value=ours[1],
                unit="",
                bar=1,
                floor=floor[1],
            )
        )
        if replies == min(LIVE_REPLIES):  # of more, those of the script wait in the network
            to_floor = ours[0] / floor[0]
            what = "a streamed token to the floor's"
            figures.append(Figure(what=what, value=to_floor, unit="x", bar=1.7))
    return figures


def measured(turns: int, rounds: int = 5) -> tuple[list[tuple[object, ...]], list[Figure]]:
    """Return the rows of the table, and the figures that have a bar."""
    rows: list[tuple[object, ...]] = []
    figures = measured_live(rounds) + measured_protocols(rounds)
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
        if interval_s:
            to_floor = ours.cpu_ms / floor.cpu_ms
            what = f"CPU, {CHUNKS} chunks {paced}, to the floor's"
            figures.append(Figure(what=what, value=to_floor, unit="x", bar=1.3))
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
                    Figure(what=f"{what}, above the floor", value=added, unit="ms", bar=1),
                ]
    return rows, figures


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5, help="of many replies at a time")
    options = parser.parse_args()
    turns = options.turns
    rows, figures = measured(turns, options.rounds)
    show(
        f"{CHUNKS} chunks a reply, {turns} replies",
        ("chunks", "CPU ms a turn", "first p50 ms", "first p95 ms", "each p50 ms", "each p95 ms"),
        rows,
    )
    show_figures("streaming", figures)


if __name__ == "__main__":
    main()
