"""GW-02, R15: a turn that says many things, and a process that ends at every single point of it.

The points are each write to the journal, in the middle of it and after it, and each call of the
platform, before and after the platform did its part. A second process then brings everything to
its end, and what people see is compared with what they should: nothing lost, nothing out of order,
nothing twice but what may have been lost, and that labelled.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from secrets import token_bytes

import anyio
from support.crashing import CrashingStore, Moment
from support.delivering import Delivering, delivering, idle, pass_doubt
from support.scripted_adapter import Platform, ScriptedAdapter, capabilities
from support.tables import table
from support.tool_doubles import Deed, by_name

from everturn_actors.errors import CoreError
from everturn_actors.events import ModelReplied
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import ModelRequest, Reply, ToolCall, Upload, UserMessage
from everturn_actors.ports import ToolCapabilities, ToolOutput
from everturn_actors.testing import ManualClock, ScriptedProvider
from everturn_channels.errors import NotSentError
from everturn_channels.settings import ChannelSettings
from everturn_gateway.retention.scrubbing import Person, Scrubbing, Traces

FILE = Upload(data=b"hello", media_type="text/plain", file_name="a.txt")
SAYS = "let me see what there is to be seen here"
IMAGE = b"\x89PNG\r\n\x1a\n"
LONG = "a" * 100 + "b" * 100 + "c" * 10
EXPECTED = [SAYS, "<a.txt>", "a" * 100, "b" * 100, "c" * 10, "<image-1.png>"]
PREVIEWS = "~"
"What a payload that is not formatted begins with: here, only previews are not."


class Planned(ScriptedProvider):
    """A model that says the same at the same place, whichever process asks it."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    async def complete(self, request: ModelRequest, on_text: object) -> Reply:
        """Answer by how much was said already."""
        assert callable(on_text)
        self.requests.append(request)
        done = sum(isinstance(message, Reply) for message in request.messages)
        text = LONG if done else SAYS
        on_text(text[:50])
        self._clock.advance(1)
        await idle()  # in which a preview can be shown
        if not done:
            return Reply(text=text, calls=(ToolCall(call_id="c", name="send"),))
        # No model makes the same image again.
        image = Upload(data=IMAGE + token_bytes(8), media_type="image/png", file_name="image-1.png")
        return Reply(text=text, images=(image,))


@dataclass
class Life:
    """What outlives the process."""

    platform: Platform
    streams: bool
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    sends: Deed = field(
        default_factory=lambda: Deed(
            "send",
            capabilities=ToolCapabilities(repeatable=True),
            gives=lambda _: ToolOutput(text="ok", files=(FILE,)),
        )
    )

    @asynccontextmanager
    async def process(
        self, *, ends_at: tuple[str, int] | None = None
    ) -> AsyncGenerator[tuple[Delivering, CrashingStore]]:
        """Run a process that ends before or after a write or a call, if `ends_at` says so.

        Args:
            ends_at: `call before`, `call after`, `write half` or `write after`,
                and which of them, counted from 1.
        """
        kind, number = ends_at or ("", 0)
        clock = ManualClock()
        what, _, when = kind.partition(" ")
        adapter = ScriptedAdapter(
            self.platform, able=capabilities(preview_s=1 if self.streams else 0)
        )
        async with open_memory_store(self.disk) as inner:
            store = CrashingStore(inner)
            if what == "write":
                moments: dict[str, Moment] = {"half": "half", "after": "after"}
                store.at = (number, moments[when])

            def on_call(_: str, moment: str) -> None:
                if store.ended.is_set() or (
                    what == "call" and moment == when and len(adapter.calls) == number
                ):
                    store.end()
                    raise ProcessEnded

            adapter.on_call = on_call
            async with delivering(
                provider=Planned(clock),
                clock=clock,
                adapter=adapter,
                store=store,
                tools=by_name(self.sends),
                settings=ChannelSettings(streaming=self.streams),
            ) as test:
                yield test, store


class ProcessEnded(CoreError):  # noqa: N818 - it is the end, no error
    """Nothing happens any more."""


