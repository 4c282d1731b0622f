"""The way out of a session: its delivery port works while there is something to tell, no longer.

The delivery port is a double that does as a channel should, or should not; the service is real.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from msgspec import structs
from support.patience import WAIT_S
from support.stores import FileWorld, MemoryWorld, World
from support.tables import table
from support.tool_doubles import Deed, Rules

from everturn_actors.delivery.port import Outgoing
from everturn_actors.errors import (
    ActorStoppedError,
    CorruptJournalError,
    ModelTransientError,
    SessionEndedError,
    TruncatedStreamError,
)
from everturn_actors.events import ChunkMarked, DeliveryPlanned, Event, PreviewSent, TurnFinished
from everturn_actors.journal.doctor import rebuild_index
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import (
    ConversationKey,
    IncomingMessage,
    ModelRequest,
    Queueing,
    Reply,
    Upload,
)
from everturn_actors.ports import ToolOutput, Verdict
from everturn_actors.protocol.feed import TextDelta
from everturn_actors.service import ServiceSettings, Submission
from everturn_actors.session import actor as session_module
from everturn_actors.spec import SessionSpec
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    calling,
    make_spec,
    open_test_service,
)

SOON_TURNS_OF_THE_LOOP = 60
PATIENT = ServiceSettings(drain_s=60, leave_grace_s=0)
RESTING = ServiceSettings(passivate_after_s=0, drain_s=0, leave_grace_s=0)


class Post:
    """A delivery port that delivers at once, in one chunk, whatever is pending."""

    takes_files = True

    def __init__(self) -> None:
        self.calls = 0
        self.at_work = 0
        self.most_at_work = 0
        self.got: list[tuple[str, str]] = []
        "The kind and the text of all that was delivered."
        self.before: Callable[[Outgoing], Awaitable[None]] | None = None
        "What it does first."

    async def deliver(self, session: Outgoing) -> None:
        """Deliver until there is nothing left."""
        self.calls += 1
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            if self.before is not None:
                await self.before(session)
            await self._deliver(session)
        finally:
            self.at_work -= 1

    async def _deliver(self, session: Outgoing) -> None:
        while not session.is_stopping:
            state = session.state
            item = next((p for p in state.outbox if not p.is_delivered), None)
            item = item or next((p for p in state.outbox if not state.open_approvals), None)
            if item is None:
                if state.open_turn is None:
                    return
                await session.until_changed()
                continue
            first = ChunkMarked(item=item.seq, chunk=0, mark="sending")
            if item.chunks is None:
                await session.record(DeliveryPlanned(item=item.seq, chunks=("x",)), first)
                self.got.append((item.kind, item.text))
                await session.record(structs.replace(first, mark="sent", platform_id="70"))
            else:
                await session.record(structs.replace(first, mark="closed"))


class Fault:
    """What a delivery port does that fails so many times."""

    def __init__(self, times: int, error: BaseException | None = None) -> None:
        self.left = times
        self._error = error or RuntimeError("the channel has a fault")

    async def __call__(self, session: Outgoing) -> None:
        """Fail, or not any more."""
        del session
        if self.left:
            self.left -= 1
            raise self._error


async def leave_it(session: Outgoing) -> None:
    """Deliver nothing, for as long as the session lives."""
    while not session.is_stopping:
        await session.until_changed()


async def say(
    test: TestService, text: str = "hello", *, key: ConversationKey | None = None
) -> Submission:
    """Hand in a message."""
    return await test.service.submit(
        IncomingMessage(text=text, key=key or test.key(), sender="ann")
    )


async def soon() -> None:
    """Give way until nothing moves that does not wait for the clock, the model or a thread."""
    for _ in range(SOON_TURNS_OF_THE_LOOP):
        await anyio.lowlevel.checkpoint()


async def outbox(test: TestService, said: Submission) -> list[tuple[str, str]]:
    """Return the kind and the text of what a session owes, once nothing moves."""
    await soon()
    state = await test.service.view(said.session_id)
    return [(item.kind, item.text) for item in state.outbox]


def worlds(tmp_path: Path) -> dict[str, World]:
    """Return an empty disk of each kind."""
    return {"memory": MemoryWorld(), "files": FileWorld(tmp_path)}


# --- when it is called ---


async def test_what_is_said_in_a_turn_is_carried_while_it_runs() -> None:
    """A person sees the first words before the last ones are there."""
    post = Post()
    provider = ScriptedProvider(structs.replace(calling(("a", "act")), text="let me see"), "there")
    tool = Deed("act", held=True)
    async with open_test_service(
        provider=provider, tools={"act": tool}, delivery_ports={"test": post}
    ) as test:
        said = await say(test)
        await tool.until_running("a")
        await soon()
        assert post.got == [("reply", "let me see")]
        tool.let_go("a")
        await said.result()

        assert await outbox(test, said) == []
        assert post.got == [("reply", "let me see"), ("reply", "there")]
        assert (post.calls, post.at_work) == (1, 0)


async def test_the_next_turn_is_carried_too_and_one_call_at_a_time() -> None:
    """A delivery port that came back is set to work again, for its own channel alone.

    Who asks over HTTP reads the answer there.
    """
    post = Post()
    async with open_test_service(delivery_ports={"test": post}) as test:
        for n in range(3):
            said = await say(test, f"message {n}")
            await said.result()
            assert await outbox(test, said) == []
        over_http = ConversationKey(channel="http", chat="chat", agent="test")
        said = await say(test, key=over_http)
        await said.result()
        assert await outbox(test, said) == []

        assert [text for _, text in post.got] == ["reply 1", "reply 2", "reply 3"]
        assert (post.calls, post.most_at_work) == (3, 1)


@table("kind", ["memory", "files"])
async def test_what_is_owed_is_carried_after_a_restart_by_itself(tmp_path: Path, kind: str) -> None:
    """The process ended between the reply and its delivery, and nobody writes again."""
    world = worlds(tmp_path)[kind]
    lazy, post = Post(), Post()
    lazy.before = leave_it
    async with (
        world.open() as store,
        open_test_service(store=store, delivery_ports={"test": lazy}) as test,
    ):
        said = await say(test)
        await said.result()
        assert (await test.service.view(said.session_id)).is_due
    async with world.open() as store:
        assert await store.active() == (said.session_id,)
        async with open_test_service(
            store=store, delivery_ports={"test": post}, settings=RESTING
        ) as test:
            with anyio.fail_after(WAIT_S):
                while await store.active():
                    await anyio.lowlevel.checkpoint()

            assert post.got == [("reply", "reply 1")]
            assert not (await test.service.view(said.session_id)).is_due


async def test_a_session_rests_when_its_delivery_port_is_done() -> None:
    """A thousand chats that were answered must not stay in memory.

    What is sent right now has to be recorded before.
    """
    post, go = Post(), anyio.Event()

    async def wait(session: Outgoing) -> None:
        del session
        await go.wait()

    post.before = wait
    async with open_test_service(delivery_ports={"test": post}, settings=RESTING) as test:
        said = await say(test)
        await said.result()
        await soon()
        assert test.service.activity.present(said.session_id) is not None
        go.set()

        with anyio.fail_after(WAIT_S):
            await test.service._registry.gone(said.session_id)
        assert post.got == [("reply", "reply 1")]
        assert await test.store.active() == ()


# --- without a delivery port ---


async def test_a_session_whose_channel_is_gone_rests_and_keeps_what_it_owes() -> None:
    """A channel that was switched off for a day must not lose answers, nor keep actors active."""
    disk, lazy, post = MemoryDisk(), Post(), Post()
    lazy.before = leave_it
    async with open_test_service(disk=disk, delivery_ports={"test": lazy}) as test:
        said = await say(test)
        await said.result()
    async with open_test_service(disk=disk, settings=RESTING) as test:
        with anyio.fail_after(WAIT_S):
            await test.service._registry.gone(said.session_id)
        assert await outbox(test, said) == [("reply", "reply 1")]
        again = await say(test, "over http")
        await again.result()
        assert await outbox(test, said) == [("reply", "reply 1")]
        assert await test.store.active() == (said.session_id,)
    async with open_test_service(disk=disk, delivery_ports={"test": post}) as test:
        await soon()

        assert await outbox(test, said) == []
        assert post.got == [("reply", "reply 1")]


async def test_a_session_that_owes_something_does_not_expire_under_its_delivery_port() -> None:
    """The gateway was down for longer than a session lives; the answer is still pending."""
    clock, disk, lazy, post = ManualClock(), MemoryDisk(), Post(), Post()
    spec = structs.replace(make_spec(), session=SessionSpec(ttl_hours=1))
    lazy.before = leave_it
    async with open_test_service(
        disk=disk, delivery_ports={"test": lazy}, spec=spec, clock=clock
    ) as test:
        said = await say(test)
        await said.result()
    clock.advance(7200)
    async with open_test_service(
        disk=disk, delivery_ports={"test": post}, spec=spec, clock=clock
    ) as test:
        await soon()
        assert post.got == [("reply", "reply 1")]

        clock.advance(3601)
        await soon()
        assert (await test.service.view(said.session_id)).ended_reason == "expired"


async def test_a_doctor_counts_what_is_owed_as_a_reason_to_wake(tmp_path: Path) -> None:
    """The index was lost; the answer must not wait for the next message."""
    lazy = Post()
    lazy.before = leave_it
    async with open_file_store(tmp_path) as store:
        async with open_test_service(store=store, delivery_ports={"test": lazy}) as test:
            said = await say(test)
            await said.result()
        await store.mark_passive(said.session_id)
        report = await rebuild_index(store)

        assert report.active == 1
        assert await store.active() == (said.session_id,)


# --- delivery ports that fail ---


async def test_a_delivery_port_that_fails_is_begun_anew_later_and_later() -> None:
    """A boundary: the session goes on, and a platform that is down is not hammered."""
    clock, post = ManualClock(), Post()
    post.before = Fault(3)
    async with open_test_service(clock=clock, delivery_ports={"test": post}) as test:
        said = await say(test)
        assert (await said.result()).outcome == "answered"
        assert await outbox(test, said) == [("reply", "reply 1")]
        calls = [post.calls]
        for delay_s in (1, 1, 2, 2):
            clock.advance(delay_s - 0.5)
            await soon()
            calls.append(post.calls)
            clock.advance(0.5)
            await soon()
            calls.append(post.calls)

        assert calls[0] >= 1
        assert await outbox(test, said) == []
        assert post.got == [("reply", "reply 1")]


async def test_a_new_message_does_not_wait_for_the_end_of_the_pause() -> None:
    """A minute of silence after a fault that is over would look like a dead bot."""
    clock, post = ManualClock(), Post()
    post.before = Fault(2)
    async with open_test_service(clock=clock, delivery_ports={"test": post}) as test:
        said = await say(test)
        await said.result()
        await soon()
        again = await say(test, "are you there?")
        await again.result()

        assert await outbox(test, again) == []
        assert [text for _, text in post.got] == ["reply 1", "reply 2"]


async def test_a_delivery_port_that_comes_back_too_early_does_not_spin() -> None:
    """A loop without a pause takes the whole machine."""
    clock, post = ManualClock(), Post()

    class Idle:
        takes_files = True

        async def deliver(self, session: Outgoing) -> None:
            post.calls += 1
            del session

    async with open_test_service(clock=clock, delivery_ports={"test": Idle()}) as test:
        said = await say(test)
        await said.result()
        await soon()
        calls = post.calls
        await soon()
        assert post.calls == calls
        clock.advance(60)
        await soon()

        assert post.calls == calls + 1


async def test_work_of_a_delivery_port_that_is_called_off_from_inside_is_a_failure_like_any_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A library that cancels its own future must not end the deliveries unnoticed."""
    clock, post = ManualClock(), Post()
    post.before = Fault(1, anyio.get_cancelled_exc_class()())
    async with open_test_service(clock=clock, delivery_ports={"test": post}) as test:
        said = await say(test)
        await said.result()
        await soon()
        clock.advance(1)

        assert await outbox(test, said) == []
        assert "begun anew" in caplog.text


