"""How long the gateway's event loop is blocked while 32 conversations talk.

    .venv/bin/python benchmarks/loop.py [--limit-ms 20]

The gateway runs in this process with asyncio's debug mode, which reports each callback that takes
longer than the limit; its clients are a process of their own. Debug mode makes
everything slower, so what it does not report is not there.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import logging
import os
import re
from pathlib import Path

import anyio
import anyio.to_process
from concurrency import talk
from harness import model_api, show, workspace

from everturn_gateway.app import open_gateway
from everturn_gateway.collector import spare_the_collector
from everturn_gateway.config import load_config
from everturn_gateway.http import serve_http


class Slow(logging.Handler):
    """Gathers the seconds of slow callbacks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[tuple[float, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Read one report of asyncio's debug mode."""
        if found := re.search(r"Executing (.*) took ([\d.]+) seconds", record.getMessage()):
            self.blocks.append((float(found[2]) * 1000, found[1][:100]))


async def run(folder: Path, slow: Slow, limit_ms: float) -> int:
    """Serve, let 32 conversations talk; return how many turns there were."""
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
        spare_the_collector()
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = limit_ms / 1000
        loop.set_debug(True)
        slow.blocks.clear()
        _, times = await anyio.to_process.run_sync(talk, urls[0], 32, 30)
        loop.set_debug(False)
        tasks.cancel_scope.cancel()
    return len(times)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit-ms", type=float, default=20)
    limit_ms = parser.parse_args().limit_ms
    slow = Slow()
    logging.getLogger("asyncio").addHandler(slow)
    with model_api() as model_url, workspace(model_url) as folder:
        turns = anyio.run(run, folder, slow, limit_ms)
    rows = [(milliseconds, what) for milliseconds, what in sorted(slow.blocks, reverse=True)[:10]]
    show(
        f"{turns} turns of 32 conversations: {len(slow.blocks)} callbacks over {limit_ms:g} ms",
        ("ms", "callback"),
        rows,
    )


if __name__ == "__main__":
    main()
