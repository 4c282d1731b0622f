"""What a link between nodes promises, over a socket, TCP and TLS; and what strangers meet there."""

from __future__ import annotations

import errno
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
import pytest
from anyio.abc import ByteStream
from msgspec import Struct, field
from support.conversations import STARTED
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.cluster.addresses import (
    Address,
    Caller,
    Tls,
    connect,
    listen,
    read_address,
)
from everturn_actors.cluster.frames import (
    FRAME_MAX_BYTES,
    GREETING_MAX_BYTES,
    SPEAKS,
    Ask,
    Challenge,
    Delete,
    Failed,
    Ping,
    Pushed,
    Text,
    Unfollow,
    Welcome,
    error_of,
    pack,
)
from everturn_actors.cluster.greeting import Identity, greet
from everturn_actors.cluster.hub import STRANGERS_MAX, Hub, Subscriber
from everturn_actors.cluster.link import Asked, Following, Given, StreamLink
from everturn_actors.cluster.wire import Beat, Wire
from everturn_actors.errors import (
    CoreError,
    InvalidInputError,
    LinkBrokenError,
    LinkRefusedError,
    MovedError,
    OwnerAwayError,
    SessionEndedError,
)
from everturn_actors.events import Event, Received
from everturn_actors.model import Labels
from everturn_actors.ports import Node
from everturn_actors.protocol.commands import Cancel, Edit, GetStatus, KnownStatus, Label
from everturn_actors.protocol.feed import TextDelta

SECRET: Final = "a secret that only nodes know"
OPENSSL: Final = shutil.which("openssl") or "openssl"
QUICK: Final = Beat(every_s=0.05, silence_s=0.8)
"For tests in which somebody says nothing any more; no other may wait for that."


