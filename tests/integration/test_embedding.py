"""A gateway inside a program, as its author uses it; everything is real but the model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

import anyio
import fastapi
import httpx2
import pytest
from starlette.types import ASGIApp
from support.patience import WAIT_S
from support.tables import table

import everturn
from everturn_actors.errors import ModelRefusedError
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.testing import ScriptedProvider
from everturn_gateway.clock import SystemClock

TOKEN = "of-this-test"


class Deleting:
    """What a tool did."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.tool = everturn.tool(name="delete_file", needs_approval=True)(self.delete_file)

    def delete_file(self, name: str) -> str:
        """Delete a file."""
        self.deleted.append(name)
        return f"{name} is gone"


class Failing(everturn.Provider):
    """A model that refuses."""

    async def complete(
        self, request: everturn.ModelRequest, on_text: Callable[[str], None]
    ) -> everturn.Reply:
        """Refuse."""
        del request, on_text
        raise ModelRefusedError


async def test_conversations_are_apart_and_go_on() -> None:
    """Each has its own memory; the next message of one sees what was said in it.

    An answer may come in pieces. What an agent is told is text, also where it looks like a file.
    """
    model = ScriptedProvider("first", "second", "other", "one two three")
    agent = everturn.Agent(name="a", instructions="README.md", model=model)
    with anyio.fail_after(WAIT_S):
        async with everturn.open_gateway(agent) as gateway:
            answers = [
                (await gateway.ask("a", "1", conversation="x")).text,
                (await gateway.ask("a", "2", conversation="x")).text,
                (await gateway.ask("a", "3", conversation="y")).text,
            ]
            pieces = [piece async for piece in gateway.stream("a", "go")]
            state = await gateway.session("a", "x")
            await gateway.reset("a", "x")
            after = await gateway.session("a", "x")

    assert answers == ["first", "second", "other"]
    assert "".join(pieces) == "one two three"
    assert [len(request.messages) for request in model.requests] == [1, 3, 1, 1]
    assert "README.md" in model.requests[0].system
    assert state is not None
    assert [turn.text for turn in state.conversation.turns] == ["first", "second"]
    assert after is None


async def test_a_workspace_keeps_conversations_for_one_gateway_at_a_time(tmp_path: Path) -> None:
    """What was said before is in the next process's request; two must not write one journal.

    Whoever keeps the sessions: usage, schedules and tokens are files there, also beside a store of
    the program.
    """
    model = ScriptedProvider()
    agent = everturn.Agent(name="a", model=model)
    kept = tmp_path / "kept"
    for text, store in (("one", None), ("two", None), ("three", open_memory_store)):
        async with everturn.open_gateway(agent, workspace=kept, store=store) as gateway:
            await gateway.ask("a", text)
            with pytest.raises(everturn.WorkspaceLockedError):
                async with everturn.open_gateway(agent, workspace=kept, store=store):
                    pytest.fail("it was opened twice")

    assert [len(request.messages) for request in model.requests] == [1, 3, 1]


async def test_without_a_workspace_nothing_is_left_and_an_error_passes_as_it_was_raised() -> None:
    """The passing folder is gone with the gateway, and no task group wraps what ended it."""
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        async with everturn.open_gateway(everturn.Agent(name="a")) as gateway:
            await gateway.ask("a", "hello")
            folder = anyio.Path(gateway._inner.config.workspace)
            was_there = await folder.is_dir()
            raise error

    assert caught.value is error
    assert (was_there, await folder.exists()) == (True, False)


async def test_a_turn_without_an_answer_is_an_error() -> None:
    """Nobody takes an empty text for an answer; what happened is in the error."""
    agent = everturn.Agent(name="a", model=Failing())
    async with everturn.open_gateway(agent) as gateway:
        with pytest.raises(everturn.TurnFailedError) as asked:
            await gateway.ask("a", "hello")
        with pytest.raises(everturn.TurnFailedError):
            async for _ in gateway.stream("a", "hello"):
                pass

    assert asked.value.result.outcome == "failed"
    assert "refused" in str(asked.value)


@table(("decision", "deleted"), [("allow_once", ["x"]), ("deny", [])])
async def test_a_call_waits_for_approval(decision: everturn.Decision, deleted: list[str]) -> None:
    """The tool runs after a yes, and only then."""
    deleting = Deleting()
    agent = everturn.Agent(name="a", tools=[deleting.tool])
    with anyio.fail_after(WAIT_S):
        async with everturn.open_gateway(agent) as gateway, anyio.create_task_group() as tasks:
            submission = await gateway.submit(
                "a", 'call delete_file {"name": "x"}', conversation="c"
            )

            async def decide() -> None:
                async for _ in submission.updates():
                    for each in await gateway.approvals():
                        assert (each.tool, each.conversation) == ("delete_file", "c")
                        assert not deleting.deleted
                        await gateway.decide(each, decision, by="ann")

            tasks.start_soon(decide)
            await submission.result()

    assert deleting.deleted == deleted


