"""What the benchmarks share: a gateway process over a loopback model API, and a light client.

The client speaks HTTP/1.1 over raw sockets, so that on a small machine the gateway is measured and
not whoever asks it.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Self
from urllib.parse import urlsplit

import psutil
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
EVERTURN = Path(sysconfig.get_path("scripts")) / "everturn"
WIDTH = 120  # of tables that go to a file
SHORT_REPLY = "All right."
LONG_REPLY = "What I think of it is this: " + "it holds. " * 38  # 408 bytes
LONG_MESSAGE = " Tell me what you think of it." * 20  # 600 bytes
START_S = 60  # a gateway that is not up by then is not measured

AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {{name: bench}}
spec:
  model: {{provider: openai, name: bench, base_url: "{url}"}}
  system_prompt: You are a benchmark.
  session: {{compaction: {compaction}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A gateway process that is ready."""

    url: str
    process: psutil.Process
    ready_s: float
    "From the start of the process to its first ready answer."
    ready_cpu_s: float = 0.0
    "The CPU seconds that it had used by then."

    def cpu_s(self) -> float:
        """Return the CPU seconds it has used, children left out; on Linux to the nanosecond.

        Source: clock_getcpuclockid(3); how Linux makes the number of a process's clock of its id
        stands in its include/linux/posix-timers_types.h (read 2026-11-22).
        """
        if sys.platform == "linux":
            return time.clock_gettime((~self.process.pid << 3) | 2)
        times = self.process.cpu_times()
        return times.user + times.system

    def memory_mb(self) -> float:
        """Return its resident memory."""
        return self.process.memory_info().rss / 1e6


def running(url: str, pid: int, began: float) -> Running:
    """Return a process that is ready now; `began` is when it was started, by `perf_counter`."""
    made = Running(url=url, process=psutil.Process(pid), ready_s=time.perf_counter() - began)
    return replace(made, ready_cpu_s=made.cpu_s())


@contextmanager
def model_api(*, delay_ms: float = 0, reply: str = SHORT_REPLY) -> Generator[str]:
    """Run the canned model API as a process; give its URL. A reply comes in one chunk."""
    command = [sys.executable, "-m", "support.model_api", "--port", "0"]
    command += ["--delay-ms", str(delay_ms), "--piece", reply]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert process.stdout is not None
        yield re.search(r"http://\S+", process.stdout.readline())[0].rstrip("/")
    finally:
        process.kill()
        process.wait()


@contextmanager
def workspace(model_url: str, *, compaction: str = "archive") -> Generator[Path]:
    """Give a folder with one agent, `bench`, that asks the model API."""
    with tempfile.TemporaryDirectory(dir=ROOT.parent, prefix=".everturn-bench-") as name:
        folder = Path(name)
        (folder / "agents" / "bench").mkdir(parents=True)
        (folder / "agents" / "bench" / "agent.yaml").write_text(
            AGENT.format(url=model_url, compaction=compaction)
        )
        (folder / "everturn.yaml").write_text("server: {port: 0}\n")
        yield folder


@contextmanager
def gateway(
    folder: Path, *, everturn: Path = EVERTURN, environ: Mapping[str, str] = MappingProxyType({})
) -> Generator[Running]:
    """Run `everturn serve` in `folder` until the block ends, with `environ` beside our own."""
    env = {**os.environ, "OPENAI_API_KEY": "bench", **environ}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # nobody compiles all sources at each start
    began = time.perf_counter()
    process = subprocess.Popen(
        [everturn, "serve"], cwd=folder, env=env, stdout=subprocess.PIPE, text=True
    )
    try:
        yield running(_wait_ready(process, folder), process.pid, began)
    finally:
        process.terminate()
        process.wait()


def _wait_ready(process: subprocess.Popen[str], folder: Path) -> str:
    """Return the URL of a gateway as soon as it answers that it is ready."""
    deadline = time.perf_counter() + START_S
    about = folder / ".everturn" / "gateway.json"
    while time.perf_counter() < deadline and process.poll() is None:
        if about.exists():
            url = json.loads(about.read_text())["url"].rstrip("/")
            if status_of(url, "/readyz") == 200:
                return str(url)
        time.sleep(0.005)
    raise SystemExit("the gateway did not become ready")


def status_of(url: str, path: str) -> int:
    """Return the status of a GET, 0 where nobody answers."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=START_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


class Connection:
    """One keep-alive connection that sends a request and reads its answer."""

    def __init__(self, url: str) -> None:
        self._host, self._port = urlsplit(url).hostname or "", urlsplit(url).port or 80

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Return status and body."""
        await self.send(method, path, body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        return int(head[9:12]), await self._reader.readexactly(int(length[1]) if length else 0)

    async def send(self, method: str, path: str, body: object = None) -> None:
        """Send a request."""
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        self._writer.write(head.encode() + data)
        await self._writer.drain()

    async def read(self, most_bytes: int) -> bytes:
        """Return what has come of a streamed answer; empty = it has ended."""
        return await self._reader.read(most_bytes)

    async def lines(self) -> AsyncGenerator[bytes]:
        """Yield the lines of a streamed answer as they come."""
        while line := await self._reader.readline():
            yield line


async def new_session(connection: Connection) -> str:
    """Return the id of a new session of `bench`."""
    status, body = await connection.request("POST", "/api/v1/sessions", {"agent": "bench"})
    assert status == 201, body
    return str(json.loads(body)["id"])


async def timed(connection: Connection, path: str, body: object) -> float:
    """Post something, wait for its answer; return the milliseconds it took."""
    began = time.perf_counter()
    status, answer = await connection.request("POST", path, body)
    assert status == 200, answer
    return (time.perf_counter() - began) * 1000


async def turn(connection: Connection, session_id: str, text: str) -> float:
    """Send one message, wait for its answer; return the milliseconds it took."""
    return await timed(connection, f"/api/v1/sessions/{session_id}/messages", {"content": text})


def p(values: Iterable[float], share: float) -> float:
    """Return a percentile."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def p50(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*(f"{v:.2f}" if isinstance(v, float) else str(v) for v in row))
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)
