"""What cannot be taken now stays with its platform, in its order, and is taken once it can be."""

from __future__ import annotations

import errno
from pathlib import Path

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from support.feeding_adapter import Fed, FeedingAdapter, a_file, feeding

from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import IncomingMessage
from everturn_actors.protocol.mailbox import MAILBOX_LIMIT
from everturn_channels.adapter import Message
from everturn_channels.errors import NotNowError
from everturn_channels.inbound.running_channel import Limits
from everturn_channels.texts import not_kept, not_yet_kept

IMPATIENT = Limits(take_s=0.02)


async def _texts(fed: Fed, chat: str = "7") -> list[str]:
    state = await fed.state(chat)
    assert state is not None
    return [user.text for turn in state.held_turns for user in turn.heard]


async def _not_now(fed: Fed, message: Message) -> NotNowError:
    """Hand in a message that cannot be taken now."""
    with pytest.raises(NotNowError) as caught:
        await fed.adapter.feed(message)
    return caught.value


async def _taken(fed: Fed, message: Message) -> None:
    """Hand a message in until it is taken, as its platform does: a busy machine may be slow."""
    while True:
        try:
            return await fed.adapter.feed(message)
        except NotNowError:
            fed.clock.advance(60)


async def test_a_disk_that_hangs_loses_nothing_and_its_sender_is_told_once(tmp_path: Path) -> None:
    """A message that was confirmed then is gone, or answered though it was called lost."""
    folder = tmp_path / "loses"
    folder.mkdir()
    disk = MemoryDisk()
    async with feeding(folder, disk=disk, limits=IMPATIENT) as fed:
        message = fed.message("keep me")
        disk.stalled = anyio.Event()
        await _not_now(fed, message)
        fed.clock.advance(60)
        await _not_now(fed, message)
        told = await fed.until_said()
        disk.stalled.set()
        await _taken(fed, message)
        await fed.until_idle()

        assert await _texts(fed) == ["keep me"]
        assert told == [not_yet_kept()]
        assert not_kept() not in fed.adapter.world.texts

    # Each try of the same message is no news.
    folder = tmp_path / "told"
    folder.mkdir()
    disk = MemoryDisk()
    async with feeding(folder, disk=disk, limits=IMPATIENT) as fed:
        message = fed.message("keep me")
        disk.stalled = anyio.Event()
        for _ in range(5):
            await _not_now(fed, message)
            fed.clock.advance(60)
        disk.stalled.set()
        await _taken(fed, message)
        await fed.until_idle()
        await fed.adapter.until(lambda: bool(fed.adapter.world.texts))

        assert fed.adapter.world.texts.count(not_yet_kept()) == 1


async def test_tries_are_further_and_further_apart_and_a_lane_is_shown_as_blocked(
    tmp_path: Path,
) -> None:
    """Whoever looks after the gateway sees which chat is deaf, and why."""
    disk = MemoryDisk()
    async with feeding(tmp_path, disk=disk) as fed:
        message, pauses_s = fed.message("keep me"), list[float]()
        for _ in range(7):
            disk.fail_append(errno.ENOSPC)
            pauses_s.append((await _not_now(fed, message)).retry_after_s)
            fed.clock.advance(pauses_s[-1])
        (lane,) = fed.health.status().blocked
        await fed.adapter.feed(message)
        after = fed.health.status().blocked

        assert pauses_s == [1, 2, 5, 15, 30, 60, 60]
        assert (lane.chat, lane.tries) == ("7", 7)
        assert "disk is full" in lane.why
        assert after == ()


async def test_what_is_over_in_a_moment_costs_no_message(tmp_path: Path) -> None:
    """What nobody foresaw, and those who waited before it."""
    # What nobody foresaw may be over in a moment.
    folder = tmp_path / "fault"
    folder.mkdir()
    faults = iter([ZeroDivisionError("a bug")])

    async def save_file(_agent: str, _name: str, _data: bytes) -> str | None:
        for fault in faults:
            raise fault
        return None

    async with feeding(folder, adapter=FeedingAdapter(), save_file=save_file) as fed:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                fed.adapter.feed, fed.message("read this", files=(a_file(b"\0\1", "x.bin"),))
            )
            await fed.clock.until_sleeping(1)
            fed.clock.advance(1)
        await fed.until_idle()

        assert len(await _texts(fed)) == 1
        assert fed.adapter.world.texts == []

    # Those who waited before it are dealt with in a moment; the platform keeps it so long.
    folder = tmp_path / "full"
    folder.mkdir()
    disk = MemoryDisk()
    async with feeding(folder, disk=disk) as fed:
        await fed.say("begin")
        await fed.until_idle()
        disk.stalled = anyio.Event()
        async with anyio.create_task_group() as tasks:
            for number in range(MAILBOX_LIMIT + 1):
                asked = IncomingMessage(text=f"by others {number}", key=fed.key())
                tasks.start_soon(fed.service.submit, asked)
                await wait_all_tasks_blocked()
            error = await _not_now(fed, message := fed.message("one more"))
            disk.stalled.set()
        await fed.adapter.feed(message)
        await fed.until_idle(turns=3)

        assert "too many" in str(error)
        assert (await _texts(fed))[-1] == "one more"
        assert fed.adapter.world.texts == []
