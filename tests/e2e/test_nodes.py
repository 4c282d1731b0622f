"""Several gateways on one database: whatever happens to one of them, nobody who writes notices."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import anyio
from support.answers import Answer
from support.database import needs_database, running_server
from support.lines import Line, open_line
from support.model_api import ModelApi, Received, open_model_api
from support.node_world import Places, Talk, World, audit, open_world, talking
from support.ports import free_port

pytestmark = needs_database

PEOPLE = 6
CUT_OFF = 3  # times that a node is, in the midst of its calls: from its database, frozen, killed
MODEL_S = 0.1
FROZEN_S = 6.5  # longer than a lease
APART_S = 1.0


def reply(request: Received) -> Answer:
    """Answer with what was said last."""
    said = request.json()["messages"][-1]["content"]
    return Answer(text=f"you said {said}", delay_s=MODEL_S)


async def trouble(world: World, talk: Talk, database: Line, link: Line) -> None:
    """Part a node from the database and the other one; freeze one, stop one in order, kill one."""
    a, b = world.nodes.values()
    await talk.until_told(10)
    database.set("deaf")
    await database.until_dropped()  # what was done, and not heard of
    database.set("cut")
    await talk.until_told(2)
    database.set("open")
    await talk.until_told(10)
    link.set("cut")
    await anyio.sleep(APART_S)
    link.set("open")
    await talk.until_told(20)
    b.send(signal.SIGSTOP)
    await anyio.sleep(FROZEN_S)
    b.send(signal.SIGCONT)
    await talk.until_told(20)
    assert await a.end(signal.SIGTERM) == 0
    await talk.until_told(20)
    await a.start()
    await talk.until_told(20)
    await b.end(signal.SIGKILL)
    await talk.until_told(20)
    talk.is_over = True


async def play(folder: Path, api: ModelApi) -> int:
    """Let people write while nodes come and go; hold what they were told against the logs.

    Returns:
        How many messages were answered.
    """
    with running_server() as server:
        async with (
            open_line(server.port) as database,
            open_line(free_port()) as link,
            open_world(
                folder,
                server,
                api.url,
                "a",
                "b",
                places={
                    "a": Places(
                        database=server.url().replace(str(server.port), str(database.port)),
                        listen=f"127.0.0.1:{link.target}",
                        advertise=f"127.0.0.1:{link.port}",
                    )
                },
            ) as world,
        ):
            talk = Talk(world=world, chance=random.Random(7))  # noqa: S311 - the same each time
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(talking, talk, tasks, PEOPLE, None)
                tasks.start_soon(trouble, world, talk, database, link)
            found = await audit(talk)
    assert found.faults == ()
    assert found.sessions == PEOPLE
    return found.turns


async def test_no_node_that_dies_freezes_or_is_cut_off_loses_or_doubles_a_turn(
    tmp_path: Path,
) -> None:
    """A call of the model may be made twice where its node dies; an answer is given once."""
    async with open_model_api(default=reply) as api:
        answered = await play(tmp_path, api)
        assert api.count <= answered + CUT_OFF * PEOPLE