# --- what a delivery port may tell ---


async def test_what_cannot_have_happened_is_refused_and_harms_nobody() -> None:
    """A fault of one channel must not end the turn, nor be written into the log."""
    post = Post()
    told: list[Exception] = []

    async def tell_lies(session: Outgoing) -> None:
        for body in (
            ChunkMarked(item=99, chunk=0, mark="sending"),
            PreviewSent(turn=7, step=1, platform_id="70"),
            TurnFinished(turn=9, outcome="answered"),
        ):
            try:
                await session.record(PreviewSent(turn=1, step=1, platform_id="70"), body)
            except CorruptJournalError as error:
                told.append(error)

    post.before = tell_lies
    async with open_test_service(delivery_ports={"test": post}) as test:
        test.provider.hold()
        said = await say(test)
        await test.provider.until_called()
        await soon()
        assert len(told) == 3
        state = await test.service.view(said.session_id)
        assert state.open_turn is not None
        assert state.open_turn.preview_id == ""
        test.provider.release()

        assert (await said.result()).text == "reply 1"
        assert len(test.provider.requests) == 1


async def test_a_preview_that_the_platform_confirms_after_the_reply_is_kept() -> None:
    """Otherwise the same text stands there twice."""
    post, go = Post(), anyio.Event()
    previews: list[str] = []

    async def preview(session: Outgoing) -> None:
        await go.wait()
        await session.record(PreviewSent(turn=1, step=1, platform_id="70"))
        previews.extend(item.preview for item in session.state.outbox)

    post.before = preview
    async with open_test_service(delivery_ports={"test": post}) as test:
        said = await say(test)
        await said.result()
        go.set()

        assert await outbox(test, said) == []
        assert previews == ["70"]


