"""Two gateways on one database, and what is seldom: a home that dies, other clocks and versions.

    python benchmarks/node_cases.py [home shared clocks versions] [--old TREE]

home: the node that has an agent's folder is killed; an operator moves the seat. shared: the same
where all see the folder. clocks: one node an hour ahead, one an hour behind, and both jump while
people write (needs a C compiler). versions: one node of the sources in TREE beside one of these,
each then replaced by the other while people write.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import httpx2
from msgspec import field

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from node_faults import tell  # noqa: E402 - found above
from support.answers import Answer  # noqa: E402
from support.database import Server, free_port, running_server  # noqa: E402
from support.model_api import Received, open_model_api  # noqa: E402
from support.node_world import Node, Talk, World, audit  # noqa: E402
from support.patience import WAIT_S  # noqa: E402
from support.process import AGENT, gateway_process  # noqa: E402

EVERTURN = Path(sysconfig.get_path("scripts")) / "everturn"
CLOCK = Path(__file__).with_name("node_clock.c")
FILES = "  tools:\n    - {type: builtin, name: files}\n"
PEOPLE, MESSAGES, SETTLED_S = 6, 10, 8.0


class Cased(Node, kw_only=True):
    """A node with an environment of its own, started as the installed command."""

    environment: dict[str, str] = field(default_factory=dict[str, str])

    async def start(self) -> None:
        """Start it; ready when this returns."""
        self.stack, before = AsyncExitStack(), dict(os.environ)
        os.environ.update(self.environment)
        try:
            running = gateway_process(self.folder, imported=None)
            self.process = await self.stack.enter_async_context(running)
        finally:
            os.environ.clear()
            os.environ.update(before)

    def command(self, *words: str) -> str:
        """Run a command of `everturn` there; return its exit code and what it says."""
        done = subprocess.run(
            [EVERTURN, *words], cwd=self.folder, capture_output=True, text=True, check=False
        )
        return f"{done.returncode}: {(done.stdout + done.stderr).strip()}"


def reply(request: Received) -> Answer:
    """Answer with what was said last."""
    said = str(request.json()["messages"][-1]["content"])
    return Answer(text=f"you said {said.rpartition('] ')[2]}", delay_s=0.05)


@asynccontextmanager
async def open_two(server: Server, *, tools: str = "", more: str = "") -> AsyncGenerator[World]:
    """Prepare two nodes, and end those that run when the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="everturn-cases-"))
    nodes: dict[str, Node] = {}
    async with open_model_api(default=reply) as api:
        for name in "ab":
            own, port = folder / name, free_port()
            (own / "agents" / "helper").mkdir(parents=True)
            agent = own / "agents" / "helper" / "agent.yaml"
            agent.write_text(AGENT.format(url=api.url) + tools)
            (own / "everturn.yaml").write_text(
                f"server: {{port: {port}, stop_timeout_seconds: 20}}\n"
                f'store: {{type: postgres, url: "{server.url()}", connections: 3}}\n'
                f"cluster: {{node: {name}, listen: {own}/link, secret: 0123456789abcdef{more}}}\n"
            )
            nodes[name] = Cased(name=name, folder=own, url=f"http://127.0.0.1:{port}")
        try:
            yield World(nodes=nodes, server=server)
        finally:
            for node in nodes.values():
                if node.process is not None:
                    node.process.process.kill()
                    await node.stack.aclose()
            shutil.rmtree(folder, ignore_errors=True)


async def say(
    node: Node, session: str, key: str, *, until_s: float = 0.0
) -> tuple[int, str, float]:
    """Write; again until it is answered or time is up. Return status, text and seconds."""
    began_s = anyio.current_time()
    async with httpx2.AsyncClient(base_url=node.url, timeout=60) as client:
        while True:
            told = await client.post(
                f"/api/v1/sessions/{session}/messages",
                json={"content": f"message {key}"},
                headers={"Idempotency-Key": key},
            )
            took_s = anyio.current_time() - began_s
            if told.is_success or took_s >= until_s:
                found = told.json()
                return told.status_code, str(found.get("content", found.get("detail"))), took_s
            await anyio.sleep(0.1)


async def begin(node: Node) -> str:
    """Begin a conversation; return its session."""
    async with httpx2.AsyncClient(base_url=node.url, timeout=60) as client:
        told = await client.post("/api/v1/sessions", json={"agent": "helper"})
        assert told.is_success, told.text
        return str(told.json()["id"])


