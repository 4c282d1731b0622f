"""Two gateways on one database, in this process: who holds what while they come and go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import anyio
import httpx2
import pytest
from anyio import to_thread
from support.database import Server, needs_database
from support.lines import open_line
from support.patience import WAIT_S
from support.process import write_workspace

from everturn_actors.cluster.ownership import LeaseOwnership
from everturn_actors.cluster.partitions import PARTITIONS
from everturn_gateway.app import Gateway, open_gateway
from everturn_gateway.builtin.postgres import opening
from everturn_gateway.client.in_process import InProcessTransport
from everturn_gateway.config.settings import Config, load_config
from everturn_gateway.http.access.auth import THIS_PROCESS
from everturn_gateway.http.access.scopes import RULES
from everturn_gateway.http.asgi import LazyApi, create_app
from everturn_gateway.http.server import serve_http
from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.errors import UnknownJobError
from everturn_gateway.scheduler.jobs import Made

pytestmark = needs_database


def node(folder: Path, name: str, url: str, schema: str, secret: str) -> Config:
    """Return the configuration of a node."""
    (folder / name).mkdir()
    write_workspace(folder / name, "http://127.0.0.1:9")
    file = folder / name / "everturn.yaml"
    file.write_text(
        f'store: {{type: postgres, url: "{url}", schema: {schema}, connections: 2}}\n'
        f"cluster: {{node: {name}, listen: {folder / name}/link, secret: {secret}}}\n"
        "server: {port: 0}\n"
    )
    return load_config(file, environ={})


async def until(is_so: Callable[[], bool], *owners: LeaseOwnership) -> None:
    """Wait until something is so."""
    with anyio.fail_after(WAIT_S):
        while not is_so():
            for each in owners:
                with anyio.move_on_after(0.1):
                    await each.changed()


def owner_of(gateway: Gateway) -> LeaseOwnership:
    """Return what a node holds its leases by."""
    assert gateway.ownership is not None
    return gateway.ownership


@pytest.fixture
def schema() -> str:
    """Return the name of a schema of this test's own."""
    return f"t{uuid4().hex}"


@pytest.fixture
def configs(database_server: Server, tmp_path: Path, schema: str) -> list[Config]:
    """Return the configurations of two nodes, read beside the event loop."""
    secret = uuid4().hex
    return [node(tmp_path, name, database_server.url(), schema, secret) for name in ("a", "b")]


async def test_nodes_share_the_work_and_give_it_back(
    database_server: Server,
    configs: list[Config],
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each partition and each seat is one node's; who leaves in order leaves no gap of a lease."""
    order: list[str] = []
    load = LazyApi.load

    def noted(api: LazyApi) -> object:
        order.append("loads")
        return load(api)

    monkeypatch.setattr(LazyApi, "load", noted)

    @asynccontextmanager
    async def listening(gateway: Gateway) -> AsyncGenerator[None]:
        listens = anyio.Event()

        def on_ready(_url: str) -> None:
            order.append("listens")
            listens.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(serve_http, gateway, on_ready=on_ready))
            await listens.wait()
            yield
            tasks.cancel_scope.cancel()

    def held(ownership: LeaseOwnership) -> set[int]:
        return {each for each in range(PARTITIONS) if ownership.epoch(each) is not None}

    async with AsyncExitStack() as stack:
        a = owner_of(await stack.enter_async_context(open_gateway(configs[0], environ={})))
        await until(lambda: len(held(a)) == PARTITIONS, a)
        assert a.seat_holder("scheduler") == a.me
        async with open_gateway(configs[1], environ={}) as gateway, listening(gateway):
            assert order == ["loads", "listens"], "nobody waits at a node that is just started"
            b = owner_of(gateway)
            await until(lambda: len(held(a)) + len(held(b)) == PARTITIONS and bool(held(b)), a, b)
            assert not held(a) & held(b)
            assert len(held(b)) > PARTITIONS / 4
            here = next(iter(held(a)))
            await until(lambda: b.holder(here) == a.me, a, b)
            assert [each.name for each in b.nodes()] == ["a", "b"]
            assert [each.after for each in gateway.starts.newest()] == ["first"]
            assert {each.member.node.name for each in gateway.nodes()} == {"a", "b"}
            assert gateway.node_differences() == ()
            seats = [each.seat_epoch("scheduler") for each in (a, b)]
            assert sum(epoch is not None for epoch in seats) == 1
        # Given back, and not left to run out.
        left = f"SELECT count(*) FROM {schema}.lease WHERE node = 'b' AND until > now()"  # noqa: S608
        assert database_server.psql(left) == "0"
        await until(lambda: len(held(a)) == PARTITIONS, a)
    nodes = database_server.psql(f"SELECT count(*) FROM {schema}.node")  # noqa: S608 - its own
    assert nodes == "0"