async def test_a_delivery_port_that_tells_after_a_reset_learns_that_the_session_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What it was about to send is not wanted any more; that is no fault to report."""
    post, go = Post(), anyio.Event()
    told: list[Exception] = []

    async def late(session: Outgoing) -> None:
        await go.wait()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.record, DeliveryPlanned(item=5, chunks=()))
        except* SessionEndedError as errors:
            told.extend(errors.exceptions)
            raise

    post.before = late
    with caplog.at_level(logging.WARNING):
        async with open_test_service(delivery_ports={"test": post}, settings=RESTING) as test:
            said = await say(test)
            await said.result()
            await test.service.reset(said.session_id)
            go.set()
            with anyio.fail_after(WAIT_S):
                await test.service._registry.gone(said.session_id)

    assert [type(error) for error in told] == [SessionEndedError]
    assert caplog.text == ""


@table("fails", [False, True], ids=["hangs", "failed and is in its pause"])
async def test_a_session_that_is_deleted_does_not_wait_for_its_delivery_port(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """A platform that answers nothing must not keep anybody from forgetting a conversation."""
    monkeypatch.setattr(session_module, "CARRY_ON_S", 0.01)
    post, gone = Post(), anyio.Event()

    async def hang(session: Outgoing) -> None:
        del session
        try:
            await anyio.sleep_forever()
        finally:
            gone.set()

    post.before = Fault(1000) if fails else hang
    async with open_test_service(delivery_ports={"test": post}) as test:
        said = await say(test)
        await said.result()
        await soon()
        with anyio.fail_after(WAIT_S):
            await test.service.delete(said.session_id)

        assert gone.is_set() is not fails
        assert await test.service.reader.sessions() == ()
        assert post.at_work == 0


# --- the stop ---


async def stopped_at_once(
    post: Post, act: Callable[[TestService], Awaitable[None]], **rest: object
) -> None:
    """Open a service that would wait for a minute, act, and see that its stop does not."""
    with anyio.fail_after(WAIT_S):
        async with open_test_service(
            delivery_ports={"test": post},
            settings=PATIENT,
            **rest,  # type: ignore[arg-type]
        ) as test:
            await act(test)


@table("fails", [False, True], ids=["only waits", "failed and is in its pause"])
async def test_a_stop_does_not_wait_for_a_delivery_port(*, fails: bool) -> None:
    """Whoever restarts the gateway must not wait for all of its patience."""
    post = Post()
    post.before = Fault(1000) if fails else leave_it

    async def act(test: TestService) -> None:
        await (await say(test)).result()
        await soon()

    await stopped_at_once(post, act)
    assert (post.got, post.at_work) == ([], 0)
    assert fails or post.calls == 1


async def test_a_stop_does_not_wait_for_a_delivery_port_that_reads_a_turn_that_waits_itself() -> (
    None
):
    """The turn waits for a person, and goes on at the next start."""
    post = Post()
    updates: list[object] = []

    async def read(session: Outgoing) -> None:
        async with aclosing(session.updates()) as came:
            updates.extend([update async for update in came])

    post.before = read

    async def act(test: TestService) -> None:
        said = await say(test)
        async with aclosing(test.service.watch(said.session_id, after=0)) as came:
            async for update in came:
                if isinstance(update, Event) and type(update.body).__name__ == "ApprovalAsked":
                    break
        await soon()

    await stopped_at_once(
        post,
        act,
        provider=ScriptedProvider(calling(("a", "act"))),
        tools={"act": Deed("act")},
        gate=Rules({"act": Verdict(effect="ask", timeout_s=600)}),
    )
    assert post.at_work == 0
    assert updates


async def test_a_stop_does_not_wait_for_the_end_of_a_burst() -> None:
    """What was written goes on at the next start, at once."""
    disk, post = MemoryDisk(), Post()

    async def act(test: TestService) -> None:
        held = IncomingMessage(text="one", key=test.key(), queueing=Queueing(debounce_s=60))
        await test.service.submit(held)

    await stopped_at_once(post, act, disk=disk)
    async with open_test_service(disk=disk, delivery_ports={"test": post}) as test:
        await test.provider.until_called()
        await soon()

        assert post.got == [("reply", "reply 1")]


async def test_a_running_turn_is_carried_to_its_end_before_a_stop() -> None:
    """GW-11: it finishes; what is not sent then is sent after the start."""
    disk, post, later = MemoryDisk(), Post(), Post()
    provider = ScriptedProvider()
    with anyio.fail_after(WAIT_S):
        async with (
            anyio.create_task_group() as tasks,
            open_test_service(
                disk=disk, provider=provider, delivery_ports={"test": post}, settings=PATIENT
            ) as test,
        ):
            provider.hold()
            said = await say(test)
            await provider.until_called()

            async def end_it() -> None:
                await soon()
                provider.release()

            tasks.start_soon(end_it)
    async with open_test_service(disk=disk, delivery_ports={"test": later}) as test:
        assert await outbox(test, said) == []

    assert [*post.got, *later.got] == [("reply", "reply 1")]


async def test_a_delivery_port_that_tells_when_its_actor_is_gone_is_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A stop cuts off what takes too long; the next start knows what was under way."""
    post, told = Post(), list[Exception]()

    async def late(session: Outgoing) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            try:
                await session.record(DeliveryPlanned(item=5, chunks=()))
            except ActorStoppedError as error:
                told.append(error)

    post.before = late
    with caplog.at_level(logging.ERROR):
        async with open_test_service(delivery_ports={"test": post}) as test:
            await (await say(test)).result()

    assert len(told) == 1
    assert isinstance(told[0], ActorStoppedError)
    assert caplog.text == ""