async def test_a_tool_of_a_class_asks_unless_it_says_that_it_need_not() -> None:
    """A tool that says nothing of approval, as any object may be one, waits: closed by default."""
    from support.tool_doubles import Deed  # noqa: PLC0415 - the double has no base

    agent = everturn.Agent(name="a", tools=[Deed("deed")])
    with anyio.fail_after(WAIT_S):
        async with everturn.open_gateway(agent) as gateway:
            submission = await gateway.submit("a", "call deed")
            waiting: tuple[everturn.PendingApproval, ...] = ()
            async for _ in submission.updates():
                if waiting := await gateway.approvals():
                    break

    assert [each.tool for each in waiting] == ["deed"]


async def test_a_provider_is_named_by_agents_in_files(tmp_path: Path) -> None:
    """A folder of agents and a model of the program go together."""
    folder = tmp_path / "agents" / "filed"
    folder.mkdir(parents=True)
    (folder / "agent.yaml").write_text(
        "apiVersion: duragent/v1alpha1\nkind: Agent\nmetadata: {name: filed}\n"
        "spec: {model: {provider: mine, name: any}}\n",
        encoding="utf-8",
    )
    models = {"mine": ScriptedProvider("from the program")}
    async with everturn.open_gateway(agents=tmp_path / "agents", providers=models) as gateway:
        answer = await gateway.ask("filed", "hello")

    assert answer.text == "from the program"


async def test_a_store_of_the_program_holds_the_sessions() -> None:
    """The same store opened again has the conversation."""
    disk = MemoryDisk()
    for _ in range(2):
        async with everturn.open_gateway(
            everturn.Agent(name="a"), store=lambda: open_memory_store(disk)
        ) as gateway:
            await gateway.ask("a", "hello")

    (stored,) = disk.sessions.values()
    assert stored.last_seq > 10


@table(
    ("agents", "message"),
    [
        ([], "there is no agent|agents folder cannot be read"),
        ([everturn.Agent(name="a"), everturn.Agent(name="a")], "two agents are called a"),
        ([everturn.Agent(name="a", model="gpt")], "model must be PROVIDER/NAME"),
        ([everturn.Agent(name="a", model="nope/x")], "agent a: spec.model.*'nope' is not avail"),
        ([everturn.Agent(name="a b")], "agent a b: metadata.name: must be letters"),
        (
            [everturn.Agent(name="a", settings={"temparature": 1})],
            "agent a: spec.temparature: is not a known field",
        ),
        ([everturn.Agent(name="a", settings={"session": {"context": {"policy": "x"}}})], "policy"),
    ],
)
async def test_what_cannot_be_opened_says_where_and_why(
    agents: list[everturn.Agent], message: str
) -> None:
    """One error, no group around it, with the field at fault."""
    with pytest.raises(everturn.ConfigError, match=message):
        async with everturn.open_gateway(*agents):
            pytest.fail("it was opened")


async def test_what_the_workspace_denies_holds_for_functions_too(tmp_path: Path) -> None:
    """A function runs unasked; the owner of the workspace has the last word all the same."""
    await anyio.Path(tmp_path / "policy.yaml").write_text("deny: ['builtin:delete_file']\n")
    deleting = Deleting()
    deleting.tool.needs_approval = False
    agent = everturn.Agent(name="a", tools=[deleting.tool])
    async with everturn.open_gateway(agent, workspace=tmp_path) as gateway:
        answer = await gateway.ask("a", 'call delete_file {"name": "x"}')

    assert "the policy denies it" in answer.text
    assert deleting.deleted == []


async def test_a_deadline_of_the_program_leaves_the_turn_alone() -> None:
    """Who stops waiting can ask for the same answer again, by its key."""
    model = ScriptedProvider("late")
    model.hold()
    async with everturn.open_gateway(everturn.Agent(name="a", model=model)) as gateway:
        with anyio.move_on_after(0.2) as scope:
            await gateway.ask("a", "hello", idempotency_key="1")
        model.release()
        with anyio.fail_after(WAIT_S):
            answer = await gateway.ask("a", "hello", idempotency_key="1")

    assert scope.cancelled_caught
    assert (answer.text, len(model.requests)) == ("late", 1)


# --- the HTTP API inside another application ---


