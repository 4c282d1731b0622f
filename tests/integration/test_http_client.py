"""The client over HTTP when the line is bad: nothing is lost, nothing is doubled."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest
from support.gateway import open_http_client, open_http_gateway
from support.patience import WAIT_S

from everturn_actors.events import Event, Received
from everturn_actors.model import ConversationKey
from everturn_actors.service import TextDelta
from everturn_actors.testing import ScriptedProvider
from everturn_channels.errors import ClientError, GatewayAwayError
from everturn_channels.terminal.conversation import Answer, Conversation
from everturn_channels.terminal.reply import ReplyReader
from everturn_channels.terminal.screen import Screen
from everturn_gateway.client import SessionClient
from everturn_gateway.config.settings import ServerConfig

DEADLINE_S = WAIT_S
KEY = ConversationKey(channel="terminal", chat="ann", agent="test")


class Line:
    """A connection to a gateway that can be cut, and that can lose what the gateway answers."""

    def __init__(self) -> None:
        self._port = 0
        self._cuts: set[anyio.CancelScope] = set()
        self.swallow = 0
        "How many connections are cut at the first byte that comes back."
        self.url = ""

    def lead_to(self, url: str) -> None:
        """Lead new connections to the gateway at `url`."""
        self._port = int(url.rpartition(":")[2])

    async def carry(self, client: anyio.abc.SocketStream) -> None:
        """Carry bytes between one client and the gateway."""
        try:
            server = await anyio.connect_tcp("127.0.0.1", self._port)
        except OSError:
            await client.aclose()  # nobody is there: the client sees a connection that breaks
            return
        async with client, server:
            with anyio.CancelScope() as cut:
                self._cuts.add(cut)
                async with anyio.create_task_group() as tg:
                    tg.start_soon(self._pump, client, server, cut, False)  # noqa: FBT003 - not back
                    tg.start_soon(self._pump, server, client, cut, True)  # noqa: FBT003 - back
            self._cuts.discard(cut)

    async def _pump(
        self,
        source: anyio.abc.SocketStream,
        target: anyio.abc.SocketStream,
        cut: anyio.CancelScope,
        back: bool,
    ) -> None:
        try:
            async for chunk in source:
                if back and self.swallow:
                    self.swallow -= 1
                    break
                await target.send(chunk)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        cut.cancel()

    def cut(self) -> None:
        """Cut every connection that is open now."""
        for scope in tuple(self._cuts):
            scope.cancel()


@asynccontextmanager
async def open_line(url: str = "") -> AsyncGenerator[Line]:
    """Put a line between whoever uses `Line.url` and the gateway at `url`."""
    line = Line()
    if url:
        line.lead_to(url)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - not Django's
    line.url = f"http://127.0.0.1:{port}"
    async with listener, anyio.create_task_group() as tg:
        tg.start_soon(listener.serve, line.carry)
        yield line
        tg.cancel_scope.cancel()


async def test_an_answer_survives_a_line_that_breaks_in_the_middle_of_it(tmp_path: Path) -> None:
    """The person reads one whole answer, whatever the network does."""
    written: list[str] = []
    screen, reply, answer = Screen(written.append, colour=False), ReplyReader(), Answer()
    async with (
        open_http_gateway(tmp_path) as gateway,
        open_line(gateway.base_url) as line,
        open_http_client(line.url, token="") as terminal,
    ):
        gateway.provider.script.append("one two three")
        gateway.provider.hold()
        conversation = Conversation(terminal, key=KEY)
        events: list[int] = []
        breaks = 0
        with anyio.fail_after(DEADLINE_S):
            seq = await conversation.hand_in("count")
            async with aclosing(conversation.answer(seq)) as updates:
                async for update in updates:
                    screen.show(reply.read(update))
                    answer = answer.after(update)
                    if isinstance(update, Event):
                        events.append(update.seq)
                    elif breaks < 2:
                        breaks += 1
                        line.cut()  # the text so far comes again
                    else:
                        gateway.provider.release()

    assert breaks == 2
    assert "".join(written) == "one two three\n"
    assert answer.text == "one two three"
    assert events == sorted(set(events))


async def test_a_message_whose_acknowledgement_was_lost_is_accepted_once(tmp_path: Path) -> None:
    """The client cannot know whether it arrived; the key makes sending it again harmless."""
    async with (
        open_http_gateway(tmp_path) as gateway,
        open_line(gateway.base_url) as line,
        open_http_client(line.url, token="") as terminal,
    ):
        session_id = await terminal.open(KEY)
        line.cut()
        line.swallow = 1
        with anyio.fail_after(DEADLINE_S):
            seq = await terminal.submit(session_id, "hello", idempotency_key="key-1")
        events = await gateway.service.history(session_id, after=0, limit=100)

    assert line.swallow == 0
    assert [e.seq for e in events if isinstance(e.body, Received)] == [seq]


async def test_an_answer_survives_a_restart_of_the_gateway(tmp_path: Path) -> None:
    """The gateway goes away in the middle of an answer and comes back: the same turn goes on."""
    answer, begun = Answer(), anyio.Event()
    client: SessionClient

    async def talk(url: str) -> None:
        nonlocal answer, client
        async with open_http_client(url, token="") as terminal:
            client = terminal
            conversation = Conversation(terminal, key=KEY)
            seq = await conversation.hand_in("count")
            async with aclosing(conversation.answer(seq)) as updates:
                async for update in updates:
                    answer = answer.after(update)
                    if isinstance(update, TextDelta):
                        begun.set()
        done.set()

    done = anyio.Event()
    with anyio.fail_after(DEADLINE_S):
        async with open_line() as line, anyio.create_task_group() as tg:
            async with open_http_gateway(tmp_path) as first:
                first.provider.hold()
                line.lead_to(first.base_url)
                tg.start_soon(talk, line.url)
                await begun.wait()
            while not client.connection.is_away:  # noqa: ASYNC110 - who is looked for tells nobody
                await anyio.sleep(0.01)
            provider = ScriptedProvider("after the restart")
            async with open_http_gateway(tmp_path, provider=provider) as second:
                line.lead_to(second.base_url)
                await done.wait()

    assert (answer.outcome, answer.text, answer.turn) == ("answered", "after the restart", 1)
    assert not client.connection.is_away


async def test_a_gateway_that_is_gone_for_good_is_given_up(tmp_path: Path) -> None:
    """A watcher must not look at a frozen screen for ever."""
    async with open_http_gateway(tmp_path) as gateway:
        url = gateway.base_url
        async with open_http_client(url, token="") as terminal:
            session_id = await terminal.open(KEY)
    async with open_http_client(url, token="", reconnect_s=0) as terminal:
        for ask in (terminal.status, terminal.cancel, terminal.reset):
            with pytest.raises(ClientError, match="cannot be reached"):
                await ask(session_id)
        with pytest.raises(GatewayAwayError, match="cannot be reached"):
            async for _ in terminal.follow(session_id, after=0):
                pass


async def test_a_token_is_needed_and_named(tmp_path: Path) -> None:
    """The error has to say where the token belongs, and not what it is."""
    token = "sesame-open"
    server = ServerConfig(api_token=token)
    async with open_http_gateway(tmp_path, server=server) as gateway:
        async with open_http_client(gateway.base_url, token=token) as terminal:
            names = await terminal.agents()
        async with open_http_client(gateway.base_url, token=token[1:]) as terminal:
            with pytest.raises(ClientError, match="EVERTURN_API_TOKEN") as caught:
                await terminal.agents()
            with pytest.raises(ClientError, match="EVERTURN_API_TOKEN"):
                async for _ in terminal.follow("s", after=0):
                    pass

    assert list(names) == ["test"]
    assert "sesame" not in str(caught.value)


async def test_another_program_on_the_port_is_noticed() -> None:
    """A port is reused quickly; its new owner's answers must not be taken for the gateway's."""

    async def other_program(client: anyio.abc.SocketStream) -> None:
        async with client:
            await client.receive()
            await client.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - not Django's
    async with listener, anyio.create_task_group() as tg:
        tg.start_soon(listener.serve, other_program)
        async with open_http_client(f"http://127.0.0.1:{port}", token="") as terminal:
            with pytest.raises(ClientError, match="another program"):
                await terminal.agents()
        tg.cancel_scope.cancel()
