"""A list on one node shows sessions that another one works on."""

from __future__ import annotations

from functools import partial

import anyio
from support.nodes import BoardOwnership, open_cluster
from support.patience import WAIT_S

from everturn_actors.model import ConversationKey, IncomingMessage
from everturn_actors.ports import NullObserver, SessionSummary
from everturn_gateway.app.other_rows import LOOK_S, show_rows_of_others
from everturn_gateway.session_changes import Changes

KEY = ConversationKey(channel="test", chat="chat", agent="test")


async def test_what_another_node_does_is_told_to_whoever_looks() -> None:
    """Each change once, with the newest words; nothing is read while nobody looks."""
    async with open_cluster("a", "b") as it, anyio.create_task_group() as tasks:
        owner = it.services["a"]
        session_id = await owner.conversations.create(KEY)
        looker = it.services[it.other(session_id)]
        await (await owner.submit(IncomingMessage(text="hello", session_id=session_id))).result()
        changes = Changes(NullObserver())
        ownership = BoardOwnership(it.board, it.other(session_id))
        tasks.start_soon(partial(show_rows_of_others, changes, looker, ownership, it.clock))
        await anyio.wait_all_tasks_blocked()
        unseen = changes.version
        with changes.looked_at(), anyio.fail_after(WAIT_S):
            await changes.wait(0)
            first = changes.since(0)
            await (await owner.submit(IncomingMessage(text="more", session_id=session_id))).result()
            await owner.conversations.label(session_id, title="Trip")
            read = await changes.overview(
                looker, session_id, SessionSummary.of(await owner.view(session_id))
            )
            await anyio.wait_all_tasks_blocked()
            it.clock.advance(LOOK_S)
            await changes.wait(1)
            second = changes.since(1)
            for _ in range(3):
                it.clock.advance(LOOK_S)
                await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    assert unseen == 0
    assert [(row.preview, row.first_words) for row in first] == [("reply 1", "hello")]
    assert (read.preview, read.title) == ("reply 2", "Trip")
    assert [(row.preview, row.title, row.turns) for row in second] == [("reply 2", "Trip", 2)]
    assert changes.version == 2, "what stays as it was is told again"