def mounted_client(app: ASGIApp, token: str = "") -> httpx2.AsyncClient:
    """Return a client of an application; no socket is opened."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), base_url="http://testserver", headers=headers
    )


async def test_the_api_answers_where_it_is_mounted_whoever_has_its_token() -> None:
    """Both kinds of routes: those that name a session, and the one of OpenAI's form.

    It is closed to all others, also where the program sets no token: they may reach what it listens
    on.
    """
    app = fastapi.FastAPI()
    async with everturn.open_gateway(everturn.Agent(name="a")) as gateway:
        app.mount("/agents", await gateway.asgi(token=TOKEN))
        app.mount("/none", await gateway.asgi(token=""))
        async with mounted_client(app, TOKEN) as client:
            alive = await client.get("/agents/livez")
            begun = await client.post("/agents/api/v1/sessions", json={"agent": "a"})
            body = {"model": "a", "messages": [{"role": "user", "content": "hello"}]}
            answer = await client.post("/agents/v1/chat/completions", json=body)
        refused: dict[tuple[str, str], list[int]] = {}
        for root, sent in (("agents", ""), ("agents", "guess"), ("none", "")):
            async with mounted_client(app, sent) as client:
                refused[root, sent] = [
                    (await client.get(f"/{root}{path}")).status_code
                    for path in ("/api/v1/sessions", "/metrics", "/v1/models")
                ]

    assert (alive.status_code, begun.status_code) == (200, 201)
    assert "hello" in answer.json()["choices"][0]["message"]["content"]
    assert list(refused.values()) == [[401, 401, 401]] * 3


# --- channels of the program ---


class Wall(everturn.Channel):
    """A wall on which people write, and under which the bot answers."""

    name = "wall"

    def __init__(self) -> None:
        self._written: deque[everturn.Message] = deque()
        self._news = anyio.Event()
        self.shown: list[str] = []
        self._changed = anyio.Event()

    async def serve(self, handler: everturn.InboundHandler) -> None:
        """Hand in what is written."""
        async with everturn.open_chat_queues(handler) as queues:
            handler.connected("@wall")
            while True:
                await self._news.wait()
                self._news = anyio.Event()
                while self._written:
                    message = self._written.popleft()
                    event = everturn.PlatformEvent(chat=message.chat.id, events=(message,))
                    await queues.put(event)

    async def send(self, message: everturn.Outbound) -> str:
        """Write below."""
        self.shown.append(message.payload)
        self._changed.set()
        return str(len(self.shown))

    def write(self, text: str, *, number: int = 1, sender: str = "ann") -> None:
        """Write on the wall."""
        chat = everturn.ChatRef(id="1")
        at = SystemClock().now()
        person = everturn.Person(id=sender)
        self._written.append(
            everturn.Message(id=str(number), chat=chat, sender=person, text=text, at=at)
        )
        self._news.set()

    async def until_shown(self) -> list[str]:
        """Wait until something is shown."""
        await self._changed.wait()
        return self.shown


OPEN = {"access": {"dm": {"policy": "open", "queue": {"debounce": {"enabled": "false"}}}}}


async def test_people_talk_to_an_agent_on_a_channel_of_the_program() -> None:
    """What they write begins a turn, and the answer is sent where they wrote."""
    wall = Wall()
    agent = everturn.Agent(name="a", model=ScriptedProvider("Good day."), settings=OPEN)
    with anyio.fail_after(WAIT_S):
        async with everturn.open_gateway(agent, channels=[wall]):
            wall.write("hello")
            shown = await wall.until_shown()

    assert shown == ["Good day."]


async def test_a_channel_is_closed_until_an_agent_says_who_may_write() -> None:
    """By default nobody: whoever writes is told how to be let in, and no model is asked."""
    wall, model = Wall(), ScriptedProvider()
    with anyio.fail_after(WAIT_S):
        async with everturn.open_gateway(everturn.Agent(name="a", model=model), channels=[wall]):
            wall.write("hello")
            (shown,) = await wall.until_shown()

    assert "everturn pair" in shown
    assert model.requests == []


@table(
    ("names", "message"),
    [
        (["http"], "'http' is taken"),
        (["wall", "wall"], "'wall' is taken"),
        (["A wall"], "'A wall' .*lower-case letters"),
    ],
)
async def test_a_channel_needs_a_name_of_its_own(names: list[str], message: str) -> None:
    """Conversations and files are named by it."""
    walls = [Wall() for _ in names]
    for wall, name in zip(walls, names, strict=True):
        wall.name = name
    with pytest.raises(everturn.ConfigError, match=message):
        async with everturn.open_gateway(everturn.Agent(name="a"), channels=walls):
            pytest.fail("it was opened")