async def live(life: Life, ends_at: tuple[str, int] | None) -> tuple[list[str], int]:
    """Live until all is said, or until the process ends; return the writes, and how many calls."""
    async with life.process(ends_at=ends_at) as (test, store):
        async with anyio.create_task_group() as tasks:

            async def work() -> None:
                try:
                    said = await test.say(key="1")
                    await test.until_delivered(said.session_id)
                except CoreError:
                    assert store.ended.is_set(), "nothing ended, and yet it failed"
                tasks.cancel_scope.cancel()

            tasks.start_soon(work)
            await store.ended.wait()
            tasks.cancel_scope.cancel()
        return store.writes, len(test.adapter.calls)


def check(platform: Platform, *, where: str) -> int:
    """Check what people see; return how often something was said twice."""
    final = [text for text in platform.texts if not text.startswith(PREVIEWS)]
    left_over = [text for text in platform.texts if text.startswith(PREVIEWS)]
    bare = [text.removeprefix("(again) ") for text in final]
    repeats = [text for text in final if text.startswith("(again) ")]
    assert [*dict.fromkeys(bare)] == EXPECTED, f"{where}: {final}"
    assert len(final) - len(repeats) <= len(EXPECTED), f"{where}: twice, unlabelled: {final}"
    assert len(repeats) <= 1, f"{where}: {final}"
    assert len(left_over) <= 1, f"{where}: {platform.texts}"
    for text in left_over:  # beside a part of it, the reply says that it may be a repeat
        begins = f"(again) {text.removeprefix(PREVIEWS)}"
        assert any(each.startswith(begins) for each in final), f"{where}: {platform.texts}"
    return len(repeats) + len(left_over)


async def die_and_live(kind: str, number: int, *, streams: bool, dedupes: bool) -> int:
    """Let one process end, and the next bring everything to its end."""
    life = Life(Platform(dedupes=dedupes), streams)
    await live(life, (kind, number))
    await live(life, None)
    check_images(life, where=f"{kind} {number}")
    return check(life.platform, where=f"{kind} {number}")


def check_images(life: Life, *, where: str) -> None:
    """Check that people have the one image that the log names, and what else is on the disk."""
    (session,) = life.disk.sessions.values()
    named = [
        i.name
        for e in (*session.archive, *session.log)
        if isinstance(e.body, ModelReplied)
        for i in e.body.images
    ]
    sent = {each.message.file.data for each in life.platform.messages.values() if each.message.file}
    assert len(named) == 1, where
    assert sent == {FILE.data, session.media[named[0]]}, where
    traces = Traces()
    for event in (*session.archive, *session.log):
        traces.see(event, Person("test", "somebody else"))
    keeps = Scrubbing(Person("test", "somebody else"), traces).keeps_media
    left = [name for name in session.media if keeps(name)]
    assert len(left) == 2, where  # what nobody names goes when words are erased


@table(
    ("streams", "dedupes"),
    [(True, False), (False, True), (True, True)],
    ids=["streaming, no nonces", "plain, nonces", "streaming, nonces"],
)
async def test_what_is_said_survives_the_end_of_the_process_at_every_point(
    *, streams: bool, dedupes: bool
) -> None:
    """Whatever the instant: nothing is lost, and only what may be lost is said again."""
    life = Life(Platform(dedupes=dedupes), streams)
    writes, calls = await live(life, None)
    assert check(life.platform, where="whole") == 0
    assert life.platform.texts == EXPECTED
    was_shown = [shown.states[0] for shown in life.platform.messages.values()]
    assert [text[0] == PREVIEWS for text in was_shown] == [streams, False, streams, *[False] * 3]

    twice: dict[str, int] = {}
    points = [(f"call {when}", n) for when in ("before", "after") for n in range(1, calls + 1)]
    durable = [n for n, name in enumerate(writes, 1) if " " in name or name == "media"]
    points += [("write after", n) for n in durable]
    points += [("write half", n) for n, name in enumerate(writes, 1) if name.count(" ") > 1]
    for kind, number in points:
        more = await die_and_live(kind, number, streams=streams, dedupes=dedupes)
        twice[kind] = twice.get(kind, 0) + more
    if dedupes:
        assert sum(twice.values()) == 0, twice
    else:
        assert sum(twice.values()) > 0