async def test_any_node_shows_and_changes_jobs_that_one_of_them_runs(
    configs: list[Config],
) -> None:
    """Made at one, run at another one, and told of by both."""
    section = JobSettings.model_validate(
        {"agent": "helper", "every": "1h", "message": "hello", "to": {"webhook": "http://x.test"}}
    )
    async with (
        open_gateway(configs[0], environ={}) as first,
        open_gateway(configs[1], environ={}) as second,
    ):
        owners = [owner_of(first), owner_of(second)]
        await until(
            lambda: any(each.seat_epoch("scheduler") is not None for each in owners), *owners
        )
        other = second if owners[0].seat_epoch("scheduler") is not None else first
        one = first if other is second else second

        made = await other.schedules.add(section, job_id="greet", made=Made(by="http"))
        assert made.state in {"scheduled", "waiting"}
        assert one.schedules.job("greet").job.made.by == "http"
        await other.schedules.pause("greet")
        assert one.schedules.job("greet").state == other.schedules.job("greet").state == "paused"
        await other.schedules.resume("greet")
        await other.schedules.cancel("greet")
        assert one.schedules.ids() == other.schedules.ids() == ()
        with pytest.raises(UnknownJobError):
            await other.schedules.pause("greet")


async def test_nobody_gets_a_500_where_the_database_is_away(
    database_server: Server, tmp_path: Path, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every route of a session is asked: what cannot be read or done says soon that it passes."""
    monkeypatch.setattr(opening, "NODE_OUTAGE_S", 0.05)  # though `outage_s` is 30
    told: dict[str, tuple[int, str]] = {}
    async with open_line(database_server.port) as line:
        url = database_server.url().replace(f":{database_server.port}/", f":{line.port}/")
        make = partial(node, tmp_path, "a", url, schema, uuid4().hex)
        config = await to_thread.run_sync(make)
        async with (
            open_gateway(config, environ={}) as gateway,
            open_in_process(gateway) as client,
        ):
            owner = owner_of(gateway)
            await until(lambda: owner.epoch(0) is not None, owner)
            begun = await client.post("/api/v1/sessions", json={"agent": "helper"})
            assert begun.status_code == 201, begun.text

            async def ask(method: str, template: str, session_id: str) -> None:
                names = {"session_id": session_id, "response_id": f"resp_{session_id}_2"}
                places = defaultdict(lambda: "1", names, name="helper", topic="language")
                path = template.replace(":path", "").format_map(places)
                is_said = path.endswith(("/messages", "/stream"))
                body = {"content": "hello"} if is_said else {"agent": "helper", "model": "helper"}
                async with client.stream(method, path, json=body) as answer:
                    is_endless = answer.headers.get("content-type", "").startswith("text/event")
                    text = "" if is_endless else (await answer.aread()).decode()
                told[f"{method} {path}"] = (answer.status_code, text)

            line.set("cut")
            with anyio.fail_after(20):
                async with anyio.create_task_group() as tasks:
                    concerned = [each for each, rule in RULES.items() if rule.session]
                    for number, (method, template) in enumerate(concerned):
                        other, known = "20261121T224956123-3f9a2c1b", begun.json()["id"]
                        tasks.start_soon(ask, method, template, other if number % 2 else known)
            line.set("open")

    assert [each for each in told.items() if each[1][0] in {500, 502}] == []
    assert sum("store-away" in text for _, text in told.values()) > len(told) / 4, told


@asynccontextmanager
async def open_in_process(gateway: Gateway) -> AsyncGenerator[httpx2.AsyncClient]:
    """Open a client that everything is open to."""
    made = await to_thread.run_sync(partial(create_app, gateway, caller=THIS_PROCESS))
    async with anyio.create_task_group() as tasks:
        transport = InProcessTransport(made.app, tasks)
        async with httpx2.AsyncClient(transport=transport, base_url="http://everturn") as client:
            yield client
        tasks.cancel_scope.cancel()