class Sessions(Struct, kw_only=True):
    """Sessions of a node, as far as links see them."""

    asked: list[Asked] = field(default_factory=list[Asked])
    followers: list[tuple[bool, bool]] = field(default_factory=list[tuple[bool, bool]])
    changed: anyio.Event = field(default_factory=anyio.Event)
    go: anyio.Event = field(default_factory=anyio.Event)
    left: anyio.Event = field(default_factory=anyio.Event)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, looked at whenever something came."""
        while not is_so():
            self.changed = anyio.Event()
            await self.changed.wait()

    async def answer(self, asked: Asked) -> Given:
        """Answer by the id of the session."""
        self.asked.append(asked)
        self.changed.set()
        match asked.session_id:
            case "moved":
                raise MovedError(asked.session_id)
            case "ended":
                raise SessionEndedError(asked.session_id, "reset")
            case "fault":
                msg = "the key is sk-1"
                raise RuntimeError(msg)
            case "slow":
                await self.go.wait()
            case "large":
                return Given(answer=Labels(title="x" * FRAME_MAX_BYTES))
            case _:
                pass
        if isinstance(asked.command, GetStatus):
            return Given(answer=KnownStatus(status="active"), events=(changed(7),))
        return Given(answer=None if asked.command is None else True)

    async def serve(self, subscriber: Subscriber) -> None:
        """Push two events and a piece of text, then wait; by the id, end or fail."""
        self.followers.append((subscriber.waits, subscriber.is_final))
        if subscriber.session_id == "moved":
            raise MovedError(subscriber.session_id)
        try:
            await subscriber.push(changed(subscriber.after + 1))
            assert subscriber.offer(TextDelta(turn=1, step=1, offset=0, text="hel"))
            await subscriber.push(changed(subscriber.after + 2, "x" * 2_000_000))
            if subscriber.session_id == "ended":
                raise SessionEndedError(subscriber.session_id, "reset")
            if subscriber.session_id == "over":
                return
            await anyio.sleep_forever()
        finally:
            self.left.set()

    def followers_changed(self, subscriber: Subscriber) -> None:
        """Note it."""
        self.followers.append((subscriber.waits, subscriber.is_final))
        self.changed.set()


def changed(seq: int, text: str = "x") -> Event:
    """Return an event."""
    return Event(seq=seq, at=STARTED, body=Received(text=text))


class World(Struct, kw_only=True):
    """Two nodes, of which one has sessions."""

    sessions: Sessions
    node: Node
    link: StreamLink
    address: Address


class Way(Struct, frozen=True):
    """Over what nodes talk."""

    is_socket: bool = False
    tls: Tls | None = None


SOCKET: Final = Way(is_socket=True)
TCP: Final = Way()


WAYS: Final[dict[str, Callable[[Tls], Way]]] = {
    "socket": lambda _tls: SOCKET,
    "tcp": lambda _tls: TCP,
    "tls": lambda tls: Way(tls=tls),
}
on_each_way = table("make", WAYS.values(), ids=WAYS)


@asynccontextmanager
async def world(
    way: Way,
    folder: Path,
    *,
    secret: str = SECRET,
    speaks: tuple[int, int] = SPEAKS,
    beat: Beat | None = None,
) -> AsyncGenerator[World]:
    """Open two nodes; the one that asks may have another secret, or speak another version."""
    sessions, beat = Sessions(), beat or Beat(every_s=0.05, silence_s=60)
    text = f"{folder}/b.sock" if way.is_socket else "127.0.0.1:0"
    listener, port = await listen(read_address(text), way.tls)
    if not way.is_socket:
        text = f"127.0.0.1:{port}"
    hub = Hub(Identity(name="b", secret=SECRET), sessions, beat=beat)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, hub.take)
        me = Identity(name="a", secret=secret, speaks=speaks)
        with anyio.fail_after(WAIT_S):
            yield World(
                sessions=sessions,
                node=Node(name="b", address=text),
                link=StreamLink(me, tasks, tls=way.tls, beat=beat),
                address=read_address(text),
            )
        await hub.close()
        tasks.cancel_scope.cancel()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """Return a certificate that nodes show, and trust in it."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "node.pem", folder / "node.key"
    subprocess.run(
        [OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=node", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )  # fmt: skip
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certificate, key)
    return Tls(own=own, others=ssl.create_default_context(cafile=str(certificate)))


@on_each_way
async def test_a_session_is_asked_and_answers_with_its_own_words(
    make: Callable[[Tls], Way], tls: Tls, tmp_path: Path
) -> None:
    """What it gives, or why not, is the same as in one process."""
    async with world(make(tls), tmp_path) as it:

        async def ask(session_id: str, command: object = Cancel("ray")) -> Given:
            asked = Asked(session_id=session_id, command=command)  # type: ignore[arg-type]
            return await it.link.ask(it.node, asked, deadline_s=60)

        known = await ask("s", GetStatus())
        assert known == Given(answer=KnownStatus(status="active"), events=(changed(7),))
        assert (await ask("s")).answer is True
        deleted = await it.link.ask(it.node, Asked(session_id="s", command=None), deadline_s=60)
        assert deleted.answer is None
        with pytest.raises(MovedError):
            await ask("moved")
        with pytest.raises(SessionEndedError, match="reset"):
            await ask("ended")
        with pytest.raises(CoreError, match=r"^RuntimeError$"):
            await ask("fault")
        with pytest.raises(CoreError, match="bytes"):
            await ask("large", Label(title="", pinned=None, archived=None, by=""))
        assert (await ask("s")).answer is True  # the stream is whole after all of it
        assert it.sessions.asked[1] == Asked(session_id="s", command=Cancel("ray"))


@on_each_way
async def test_a_slow_answer_keeps_no_other_waiting_and_has_a_deadline(
    make: Callable[[Tls], Way], tls: Tls, tmp_path: Path
) -> None:
    """One stream carries all asks of a node."""
    async with world(make(tls), tmp_path) as it:
        slow, other = (Asked(session_id=each, command=Edit("k", "t")) for each in ("slow", "s"))
        with pytest.raises(OwnerAwayError, match=r"no answer within 0\.1 s"):
            await it.link.ask(it.node, slow, deadline_s=0.1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: it.link.ask(it.node, slow, deadline_s=60))
            await it.sessions.until(lambda: len(it.sessions.asked) == 2)
            assert (await it.link.ask(it.node, other, deadline_s=60)).answer is True
            it.sessions.go.set()


@on_each_way
async def test_a_follower_is_given_all_in_order_and_its_end(
    make: Callable[[Tls], Way], tls: Tls, tmp_path: Path
) -> None:
    """Events that are too large for a frame are said to be in the log."""
    async with world(make(tls), tmp_path) as it:
        got: list[Pushed | Text] = []
        over = Following(session_id="over", after=4, take=got.append, waits=True)
        await it.link.follow(it.node, over)
        assert [type(each) for each in got] == [Pushed, Text, Pushed]
        assert isinstance(got[0], Pushed)
        assert isinstance(got[2], Pushed)
        assert (got[0].events, got[0].last_seq) == ((changed(5),), 5)
        assert (got[2].events, got[2].last_seq) == ((), 6)
        with pytest.raises(SessionEndedError):
            ended = Following(session_id="ended", after=0, take=got.append)
            await it.link.follow(it.node, ended)
        with pytest.raises(MovedError):
            moved = Following(session_id="moved", after=0, take=got.append)
            await it.link.follow(it.node, moved)


@on_each_way
async def test_who_follows_no_more_is_let_go_over_there(
    make: Callable[[Tls], Way], tls: Tls, tmp_path: Path
) -> None:
    """And who begins to wait for the turn, or cannot take text back, counts there."""
    async with world(make(tls), tmp_path) as it:
        came = anyio.Event()
        following = Following(session_id="s", after=0, take=lambda _frame: came.set())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.link.follow, it.node, following)
            await came.wait()
            following.waits, following.is_final = True, True
            assert following.notify is not None
            following.notify()
            await it.sessions.until(lambda: len(it.sessions.followers) == 2)
            tasks.cancel_scope.cancel()
        await it.sessions.left.wait()
        assert it.sessions.followers == [(False, False), (True, True)]