# --- what is pending, by a real turn ---


async def test_files_of_a_tool_are_owed_and_can_be_read() -> None:
    """Their bytes are on the disk before the event that names them."""
    post = Post()
    read: list[bytes | None] = []

    async def look(session: Outgoing) -> None:
        while not any(item.kind == "file" for item in session.state.outbox):
            await session.until_changed()
        for item in session.state.outbox:
            read.extend([await session.read_file(each.name) for each in item.attachments])
        read.append(await session.read_file("0" * 64 + ".png"))

    post.before = look
    file = Upload(data=b"%PDF-1.7", media_type="application/pdf", file_name="plan.pdf")
    tool = Deed("draw", gives=lambda call: ToolOutput(text=f"{call.call_id}: sent", files=(file,)))
    provider = ScriptedProvider(calling(("a", "draw")), "there you are")
    async with open_test_service(
        provider=provider, tools={"draw": tool}, delivery_ports={"test": post}
    ) as test:
        said = await say(test)
        assert (await said.result()).text == "there you are"
        with anyio.fail_after(WAIT_S):
            while await outbox(test, said):
                await anyio.lowlevel.checkpoint()

        assert read == [b"%PDF-1.7", None]
        assert post.got == [("file", ""), ("reply", "there you are")]


async def test_a_question_is_owed_and_closed_when_it_is_answered() -> None:
    """Also one whose turn goes on meanwhile."""
    post = Post()
    provider = ScriptedProvider(calling(("a", "act")), "done")
    async with open_test_service(
        provider=provider,
        tools={"act": Deed("act")},
        gate=Rules({"act": Verdict(effect="ask", reason="it acts", timeout_s=600)}),
        delivery_ports={"test": post},
    ) as test:
        said = await say(test)
        with anyio.fail_after(WAIT_S):
            while ("approval", "it acts") not in post.got:
                await anyio.lowlevel.checkpoint()
        assert await outbox(test, said) == [("approval", "it acts")]
        await test.service.decide(said.session_id, "a", "allow_once", by="ann")
        assert (await said.result()).text == "done"

        assert await outbox(test, said) == []
        assert post.got == [("approval", "it acts"), ("reply", "done")]


