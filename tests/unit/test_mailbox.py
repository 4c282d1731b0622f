"""The bounded inbox of an actor."""

from __future__ import annotations

import anyio
import pytest
from support.tables import table

from everturn_actors.errors import ActorStoppedError, MailboxFullError
from everturn_actors.protocol.commands import ClientDisconnected
from everturn_actors.protocol.mailbox import Envelope, Mailbox, ReplySlot


def said(number: int) -> ClientDisconnected:
    """Return a command that can be told from others by its number."""
    return ClientDisconnected(number)


def numbers(taken: list[Envelope] | None) -> list[int] | None:
    """Return which commands were taken."""
    if taken is None:
        return None
    return [each.command.seq for each in taken if isinstance(each.command, ClientDisconnected)]


async def test_take_returns_what_waits_or_what_it_waited_for() -> None:
    """An idle actor misses nothing, and rests where nothing comes."""
    # Take returns all that waits in order. A burst is handled in one append, so it has to arrive as
    # one batch.
    mailbox = Mailbox()
    for number in (1, 2, 3):
        mailbox.put(said(number))

    assert numbers(await mailbox.take(None)) == [1, 2, 3]
    assert mailbox.is_empty

    # Take wakes for what arrives later. An idle actor must not miss the message that ends its
    # idleness.
    mailbox = Mailbox()
    taken: list[list[int] | None] = []

    async def take() -> None:
        taken.append(numbers(await mailbox.take(None)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        mailbox.put(said(7))

    assert taken == [[7]]

    # Take gives up after its timeout. An actor goes to rest only because this returns None.
    assert await Mailbox().take(0) is None

    # Take returns without a command where something else has changed. What ran beside an actor has
    # ended: it looks again how long it has to wait.
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        mailbox.nudge()

    assert taken == [[7], []]
    assert await mailbox.take(0) is None


@table(("timeout_s", "taken_at_once"), [(None, [[]]), (3_600, [])])
async def test_the_end_of_work_wakes_only_an_actor_that_waits_for_it(
    timeout_s: float | None, taken_at_once: list[list[int]]
) -> None:
    """One that rests after so long without a command knows already that nothing works."""
    mailbox = Mailbox()
    taken: list[list[int] | None] = []

    async def take() -> None:
        taken.append(numbers(await mailbox.take(timeout_s)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        mailbox.work_ended()
        await anyio.wait_all_tasks_blocked()
        at_once = [*taken]
        mailbox.put(said(1))

    assert at_once == taken_at_once
    assert taken == (taken_at_once or [[1]])


def test_who_may_put_what_and_where_it_stands() -> None:
    """Commands keep their place, and a turn is never kept from its end."""
    # What was put back is taken first. Commands that have to be planned again keep their place
    # before those that came later.
    mailbox = Mailbox()
    mailbox.put(said(1))
    mailbox.put(said(2))
    taken = mailbox.drain()
    mailbox.put(said(3))
    mailbox.put_back(taken)

    assert numbers(mailbox.drain()) == [1, 2, 3]

    # A full mailbox refuses the caller and not the turn. A flood must not keep the running turn
    # from recording its end.
    mailbox = Mailbox(limit=2)
    mailbox.put(said(1))
    mailbox.put(said(2))

    with pytest.raises(MailboxFullError):
        mailbox.put(said(3))
    mailbox.put(said(4), own=True)
    assert numbers(mailbox.close()) == [1, 2, 4]

    # A refusing mailbox still takes its owner. A stopping actor lets its turn finish, and accepts
    # nothing new.
    mailbox = Mailbox()
    mailbox.refuse(ActorStoppedError())

    with pytest.raises(ActorStoppedError):
        mailbox.put(said(1))
    mailbox.put(said(2), own=True)
    assert numbers(mailbox.close()) == [2]
    with pytest.raises(ActorStoppedError):
        mailbox.put(said(3), own=True)


async def test_an_answer_is_given_once() -> None:
    """Or a failure, and never nothing."""
    # A caller that was told that its message is durable must not hear a refusal later.
    answer = ReplySlot[str]()
    answer.give("yes")
    answer.fail(ActorStoppedError())

    assert await answer.wait() == "yes"

    # A failed answer raises for the caller. No caller may hang, and none may take a failure for an
    # answer.
    answer = ReplySlot[str]()
    answer.fail(MailboxFullError())

    with pytest.raises(MailboxFullError):
        await answer.wait()