async def kill_home(world: World, *, is_shared: bool) -> None:
    """Kill the node that has an agent's folder, and print what people and operators see."""
    nodes = {name: node for name, node in world.nodes.items() if isinstance(node, Cased)}
    for node in nodes.values():
        await node.start()
    seat = "SELECT node FROM everturn.lease WHERE name = 'agent:helper' AND until > now()"
    name = ""
    with anyio.fail_after(WAIT_S):
        while not name:
            await anyio.sleep(0.5)
            name = await anyio.to_thread.run_sync(world.server.psql, seat)
    home = nodes[name]
    other = next(node for node in nodes.values() if node is not home)
    session = await begin(other)
    print(f"home: {home.name}; said at {other.name}:", await say(other, session, "one"))
    await home.end(signal.SIGKILL)
    if is_shared:
        print("said after the kill:", await say(other, session, "two", until_s=30))
    else:
        print("said after the kill:", await say(other, session, "two"))
        for words in (["nodes"], ["seat", "list"], ["seat", "move", "agent:helper", other.name]):
            print(f"$ everturn {' '.join(words)}\n{other.command(*words)}")
        moved = other.command("seat", "move", "agent:helper", other.name, "--yes")
        print(f"the same with --yes\n{moved}")
        print("said again:", await say(other, session, "two", until_s=30))
    await home.start()
    await anyio.sleep(SETTLED_S)
    for key in ("three", "four"):
        print(f"said at {home.name}, which is back:", await say(home, session, key))
    print(f"$ everturn nodes\n{other.command('nodes')}")
    keys = """SELECT convert_from(line, 'UTF8')::json ->> 'idempotency_key' FROM everturn.event
        WHERE convert_from(line, 'UTF8')::json ->> 'type' = 'received' ORDER BY seq"""
    print("in the log:", (await anyio.to_thread.run_sync(world.server.psql, keys)).split())


async def talk_while(world: World, happens: Callable[[Talk], Awaitable[None]]) -> None:
    """Let people write while something happens; print what the logs say of it."""
    talk = Talk(world=world, chance=random.Random(7))  # noqa: S311 - the same each time
    talk.on_unanswered = partial(tell, world, talk)
    is_over = anyio.Event()

    async def person(number: int) -> None:
        session = 0
        while not is_over.is_set():
            session += 1
            await talk.converse(number * 100_000 + session, MESSAGES)

    async with anyio.create_task_group() as tasks:
        for number in range(PEOPLE):
            tasks.start_soon(person, number)
        await happens(talk)
        is_over.set()
    found = await audit(talk)
    took = sorted(each.took_s for each in talk.told)
    print(f"{found.turns} turns in {found.sessions} sessions, {len(found.faults)} wrong;"
          f" p50 {took[len(took) // 2]:.2f} s, worst {took[-1]:.1f} s; {talk.errors}")  # fmt: skip
    for fault in found.faults[:5]:
        print("FAULT", fault)
    for name, node in world.nodes.items():
        lines = (node.folder / "serve.log").read_text().splitlines()
        seen = {
            line.partition(" ")[2] for line in lines if " WARNING " in line or " ERROR " in line
        }
        for line in sorted(seen)[:8]:
            print(f"  {name}: {line[:200]}")


async def skew(world: World) -> None:
    """Let clocks differ by two hours, and jump while turns run."""
    files = {name: node.folder / "clock" for name, node in world.nodes.items()}
    library = world.nodes["a"].folder / "clock.so"
    await anyio.run_process(["cc", "-O2", "-shared", "-fPIC", "-o", library, CLOCK, "-ldl"])
    for (name, node), offset in zip(world.nodes.items(), ("+3600", "-3600"), strict=True):
        assert isinstance(node, Cased)
        files[name].write_text(offset)
        node.environment = {"LD_PRELOAD": str(library), "NODE_CLOCK": str(files[name])}
        await node.start()
    await anyio.sleep(SETTLED_S)
    for name, node in world.nodes.items():
        async with httpx2.AsyncClient(base_url=node.url, timeout=60) as client:
            print(f"{name} says it is", (await client.get("/livez")).headers.get("date"))

    async def happens(talk: Talk) -> None:
        a, b = world.nodes.values()
        await talk.until_told(40)
        files["a"].write_text("-3600")  # both jump
        files["b"].write_text("+3600")
        await talk.until_told(40)
        await a.end(signal.SIGKILL)
        await talk.until_told(40)
        await a.start()
        await talk.until_told(40)
        await b.end(signal.SIGTERM)
        await b.start()

    await talk_while(world, happens)


async def mix(world: World, old: Path) -> None:
    """Put another version beside this one, and replace each by the other."""
    paths = ":".join(str(old / each) for each in ("gateway", "actors", "channels"))
    a, b = world.nodes.values()
    assert isinstance(a, Cased)
    assert isinstance(b, Cased)
    a.environment = {"PYTHONPATH": paths}
    for node in (a, b):
        await node.start()
    await anyio.sleep(SETTLED_S)

    async def happens(talk: Talk) -> None:
        await talk.until_told(40)
        for first, second in ((a, b), (b, a)):  # forward, and back
            await first.end(signal.SIGTERM)
            first.environment, second.environment = second.environment, first.environment
            await first.start()
            await talk.until_told(40)
            await second.end(signal.SIGTERM)
            await second.start()
            await talk.until_told(40)

    await talk_while(world, happens)


async def run(cases: list[str], old: Path | None) -> None:
    """Go through cases."""
    for case in cases:
        print(f"--- {case}", flush=True)
        tools = FILES if case in {"home", "shared"} else ""
        more = ", workspace_shared: true" if case == "shared" else ""
        with running_server() as server:
            async with open_two(server, tools=tools, more=more) as world:
                if case in {"home", "shared"}:
                    await kill_home(world, is_shared=case == "shared")
                elif case == "clocks":
                    await skew(world)
                elif old is not None:
                    await mix(world, old)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", default=["home", "shared", "clocks", "versions"])
    parser.add_argument("--old", type=Path, help="sources of another version")
    arguments = parser.parse_args()
    anyio.run(run, arguments.cases, arguments.old)


if __name__ == "__main__":
    main()
