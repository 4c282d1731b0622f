"""The console in a real browser: what it weighs, how soon it shows, what watching costs.

.venv/bin/python benchmarks/console.py [--part load|watch|kill|turn] [--rounds 3]

Needs a browser, as the tests of the console do. The model is on loopback. Figures of shared cores
are noisy: those that compare are taken in turns, and are medians.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import httpx2
from channels import in_thread
from concurrency import measure
from figures import Figure, show_figures
from harness import ROOT, Connection, Running, gateway, model_api, workspace

sys.path.insert(0, str(ROOT / "tests"))

from playwright.async_api import CDPSession, Page
from support.answers import Answer
from support.browser import open_browser, open_window
from support.live import SESSION
from support.model_api import open_model_api
from support.written import long_session

from everturn_actors.events import StepStarted, TurnFinished
from everturn_actors.journal.opening import open_file_store
from everturn_actors.ports import NullObserver
from everturn_actors.state.apply import apply
from everturn_actors.state.session_state import SessionState
from everturn_gateway.session_changes import Changes

CONSOLES: Final = 20
TURNS: Final = 2000  # of the long session, five events each
PIECES: Final = 300
PIECE_S: Final = 0.02
WINDOW_S: Final = 6.0  # of what is watched
SLOW: Final = 6  # times slower: a phone

# Notes when a selector first stands in the page, and what each frame of the screen costs the page.
_WATCHER: Final = """
window.seen = {};
window.frames = [];
const ask = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = (work) => ask((now) => {
  const began = performance.now();
  work(now);
  document.body?.offsetHeight;
  window.frames.push(performance.now() - began);
});
const look = () => {
  // A screenful: what is above it is drawn behind it.
  const entries = document.querySelectorAll(".transcript .entry");
  if (entries.length > 25) window.seen.session ??= performance.now();
  if (document.querySelector(".row")) window.seen.list ??= performance.now();
  ask(look);
};
ask(look);
"""


async def write_long(folder: Path) -> int:
    """Write a session of 10,000 events into a workspace; return how many it has."""
    agent = folder / "agents" / "test" / "agent.yaml"
    agent.parent.mkdir()
    bench = (folder / "agents" / "bench" / "agent.yaml").read_text()
    agent.write_text(bench.replace("name: bench}\nspec", "name: test}\nspec"))
    session = long_session(TURNS)
    async with open_file_store(folder / ".everturn", keeps_index=False) as store:
        await store.append(SESSION, session.events, expected_seq=0)
        # A gateway writes one every 400 events, so nobody reads such a session without.
        await store.save_snapshot(session.state, compaction="archive")
    return len(session.events)


# --- loading ---


class Traffic:
    """Counts the bytes that a page gets."""

    def __init__(self, session: CDPSession) -> None:
        self.bytes = 0
        session.on("Network.loadingFinished", self._add)

    def _add(self, event: dict[str, float]) -> None:
        self.bytes += int(event["encodedDataLength"])


async def worker_bytes(url: str) -> int:
    """Return what the shared worker loads, which no page is told of."""
    async with httpx2.AsyncClient(base_url=url) as client:
        answers = [await client.get(f"/console/{name}") for name in ("worker.js", "live.js")]
    return sum(each.num_bytes_downloaded for each in answers)


async def load(rounds: int) -> list[Figure]:
    """Measure the first visit, and the one of a session of 10,000 events."""
    weights: dict[str, list[float]] = {}
    with workspace("http://127.0.0.1:9/v1") as folder:
        await write_long(folder)
        async with in_thread(gateway(folder)) as running, open_browser() as browser:
            extra = await worker_bytes(running.url)
            for number in range(rounds + 1):  # the first one warms the gateway
                for slow in (1, SLOW):
                    for name, place in (("list", "#/"), ("session", f"#/s/{SESSION}")):
                        async with open_window(browser) as window:
                            page = await window.context.new_page()
                            session = await window.context.new_cdp_session(page)
                            await session.send("Network.enable")
                            # By the processor's time, which others on the machine do not change.
                            domain = {"timeDomain": "threadTicks"}
                            await session.send("Performance.enable", domain)
                            if slow > 1:
                                await session.send("Emulation.setCPUThrottlingRate", {"rate": slow})
                            traffic = Traffic(session)
                            await page.add_init_script(_WATCHER)
                            await page.goto(f"{running.url}/console/{place}")
                            shown_ms = await until_seen(page, name)
                            paint_ms = await first_paint(page)
                            busy_ms = await busy(session)
                            await page.wait_for_timeout(500)
                            nodes = await page.evaluate("document.querySelectorAll('*').length")
                        if number:
                            for what, value in (
                                (f"{name} {slow} bytes", traffic.bytes + extra),
                                (f"{name} {slow} shown", shown_ms),
                                (f"{name} {slow} paint", paint_ms),
                                (f"{name} {slow} nodes", nodes),
                                (f"{name} {slow} busy", busy_ms),
                            ):
                                weights.setdefault(what, []).append(value)
    found = {name: statistics.median(values) for name, values in weights.items()}
    return [
        _figure("first visit, all bytes", found["list 1 bytes"] / 1000, "kB", 60),
        _figure("with 10,000 events, all bytes", found["session 1 bytes"] / 1000, "kB", 150),
        _figure("first contentful paint", found["list 1 paint"], "ms", 200),
        _figure("the list shown", found["list 1 shown"], "ms"),
        _figure("the list, CPU of the page until then", found["list 1 busy"], "ms"),
        _figure("10,000 events shown", found["session 1 shown"], "ms", 800),
        _figure("10,000 events, CPU of the page", found["session 1 busy"], "ms", 800),
        _figure(f"first paint, CPU {SLOW} x slower", found[f"list {SLOW} paint"], "ms", 600),
        _figure(f"the list, CPU {SLOW} x slower", found[f"list {SLOW} shown"], "ms"),
        _figure(f"10,000 events, CPU {SLOW} x slower", found[f"session {SLOW} shown"], "ms", 2500),
        _figure("elements in the page of 10,000 events", found["session 1 nodes"], ""),
    ]


async def until_seen(page: Page, name: str) -> float:
    """Return the milliseconds from the navigation until something was seen."""
    handle = await page.wait_for_function("(name) => window.seen[name]", arg=name)
    return float(await handle.json_value())


async def busy(session: CDPSession) -> float:
    """Return the milliseconds that the page's main thread has worked."""
    found = await session.send("Performance.getMetrics")
    return sum(each["value"] for each in found["metrics"] if each["name"] == "TaskDuration") * 1000


