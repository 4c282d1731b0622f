"""How long the event loop is blocked by the first request, and while 32 conversations talk.

    .venv/bin/python benchmarks/loop.py [--limit-ms 20]

The gateway runs in this process, and every callback of its loop is timed; its clients are a process
of their own. `wall` is what others wait; on a machine that is busy with other things it holds what
those took as well, and `CPU` does not. The first request loads the API in a thread: what counts is
the CPU that other threads took between two rounds of the loop.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import anyio.to_process
from concurrency import measure
from figures import Figure, show_figures
from harness import Connection, model_api, show, workspace

from everturn_gateway.app import open_gateway
from everturn_gateway.config.settings import load_config
from everturn_gateway.gc_tuning import short_rounds, tune_collector
from everturn_gateway.heap import keep_heap_whole
from everturn_gateway.http.server import serve_http

CONVERSATIONS, TURNS = 32, 30
SHOWN = 10
BEAT_S = 0.0003


class Blocks:
    """What kept the loop from its next callback, in milliseconds."""

    def __init__(self) -> None:
        self.longest_ms = self.longest_cpu_ms = 0.0
        self.slow: list[tuple[float, float, str]] = []
        "Wall, CPU, callback; of those above the limit."

    @contextmanager
    def timing(self, limit_ms: float) -> Generator[None]:
        """Time every callback of asyncio's loop for a block."""
        handle = asyncio.Handle
        run: Callable[[asyncio.Handle], None] = handle._run  # noqa: SLF001 - nothing public tells

        def timed(self: asyncio.Handle) -> None:
            wall, cpu = time.perf_counter(), time.thread_time()
            run(self)
            wall_ms = (time.perf_counter() - wall) * 1000
            cpu_ms = (time.thread_time() - cpu) * 1000
            blocks.longest_ms = max(blocks.longest_ms, wall_ms)
            blocks.longest_cpu_ms = max(blocks.longest_cpu_ms, cpu_ms)
            if wall_ms > limit_ms:
                blocks.slow.append((wall_ms, cpu_ms, repr(self)[:100]))

        blocks = self
        handle._run = timed  # type: ignore[method-assign] # noqa: SLF001
        try:
            yield
        finally:
            handle._run = run  # type: ignore[method-assign] # noqa: SLF001


def talk(url: str) -> int:
    """Hold the conversations, from a process without a loop; return how many turns there were."""
    _, times = asyncio.run(measure(url, CONVERSATIONS, TURNS))
    return len(times)


@asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[str]:
    """Serve a workspace in this process; give the address."""
    config = load_config(folder / "everturn.yaml", environ=os.environ)
    listening = anyio.Event()
    urls: list[str] = []

    def ready(url: str) -> None:
        urls.append(url)
        listening.set()

    async with (
        open_gateway(config, environ={"OPENAI_API_KEY": "bench"}) as gateway,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(functools.partial(serve_http, gateway, on_ready=ready))
        await listening.wait()
        keep_heap_whole()
        tune_collector()
        with short_rounds():
            yield urls[0]
        tasks.cancel_scope.cancel()


async def first_request(url: str) -> float:
    """Load the API; return the longest that other threads kept the loop, in milliseconds of CPU."""
    longest_s = 0.0

    async def beat() -> None:
        nonlocal longest_s
        before_s = time.process_time() - time.thread_time()
        while True:
            await anyio.sleep(BEAT_S)
            now_s = time.process_time() - time.thread_time()
            longest_s, before_s = max(longest_s, now_s - before_s), now_s

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        async with Connection(url) as connection:
            status, body = await connection.request("GET", "/version")
            assert status == 200, body
        tasks.cancel_scope.cancel()
    return longest_s * 1000


async def run(folder: Path, blocks: Blocks, limit_ms: float) -> tuple[int, float]:
    """Serve, let the conversations run; return how many turns there were, and of the first request.

    The latter is what `first_request` returns.
    """
    async with serving(folder) as url:
        kept_ms = await first_request(url)
        with blocks.timing(limit_ms):
            return await anyio.to_process.run_sync(talk, url), kept_ms


def measured(limit_ms: float) -> tuple[str, list[tuple[object, ...]], list[Figure]]:
    """Return the title and the rows of the table, and the figures that have a bar."""
    blocks = Blocks()
    with model_api() as model_url, workspace(model_url) as folder:
        turns, kept_ms = anyio.run(run, folder, blocks, limit_ms)
    longest = blocks.longest_ms
    title = f"{turns} turns of {CONVERSATIONS} conversations: {len(blocks.slow)} callbacks over"
    return (
        f"{title} {limit_ms:g} ms",
        [*sorted(blocks.slow, reverse=True)[:SHOWN]],
        [
            Figure(what="loop blocked, longest, wall", value=longest, unit="ms", bar=limit_ms),
            Figure(
                what="loop blocked, longest, CPU",
                value=blocks.longest_cpu_ms,
                unit="ms",
                bar=limit_ms,
            ),
            Figure(what="loop kept by the first request", value=kept_ms, unit="ms", bar=limit_ms),
        ],
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit-ms", type=float, default=20)
    title, rows, figures = measured(parser.parse_args().limit_ms)
    show(title, ("wall ms", "CPU ms", "callback"), rows)
    show_figures("the event loop", figures)


if __name__ == "__main__":
    main()
