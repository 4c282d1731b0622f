"""How long it takes to clean 10,000 sessions, and what turns feel of it meanwhile.

Writes sessions that nobody used for a year, opens a gateway on them, and cleans them by
`sessions.keep` while one conversation talks, turn after turn. Prints one JSON object.

    .venv/bin/python benchmarks/retention.py [SESSIONS]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import median

import anyio

from everturn.testing._histories import simple_log
from everturn_actors.ids import new_session_id
from everturn_actors.journal.log.codec import encode
from everturn_actors.journal.log.layout import Layout
from everturn_actors.model import ConversationKey, IncomingMessage
from everturn_gateway.app import open_gateway
from everturn_gateway.app.gateway import Gateway
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.keep import KeepConfig
from everturn_gateway.config.settings import load_config

AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {name: assistant}
spec: {model: {provider: builtin, name: builtin}}
"""


def write(folder: Path, sessions: int) -> None:
    """Write sessions of six turns, a year old."""
    layout = Layout(workspace=folder / ".everturn")
    old = SystemClock().now() - timedelta(days=365)
    for number in range(sessions):
        at = old + timedelta(milliseconds=number)
        session_id = new_session_id(at, f"{number:08x}")
        files = layout.session(session_id)
        files.folder.mkdir(parents=True)
        files.log.write_bytes(encode(session_id, simple_log(6, session_id=session_id)))
        os.utime(files.log, (at.timestamp(), at.timestamp()))


async def talk(gateway: Gateway, waits_s: list[float], stop: anyio.Event) -> None:
    """Send messages one after the other, and note how long each waits for its answer."""
    key = ConversationKey(channel="http", chat="bench", agent="assistant")
    while not stop.is_set():
        began = time.perf_counter()
        sent = await gateway.service.submit(IncomingMessage(key=key, text="hello"))
        await sent.result()
        waits_s.append(time.perf_counter() - began)
        await anyio.sleep(0.02)


async def watch(kept_s: list[float], stop: anyio.Event) -> None:
    """Note how long the event loop computes before the next task has its turn.

    In CPU of its thread: what other processes take meanwhile does not count.
    """
    while not stop.is_set():
        before = time.thread_time()
        await anyio.sleep(0.001)
        kept_s.append(time.thread_time() - before)


async def talk_for(gateway: Gateway, waits_s: list[float], duration_s: float) -> None:
    """Talk for a while."""
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(talk, gateway, waits_s, stop)
        await anyio.sleep(duration_s)
        stop.set()


async def main(sessions: int) -> None:
    """Clean, and print what it took."""
    with tempfile.TemporaryDirectory(prefix="everturn-retention-") as name:
        folder = Path(name)
        await anyio.to_thread.run_sync(write, folder, sessions)
        (folder / "agents" / "assistant").mkdir(parents=True)
        (folder / "agents" / "assistant" / "agent.yaml").write_text(AGENT)
        file = folder / "everturn.yaml"
        file.write_text("server: {port: 0}\n")
        config = load_config(file, environ={})
        keep = replace(config.sessions, keep=KeepConfig(days=30))
        config = replace(config, sessions=keep)
        async with open_gateway(config, environ=dict(os.environ)) as gateway:
            alone: list[float] = []
            beside: list[float] = []
            await talk_for(gateway, alone, 5)
            began, removed = time.perf_counter(), 0
            stop = anyio.Event()
            kept: list[float] = []
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(talk, gateway, beside, stop)
                tasks.start_soon(watch, kept, stop)
                async for each in gateway.cleaner().clean():
                    removed += each.is_gone
                took_s = time.perf_counter() - began
                stop.set()
            left = [path.name for path in (config.workspace / "sessions").iterdir()]
    ms = {"alone": sorted(alone), "beside": sorted(beside)}
    print(
        json.dumps(
            {
                "sessions": sessions,
                "removed": removed,
                "left": len(left),
                "took_s": round(took_s, 1),
                "turns": len(beside),
                "loop_kept_ms": round(max(kept) * 1000, 1),
                **{
                    f"{which}_{point}_ms": round(value * 1000, 1)
                    for which, all_s in ms.items()
                    for point, value in (
                        ("p50", median(all_s)),
                        ("p99", all_s[int(len(all_s) * 0.99)]),
                        ("max", all_s[-1]),
                    )
                },
            }
        )
    )


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