@on_each_way
async def test_a_secret_that_differs_is_said_on_both_sides(
    make: Callable[[Tls], Way], tls: Tls, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is asked, and no secret stands in the log."""
    async with world(make(tls), tmp_path, secret=SECRET[::-1]) as it:
        with pytest.raises(LinkRefusedError, match="secret of the cluster differs"):
            await it.link.ask(it.node, Asked(session_id="s", command=Cancel()), deadline_s=60)
        assert not it.sessions.asked
        assert "secret of the cluster differs" in it.link.refusals()[it.node.name]
        # It comes back with the same secret, at another address: nothing is told of it any more.
        hub = Hub(Identity(name="b", secret=SECRET[::-1]), it.sessions)
        listener, port = await listen(read_address("127.0.0.1:0"), make(tls).tls)
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, hub.take)
            moved = Node(name="b", address=f"127.0.0.1:{port}")
            asked = Asked(session_id="s", command=Cancel())
            assert (await it.link.ask(moved, asked, deadline_s=60)).answer is True
            assert not it.link.refusals()
            await hub.close()
            tasks.cancel_scope.cancel()
    assert SECRET not in caplog.text


@on_each_way
async def test_a_version_that_is_not_understood_is_said_in_words(
    make: Callable[[Tls], Way], tls: Tls, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two neighbours work together; others are told what to do."""
    async with world(make(tls), tmp_path, speaks=(SPEAKS[0], SPEAKS[1] + 1)) as it:
        asked = Asked(session_id="s", command=Cancel())
        assert (await it.link.ask(it.node, asked, deadline_s=60)).answer is True
    (tmp_path / "b.sock").unlink(missing_ok=True)
    async with world(make(tls), tmp_path, speaks=(SPEAKS[1] + 1, SPEAKS[1] + 2)) as it:

        async def ask() -> None:
            with pytest.raises(LinkRefusedError, match="one release at a time"):
                await it.link.ask(it.node, Asked(session_id="s", command=Cancel()), deadline_s=60)

        async with anyio.create_task_group() as tasks:
            for _ in range(3):  # the others are told without a stream, and log nothing
                tasks.start_soon(ask)
        await ask()
    assert caplog.text.count("node 'b' cannot be asked: node 'b' runs an earlier Everturn") == 1


async def test_a_node_that_is_gone_or_is_another_fails_what_waits(tmp_path: Path) -> None:
    """Whoever waits is told soon, and a new stream is opened for the next ask."""
    async with world(TCP, tmp_path) as it:
        asked = Asked(session_id="slow", command=Cancel())
        nowhere = Node(name="c", address=f"127.0.0.1:{it.address.port}")
        with pytest.raises(LinkBrokenError, match="is node 'b', not 'c'"):
            await it.link.ask(nowhere, asked, deadline_s=60)
        for address in ("127.0.0.1:1", "", "nowhere", "/no/such.sock", "a..b:7070"):
            with pytest.raises(LinkBrokenError, match="cannot be reached"):
                await it.link.ask(Node(name="d", address=address), asked, deadline_s=60)


async def test_a_node_that_says_nothing_any_more_is_gone(tmp_path: Path) -> None:
    """It may be frozen: its machine still takes what is sent."""
    async with world(SOCKET, tmp_path, beat=QUICK) as it:
        silent = await anyio.create_unix_listener(tmp_path / "silent.sock")
        with pytest.raises(LinkBrokenError, match="does not answer as a node does"):
            await it.link.ask(
                Node(name="b", address=f"{tmp_path}/silent.sock"),
                Asked(session_id="s", command=Cancel()),
                deadline_s=60,
            )
        await silent.aclose()

        wire = Wire(await connect(it.address, None), QUICK)
        await greet(wire, Identity(name="a", secret=SECRET), "b")
        with pytest.raises(LinkBrokenError):  # it never pings, and is let go there
            async for _ in wire.bodies():
                pass
        await wire.close()


async def test_a_node_that_speaks_and_reads_nothing_is_gone(tmp_path: Path) -> None:
    """What is to be sent to it waits meanwhile, and fills no memory."""
    sent, piece = 0, Text(number=1, turn=1, step=1, offset=0, text="x" * 1_000_000)

    async def speak(stream: ByteStream) -> None:
        async with stream:
            while True:
                await stream.send(pack(Ping()))
                await anyio.sleep(QUICK.every_s)

    async def say(wire: Wire) -> None:
        nonlocal sent
        while True:
            await wire.send(piece)
            sent += 1

    async def listen_to(wire: Wire) -> None:
        async for _ in wire.bodies():
            pass

    deaf = await anyio.create_unix_listener(tmp_path / "deaf.sock")
    with anyio.fail_after(WAIT_S):
        async with deaf, anyio.create_task_group() as tasks:
            tasks.start_soon(deaf.serve, speak)
            wire = Wire(await connect(Address(path=f"{tmp_path}/deaf.sock"), None), QUICK)
            tasks.start_soon(listen_to, wire)
            tasks.start_soon(say, wire)
            with pytest.raises(LinkBrokenError, match="silent for"):
                await wire.beat()
            assert 4 <= sent <= 10
            assert not wire.send_soon(piece)
            tasks.cancel_scope.cancel()
        await wire.close()


async def test_many_who_wait_for_a_node_wait_no_longer_than_one(tmp_path: Path) -> None:
    """A machine that is gone answers nobody; it is not called once for each of them in turn."""
    calls = 0

    async def take(stream: ByteStream) -> None:
        nonlocal calls
        calls += 1
        async with stream:
            await anyio.sleep_forever()

    async with world(SOCKET, tmp_path, beat=QUICK) as it, anyio.create_task_group() as tasks:
        silent = await anyio.create_unix_listener(tmp_path / "silent.sock")
        tasks.start_soon(silent.serve, take)
        node = Node(name="c", address=f"{tmp_path}/silent.sock")

        async def ask() -> None:
            with pytest.raises(LinkBrokenError, match="does not answer as a node does"):
                await it.link.ask(node, Asked(session_id="s", command=Cancel()), deadline_s=60)

        async with anyio.create_task_group() as asking:
            for _ in range(5):
                asking.start_soon(ask)
        assert calls == 1
        await ask()
        assert calls == 2  # it is tried again for whoever comes later
        tasks.cancel_scope.cancel()
        await silent.aclose()


async def test_strangers_are_refused_without_harm(tmp_path: Path) -> None:
    """Whatever they send, others go on."""
    async with world(SOCKET, tmp_path, beat=QUICK) as it:
        length = (GREETING_MAX_BYTES + 1).to_bytes(4, "big")
        for said in (
            b"GET / HTTP/1.1\r\nHost: b\r\n\r\n",
            b"\xff\xff\xff\xff",
            length + b"x" * 100,
            pack(Welcome(node="a", proof="")),
            pack(Ask(number=1, session_id="s", command=Cancel())),
            (5).to_bytes(4, "big") + b"\x80\x04K\x01.",
            b"",
        ):
            stream = await connect(it.address, None)
            stream.write(said or b"\0")
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                while True:
                    assert b'"frame":"answered"' not in await stream.receive()
            await stream.aclose()
        assert not it.sessions.asked
        many = [await connect(it.address, None) for _ in range(STRANGERS_MAX + 5)]
        assert (await Wire(many[0], QUICK).next()).__class__ is Challenge
        for each in many:
            await each.aclose()

        asked = Asked(session_id="s", command=Cancel())
        while True:
            with suppress(LinkBrokenError):  # until those are gone there
                assert (await it.link.ask(it.node, asked, deadline_s=60)).answer is True
                break


async def test_strangers_in_a_handshake_have_few_places_and_little_time(
    tmp_path: Path, tls: Tls
) -> None:
    """They connect and say nothing: one too many is let go at once, the others soon."""
    async with world(Way(tls=tls), tmp_path, beat=QUICK) as it:
        ended: list[int] = []

        async def be_silent(number: int, stream: ByteStream) -> None:
            async with stream:
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()
            ended.append(number)

        async with anyio.create_task_group() as tasks:
            for number in range(STRANGERS_MAX + 1):
                stream = await anyio.connect_tcp("127.0.0.1", it.address.port)
                tasks.start_soon(be_silent, number, stream)
        assert ended[0] == STRANGERS_MAX
        asked = Asked(session_id="s", command=Cancel())
        assert (await it.link.ask(it.node, asked, deadline_s=60)).answer is True


async def test_a_stream_that_is_closed_twice_leaves_no_socket(tls: Tls) -> None:
    """The other side is frozen, and says no goodbye of its own."""
    listener, port = await listen(read_address("127.0.0.1:0"), tls)

    async def freeze(caller: Caller) -> None:
        stream = await caller.open()
        stream._transport.pause_reading()
        try:
            await anyio.sleep_forever()
        finally:
            stream._transport.abort()

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, freeze)
        stream = await connect(read_address(f"127.0.0.1:{port}"), tls)
        kept = stream._transport.get_extra_info("socket")
        with anyio.move_on_after(0.05):
            async with anyio.create_task_group() as closing:
                closing.start_soon(stream.aclose)
                closing.start_soon(stream.aclose)
        with anyio.fail_after(10):  # asyncio itself gives a frozen side 30
            await stream._gone.wait()
        assert kept.fileno() == -1
        tasks.cancel_scope.cancel()