async def first_paint(page: Page) -> float:
    """Return the milliseconds until something was painted."""
    asked = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
    return float(await page.evaluate(asked))


# --- watching ---


@asynccontextmanager
async def consoles(url: str, count: int, watched: str = "") -> AsyncGenerator[None]:
    """Have so many browsers follow everything, as the page does: one stream each."""
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        readers: list[asyncio.Task[None]] = []
        for _ in range(count):
            connection = await stack.enter_async_context(Connection(url))
            more = f"?watch={watched}:0" if watched else ""
            await connection.send("GET", f"/api/v1/stream{more}")
            readers.append(tasks.create_task(_drain(connection)))
        await asyncio.sleep(0.5)
        yield
        for each in readers:
            each.cancel()


async def _drain(connection: Connection) -> None:
    while await connection.read(64 * 1024):
        pass


async def cpu_share(running: Running, seconds: float) -> float:
    """Return how much of a core the gateway uses, in percent."""
    before, began = running.cpu_s(), time.perf_counter()
    await asyncio.sleep(seconds)
    return (running.cpu_s() - before) / (time.perf_counter() - began) * 100


async def watch(rounds: int) -> list[Figure]:
    """Measure what 20 consoles cost the gateway, and a reply costs the page."""
    pieces = tuple(f"word{number} " for number in range(PIECES))
    reply = Answer(pieces=pieces, piece_delay_s=PIECE_S)
    idle: list[float] = []
    grown: list[float] = []
    reading: list[float] = []
    async with open_model_api(default=reply) as model:
        with workspace(model.url) as folder:
            async with in_thread(gateway(folder)) as running:
                async with Connection(running.url) as connection:
                    session_id = await _session(connection)
                for number in range(rounds + 1):
                    alone = await cpu_share(running, WINDOW_S)
                    memory = running.memory_mb()
                    async with consoles(running.url, CONSOLES):
                        more = await cpu_share(running, WINDOW_S) - alone
                        if number:  # the first ones load what all others use
                            idle.append(more)
                            grown.append(running.memory_mb() - memory)
                for _ in range(rounds):
                    alone = await _streamed(running, session_id)
                    async with consoles(running.url, CONSOLES, session_id):
                        reading.append(await _streamed(running, session_id) - alone)
                frames = await painted(running.url, session_id)
    figures = [
        _figure(f"{CONSOLES} consoles, idle: of a core", statistics.median(idle), "%", 1),
        _figure(f"{CONSOLES} consoles, a reply: of a core", statistics.median(reading), "%", 5),
        _figure(f"{CONSOLES} consoles, idle: memory", statistics.median(grown), "MB", 2),
        _figure("a frame while a reply streams, p50", statistics.median(frames), "ms", 16),
        _figure(
            "a frame while a reply streams, p95", sorted(frames)[len(frames) * 95 // 100], "ms"
        ),
    ]
    return [*figures, *await crowded(rounds)]


async def _session(connection: Connection) -> str:
    status, body = await connection.request("POST", "/api/v1/sessions", {"agent": "bench"})
    assert status == 201, body
    return str(body.decode().split('"id":"')[1].split('"')[0])


async def _streamed(running: Running, session_id: str) -> float:
    """Have a reply written, and return what of a core it takes while it is."""
    async with Connection(running.url) as connection:
        path = f"/api/v1/sessions/{session_id}/messages"
        before, began = running.cpu_s(), time.perf_counter()
        status, body = await connection.request("POST", path, {"content": "go on"})
        assert status == 200, body
        return (running.cpu_s() - before) / (time.perf_counter() - began) * 100


async def painted(url: str, session_id: str) -> list[float]:
    """Return what each frame of the page takes while a reply is written into it."""
    async with open_browser() as browser, open_window(browser) as window:
        page = await window.context.new_page()
        await page.add_init_script(_WATCHER)
        await page.goto(f"{url}/console/#/s/{session_id}")
        await page.get_by_label("Message", exact=True).fill("go on")
        await page.keyboard.press("Enter")
        await page.locator(".reply.live .text", has_text="word1 ").wait_for()
        await page.evaluate("window.frames.length = 0")
        await page.locator(".reply.live").wait_for(state="detached", timeout=60_000)
        return [float(each) for each in await page.evaluate("window.frames")]


async def crowded(rounds: int) -> list[Figure]:
    """Measure what 32 conversations at full speed cost, with and without consoles on the list.

    By the gateway's CPU, which is what bounds them: this script is on the same cores.
    """
    with model_api() as model_url, workspace(model_url) as folder:
        async with in_thread(gateway(folder)) as running:
            await measure(running.url, 8, 5)
            shares: list[float] = []
            for number in range(rounds * 2):
                cpu_s: dict[bool, float] = {}
                for is_watched in (number % 2 == 0, number % 2 == 1):
                    async with consoles(running.url, CONSOLES if is_watched else 0):
                        before = running.cpu_s()
                        await measure(running.url, 32, 10)
                        cpu_s[is_watched] = running.cpu_s() - before
                shares.append(cpu_s[False] / cpu_s[True])
    what = f"32 x 10 turns beside {CONSOLES} consoles, to those without, by CPU"
    share = statistics.median(shares)
    return [Figure(what=what, value=share, unit="x", bar=0.95, is_least=True)]


# --- a kill ---


async def kill(rounds: int) -> list[Figure]:
    """Measure how soon a page says that the gateway is gone, and that it is back."""
    lost: list[float] = []
    back: list[float] = []
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    with model_api() as model_url, workspace(model_url) as folder:
        (folder / "everturn.yaml").write_text(f"server: {{port: {port}}}\n")
        async with open_browser() as browser, open_window(browser) as window:
            page: Page | None = None
            for number in range(rounds + 1):
                async with in_thread(gateway(folder)) as running:
                    ready = time.perf_counter()
                    if page is None:
                        page = await window.context.new_page()
                        await page.goto(f"{running.url}/console/")
                    await page.locator(".state.live").wait_for(state="attached")
                    if number:
                        back.append(max(time.perf_counter() - ready, 0.0))
                    running.process.kill()
                    killed = time.perf_counter()
                    await page.locator(".state.lost").wait_for()
                    lost.append(time.perf_counter() - killed)
    return [
        _figure("killed: lost is shown after", statistics.median(lost), "s", 1),
        _figure("live after the gateway is ready, at most", max(back), "s", 2),
    ]


# --- a turn that nobody watches ---


def turn_cost(rounds: int) -> list[Figure]:
    """Measure what keeping the row of a session costs a turn."""
    events = long_session(200).events
    state: SessionState | None = None
    steps = []
    before, batch = state, []
    for event in events:
        state, batch = apply(state, event), [*batch, event]
        if isinstance(event.body, StepStarted | TurnFinished):  # a turn is two writes
            steps.append((before, state, tuple(batch)))
            before, batch = state, []
    costs: list[float] = []
    for _ in range(rounds * 5):
        changes = Changes(NullObserver())
        began = time.process_time()
        for was, after, written in steps:
            changes.durable(was, after, written)
        costs.append((time.process_time() - began) / 200 * 1e6)
    return [_figure("a turn that no console watches", min(costs), "us", 20)]


def _figure(what: str, value: float, unit: str, bar: float | None = None) -> Figure:
    return Figure(what=what, value=value, unit=unit, bar=bar)


PARTS: Final = {"load": load, "watch": watch, "kill": kill}


async def main(parts: Sequence[str], rounds: int) -> None:
    """Print the figures of some parts."""
    figures: list[Figure] = []
    for part in parts:
        figures += turn_cost(rounds) if part == "turn" else await PARTS[part](rounds)
    show_figures("The console", figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=(*PARTS, "turn"))
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    wanted = [arguments.part] if arguments.part else [*PARTS, "turn"]
    asyncio.run(main(wanted, arguments.rounds))
