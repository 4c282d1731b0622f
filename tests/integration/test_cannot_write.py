"""A gateway that cannot write, or has no descriptor left, says so and goes on when it can again.

Real processes with real limits: what a disk or a kernel refuses is refused by the kernel.
"""

from __future__ import annotations

import json
import os
import resource
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from anyio import to_thread
from support.command import start, write_agent
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.journal.health import WriteHealth
from everturn_actors.testing import ManualClock
from everturn_gateway.commands.serving.descriptors import raise_descriptor_limit
from everturn_gateway.commands.shared.running import Running, noted, read_note
from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http.limits import within_descriptors

READY = "Ctrl-C stops it."


@asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[tuple[int, httpx2.AsyncClient]]:
    """Run `everturn serve`; yield its process and a client with an open connection."""
    write_agent(folder)
    async with start("serve", "--port", "0", cwd=folder) as running:
        await running.until(READY)
        note = json.loads((folder / ".everturn" / "gateway.json").read_text())
        async with httpx2.AsyncClient(base_url=note["url"], timeout=WAIT_S) as client:
            await client.get("/livez")
            yield note["pid"], client


async def begin(client: httpx2.AsyncClient) -> httpx2.Response:
    """Begin a session."""
    return await client.post("/api/v1/sessions", json={"agent": "helper"})


async def until_ready(client: httpx2.AsyncClient) -> None:
    """Ask until it says that it takes messages, as a load balancer does."""
    with anyio.fail_after(WAIT_S):
        while True:
            if (await client.get("/readyz")).is_success:
                return
            await anyio.sleep(0.2)


async def test_it_is_not_ready_while_the_disk_takes_nothing(tmp_path: Path) -> None:
    """A load balancer sends nothing where all would be refused, and comes back when it may."""
    async with serving(tmp_path) as (pid, client):
        whole = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, whole[1]))
        refused = await begin(client)
        unready = await client.get("/readyz")
        page = (await client.get("/metrics")).text
        resource.prlimit(pid, resource.RLIMIT_FSIZE, whole)
        await until_ready(client)
        taken = await begin(client)

    assert refused.status_code == 507
    assert unready.status_code == 503
    assert unready.json()["type"] == "urn:everturn:problem:journal-not-writable"
    assert 'everturn_journal_errors_total{operation="bind"} 1.0' in page
    assert taken.status_code == 201


async def test_without_descriptors_messages_come_again_and_nothing_ends(tmp_path: Path) -> None:
    """Neither is the journal damaged nor the disk full: it passes when connections close."""
    async with serving(tmp_path) as (pid, client):
        session = (await begin(client)).json()["id"]
        messages = f"/api/v1/sessions/{session}/messages"
        first = await client.post(messages, json={"content": "2+3"})
        whole = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        async with AsyncExitStack() as crowd:
            in_use = len(os.listdir(f"/proc/{pid}/fd"))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use + 2, whole[1]))
            port = client.base_url.port
            for _ in range(12):
                await crowd.enter_async_context(await anyio.connect_tcp("127.0.0.1", port or 0))
            refused = await client.post(messages, json={"content": "4+4"})
            also = await begin(client)
            unready = await client.get("/readyz")
            ticks = [_ticks(pid)]
            await anyio.sleep(1)
            ticks.append(_ticks(pid))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, whole)
        await until_ready(client)
        after = await client.post(messages, json={"content": "5+5"})

    assert first.json()["content"].startswith("You said: “2+3”.")
    for answer in (refused, also):
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:everturn:problem:out-of-files"
        assert "Retry-After" in answer.headers
    assert unready.status_code == 503
    assert ticks[1] - ticks[0] < 50, "it spins while it cannot accept"
    assert after.json()["content"] == "You said: “5+5”. I can see 2 messages of yours."


def _ticks(pid: int) -> int:
    """Return how many hundredths of a second of CPU a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_the_limit_of_descriptors_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    """Many systems begin with 1,024, which is what a gateway's connections may need alone."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = min(256, before[1])
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (low, before[1]))
        limit = raise_descriptor_limit(100)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == limit > low
        assert not caplog.records
        raise_descriptor_limit(10**9)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert "raise the hard limit" in caplog.text


@table(
    ("limit", "most", "followers"),
    [(resource.RLIM_INFINITY, 1024, 768), (4096, 1024, 768), (1024, 768, 576), (60, 30, 22)],
)
def test_connections_leave_descriptors_for_all_else(limit: int, most: int, followers: int) -> None:
    """A connection without a descriptor is closed unheard, the one of a health check as well."""
    for config in (ServerConfig(), ServerConfig(max_followers=768)):
        bounded = within_descriptors(config, limit)
        assert (bounded.max_connections, bounded.follower_limit) == (most, followers)


async def test_a_note_that_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    """Other commands find the gateway as soon as the disk takes something."""
    clock, workspace = ManualClock(), tmp_path / "workspace"
    mine = Running(pid=os.getpid(), url="http://127.0.0.1:1")
    async with noted(workspace, mine, clock):
        with anyio.fail_after(WAIT_S):
            await clock.until_sleeping(1)
            assert await to_thread.run_sync(read_note, workspace) is None
            workspace.mkdir()
            clock.advance(1)
            while (found := await to_thread.run_sync(read_note, workspace)) is None:
                await anyio.wait_all_tasks_blocked()

        assert found == mine
    assert await to_thread.run_sync(read_note, workspace) is None


async def test_a_doubt_is_tried_out_less_and_less_often(tmp_path: Path) -> None:
    """A scrape a second does not write a file a second; what works again is seen at once."""
    now = 0.0
    health = WriteHealth(tmp_path / "gone", now=lambda: now)
    health.failed()

    assert "ENOENT" in await health.check()
    (tmp_path / "gone").mkdir()
    still = await health.check()
    now = 1.0
    again = await health.check()
    health.failed()
    health.succeeded()

    assert still
    assert again == await health.check() == ""
    assert not [*(tmp_path / "gone").iterdir()]