async def test_a_kind_of_network_that_is_missing_keeps_nobody_from_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name stands for two addresses, and the kernel knows one of the two kinds alone."""

    class Socket(socket.socket):
        def __init__(
            self, family: int = -1, kind: int = -1, proto: int = -1, fileno: int | None = None
        ) -> None:
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
            super().__init__(family, kind, proto, fileno)

    def looked_up(_host: object, port: object, *_: object, **_more: object) -> list[object]:
        six = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0))
        return [six, (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "socket", Socket)
    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    listener, port = await listen(read_address("here:0"), None)
    async with listener:
        stream = await connect(read_address(f"here:{port}"), None)
        await stream.aclose()


async def test_what_a_node_says_out_of_place_costs_its_own_stream(tmp_path: Path) -> None:
    """An ask that is not understood is answered; all else ends the stream, with a word."""
    async with world(SOCKET, tmp_path, beat=QUICK) as it:
        wire = Wire(await connect(it.address, None), QUICK)
        await greet(wire, Identity(name="a", secret=SECRET), "b")
        body = b'{"frame":"ask","number":7,"session_id":"s","command":{"command":"fly"}}'
        await wire.say(Unfollow(number=99))  # nobody follows: no matter
        wire._stream.write(len(body).to_bytes(4, "big") + body)
        said = await wire.next()
        assert isinstance(said, Failed)
        assert "does not understand" in str(error_of(said.failure))
        await wire.say(Delete(number=8, session_id="s"))
        await wire.next()
        await wire.say(Welcome(node="a", proof=""))
        ended = await wire.next()
        assert "comes from who calls" in getattr(ended, "why", "")
        await wire.close()


@table(
    "text",
    [
        *("", "host", "host:", ":1", "::1:80", "h:70000", "h:-1", "h:x", f"h:{'1' * 5000}"),
        *("a..b:7070", ".b:7070", f"{'a' * 64}.b:7070", "a\0b:7070"),
    ],
)
def test_an_address_that_is_none_is_named(text: str) -> None:
    """With what it has to look like."""
    with pytest.raises(InvalidInputError, match="is no address of a node: it must be"):
        read_address(text)


def test_addresses_are_read_as_people_write_them() -> None:
    """A path, a name, both kinds of numbers."""
    assert read_address("/run/e.sock") == Address(path="/run/e.sock")
    assert read_address("db-1:7000") == Address(host="db-1", port=7000)
    assert read_address("[::1]:7000") == Address(host="::1", port=7000)