async def test_a_turn_that_failed_is_told_and_one_that_was_cancelled_is_not() -> None:
    """Silence after a failure would leave the person waiting."""
    clock, post = ManualClock(), Post()
    provider = ScriptedProvider(RuntimeWarning("x"), "fine")
    provider.script[0] = ModelTransientError("down", retry_after_s=100_000)
    async with open_test_service(
        provider=provider, clock=clock, delivery_ports={"test": post}
    ) as test:
        said = await say(test)
        assert (await said.result()).outcome == "failed"
        assert await outbox(test, said) == []
        provider.hold()
        again = await say(test)
        await provider.until_called(2)
        await test.service.cancel(again.session_id)
        provider.release()

        assert await outbox(test, again) == []
        assert [kind for kind, _ in post.got] == ["end"]


class Breaking(ScriptedProvider):
    """A model whose first reply breaks off after a few words, once somebody has read them."""

    def __init__(self) -> None:
        super().__init__()
        self.was_read = anyio.Event()

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        if self.requests:
            return await super().complete(request, on_text)
        self.requests.append(request)
        on_text("half a ")
        await self.was_read.wait()
        raise TruncatedStreamError


async def test_a_reply_that_breaks_off_is_tried_again_though_a_channel_has_shown_of_it() -> None:
    """A preview can be changed; what was said over HTTP cannot be unsaid."""
    clock, post, provider = ManualClock(), Post(), Breaking()
    shown: list[TextDelta] = []

    async def show(session: Outgoing) -> None:
        async with aclosing(session.updates()) as updates:
            async for update in updates:
                if isinstance(update, TextDelta):
                    shown.append(update)
                    provider.was_read.set()
                elif isinstance(update.body, TurnFinished):
                    return

    post.before = show
    async with open_test_service(
        provider=provider, clock=clock, delivery_ports={"test": post}
    ) as test:
        said = await say(test)
        await clock.until_sleeping(2)
        clock.advance(2)
        result = await said.result()

        assert (result.outcome, result.text) == ("answered", "reply 2")
        assert await outbox(test, said) == []
        assert [delta.offset for delta in shown][:2] == [0, 0]