async def test_a_second_crash_while_it_is_set_right_repeats_nothing_that_is_known() -> None:
    """A chunk of unknown outcome is said again, and says so, once for each end of the process."""
    life = Life(Platform(), streams=False)
    _, calls = await live(life, None)

    for number in range(1, calls + 1):
        life = Life(Platform(), streams=False)
        for _ in range(3):
            await live(life, ("call after", number if not life.platform.messages else 1))
        await live(life, None)
        final = life.platform.texts
        bare = [text.removeprefix("(again) ") for text in final]
        assert [*dict.fromkeys(bare)] == EXPECTED
        assert max(bare.count(text) for text in EXPECTED) <= 1 + 3, f"{number}: {final}"
        assert max(final.count(text) for text in EXPECTED) == 1, f"{number}: {final}"


async def test_the_model_that_is_asked_again_hears_the_person_once() -> None:
    """The crash must not show in the conversation."""
    life = Life(Platform(), streams=True)
    await live(life, ("call after", 1))
    async with life.process() as (test, _):
        said = await test.say(key="1")
        await test.until_delivered(said.session_id)

        users = [m for m in test.provider.requests[-1].messages if isinstance(m, UserMessage)]
        assert len(users) == 1


async def die_in_the_edit(life: Life) -> None:
    """End the process when the first reply is put in the place of its preview."""
    await live(life, ("call before", 2))
    assert life.platform.texts == [f"{PREVIEWS}{SAYS}"]


async def test_an_edit_that_was_cut_short_is_made_again_however_often() -> None:
    """Put there twice it is there once: there is nothing to be labelled, and no end of trying."""
    life = Life(Platform(), streams=True)
    await die_in_the_edit(life)
    for _ in range(3):
        await live(life, ("call before", 1))
    await live(life, None)

    assert life.platform.texts == EXPECTED


async def test_an_edit_that_was_cut_short_and_is_refused_may_have_been_sent_anew() -> None:
    """The process may have ended after the reply was sent in place of a preview that was gone."""
    life = Life(Platform(), streams=True)
    await die_in_the_edit(life)
    life.platform.messages.clear()
    async with life.process() as (test, _):
        said = await test.say(key="1")
        await pass_doubt(test.clock)
        await test.until_delivered(said.session_id)

    assert life.platform.texts == [f"(again) {SAYS}", *EXPECTED[1:]]


async def test_a_service_that_stops_delivers_what_was_said_last_as_long_as_all_goes_well() -> None:
    """Half an answer until the next start helps nobody."""
    disk, platform = MemoryDisk(), Platform()
    adapter = ScriptedAdapter(platform)
    adapter.hold("send")

    async def release() -> None:
        await idle()
        adapter.release("send")

    async with open_memory_store(disk) as store, anyio.create_task_group() as tasks:
        async with delivering(LONG, adapter=adapter, store=store, drain_s=60) as test:
            said = await test.say()
            await said.result()
            await adapter.until(lambda: bool(adapter.calls))
            tasks.start_soon(release)

        assert platform.texts == EXPECTED[2:5]


async def test_a_service_that_stops_waits_for_no_platform() -> None:
    """An outage must not hold up a restart."""
    disk, platform = MemoryDisk(), Platform()
    adapter = ScriptedAdapter(platform)
    adapter.fail("send", NotSentError("flood", retry_after_s=1000))
    async with (
        open_memory_store(disk) as store,
        delivering(LONG, adapter=adapter, store=store, drain_s=60) as test,
    ):
        said = await test.say()
        await test.clock.until_sleeping(1000)
    async with (
        open_memory_store(disk) as store,
        delivering(adapter=ScriptedAdapter(platform), store=store) as test,
    ):
        await test.until_delivered(said.session_id)

    assert platform.texts == EXPECTED[2:5]
