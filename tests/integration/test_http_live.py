"""What goes on in all sessions, over HTTP: the list, one stream, what waits, and the log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from support.channel_states import WELL, TwoChannels
from support.gateway import (
    HttpGateway,
    ServerEvent,
    open_http_gateway,
    server_events,
    write_agent,
)
from support.one_gateway import on_one_gateway
from support.patience import WAIT_S
from support.shell_agents import running, shell_agent, until_asked

from everturn_actors.errors import TruncatedStreamError
from everturn_actors.model import ModelRequest, Reply
from everturn_actors.service import ServiceSettings
from everturn_actors.testing import ScriptedProvider
from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http.live.stream import Cursor, Watch, read_cursor, read_watches

SESSIONS = "/api/v1/sessions"
DEADLINE_S = WAIT_S
TOKEN = "t" * 40


@asynccontextmanager
async def streaming(
    client: httpx2.AsyncClient, *watch: str, cursor: str = ""
) -> AsyncGenerator[AsyncGenerator[ServerEvent]]:
    """Follow all sessions while the block runs."""
    params: dict[str, Any] = {"watch": list(watch)}
    headers = {"Last-Event-ID": cursor} if cursor else {}
    with anyio.fail_after(DEADLINE_S):
        async with client.stream("GET", "/api/v1/stream", params=params, headers=headers) as answer:
            assert answer.status_code == 200, await answer.aread()
            async with aclosing(server_events(answer)) as events:
                yield events


async def until(
    events: AsyncGenerator[ServerEvent], wanted: Callable[[ServerEvent], bool]
) -> list[ServerEvent]:
    """Return what comes up to the first frame that is wanted."""
    seen: list[ServerEvent] = []
    async for each in events:
        seen.append(each)
        if wanted(each):
            return seen
    raise AssertionError(seen)


def is_end_of_turn(frame: ServerEvent) -> bool:
    """Whether a frame says that a turn is over."""
    return frame.event == "event" and frame.data["type"] == "turn_finished"


async def say(client: httpx2.AsyncClient, session_id: str, text: str) -> httpx2.Response:
    """Send a message, and wait for its answer."""
    return await client.post(f"{SESSIONS}/{session_id}/messages", json={"content": text})


async def listed(client: httpx2.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    """Return the list by activity."""
    answer = await client.get(SESSIONS, params={"order": "activity", **params})
    assert answer.status_code == 200, answer.text
    rows: list[dict[str, Any]] = answer.json()["sessions"]
    return rows


class BreakingOff(ScriptedProvider):
    """A model that breaks off within every reply, the first time it is asked for it."""

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        if len(self.requests) % 2:
            return await super().complete(request, on_text)
        self.requests.append(request)
        on_text("half a ")
        await anyio.wait_all_tasks_blocked()
        raise TruncatedStreamError


# --- looking changes nothing ---


async def test_no_turn_fails_because_somebody_looks_on(tmp_path: Path) -> None:
    """A reply that broke off is asked for again, whoever has seen the half of it."""
    async with (
        open_http_gateway(tmp_path, provider=BreakingOff()) as gateway,
        gateway.client() as client,
        gateway.client() as reader,
    ):
        session_id = await gateway.session()
        statuses: list[int] = []
        seen: list[ServerEvent] = []
        async with (
            reader.stream("GET", f"{SESSIONS}/{session_id}/events") as follower,
            aclosing(server_events(follower)) as events,
            streaming(reader, f"{session_id}:0") as frames,
        ):
            for turn in range(3):
                statuses.append((await say(client, session_id, f"hi {turn}")).status_code)
                await until(events, lambda each: each.event == "turn_finished")
                seen += await until(frames, is_end_of_turn)
        streamed = await client.post(f"{SESSIONS}/{session_id}/stream", json={"content": "again"})

    assert statuses == [200, 200, 200]
    assert any(each.event == "token" and each.data["text"] == "half a " for each in seen)
    assert "event: done" in streamed.text


# --- the list ---


async def test_the_list_by_activity_says_what_each_conversation_is_about(tmp_path: Path) -> None:
    """The one that somebody wrote in last stands first, under its first words.

    After a restart too, where what was kept in memory is read from the files again.
    """
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        gateway.provider.script += ["Three flights.", "No rain."]
        first, second, third = [await gateway.session() for _ in range(3)]
        await say(client, first, "Trip to\nLisbon  in May")
        await say(client, second, "Weather")
        rows = await listed(client)
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        again = await listed(client)
        page = (await client.get(SESSIONS, params={"order": "activity", "limit": 2})).json()
        rest = await listed(client, limit=2, after=page["next"])
        found = await listed(client, q="LISBON")
        nothing = await listed(client, agent="nobody")
        of_http = await listed(client, channel="http", status="active")
        await client.post(f"{SESSIONS}/{third}/reset")
        await client.delete(f"{SESSIONS}/{second}")
        later = await listed(client)
        refused = await client.get(SESSIONS, params={"order": "activity", "after": "nonsense"})

    assert [row["id"] for row in rows] == [second, first, third]
    told = ("id", "title", "preview", "turns", "last_event", "failed", "running", "cost_usd")
    assert [[row[name] for name in told] for row in again] == [
        [row[name] for name in told] for row in rows
    ]
    assert [row["title"] for row in rows] == ["Weather", "Trip to Lisbon in May", ""]
    assert [row["preview"] for row in rows] == ["No rain.", "Three flights.", ""]
    assert [row["turns"] for row in rows] == [1, 1, 0]
    assert [row["id"] for row in (*page["sessions"], *rest)] == [second, first, third]
    assert [row["id"] for row in found] == [first]
    assert nothing == []
    assert len(of_http) == 3
    assert [(row["id"], row["status"]) for row in later] == [(third, "ended"), (first, "active")]
    assert refused.status_code == 422


async def test_sessions_are_found_by_what_they_want(tmp_path: Path) -> None:
    """Whoever opens the list of a morning looks for what went wrong, and what waits."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        fine, failed, busy = [await gateway.session() for _ in range(3)]
        await say(client, fine, "hi")
        gateway.provider.script += [ValueError("a fault")]
        await say(client, failed, "hi")
        gateway.provider.hold()
        calls = len(gateway.provider.requests)
        await client.post(
            f"{SESSIONS}/{busy}/messages",
            json={"content": "hi"},
            headers={"Prefer": "respond-async"},
        )
        await gateway.provider.until_called(calls + 1)
        found = {
            wants: [row["id"] for row in await listed(client, wants=wants)]
            for wants in ("failed", "running", "approval")
        }
        gateway.provider.release()

    assert found == {"failed": [failed], "running": [busy], "approval": []}


# --- what waits for a person ---


async def test_what_waits_for_a_person_is_complete_before_anything_was_resumed(
    tmp_path: Path,
) -> None:
    """After a restart the inbox holds what it held, though nothing was observed yet."""
    async with shell_agent(tmp_path) as gateway, gateway.client() as client:
        gateway.provider.script.append(running("whoami"))
        session_id = await gateway.session("second")
        await client.post(
            f"{SESSIONS}/{session_id}/messages",
            json={"content": "who?"},
            headers={"Prefer": "respond-async"},
        )
        await until_asked(gateway, session_id)
        before = (await client.get("/api/v1/approvals")).json()["approvals"]
    resting = ServiceSettings(leave_grace_s=0, drain_s=0, resume=False)
    async with (
        open_http_gateway(tmp_path, settings=resting) as gateway,
        gateway.client() as client,
    ):
        after = (await client.get("/api/v1/approvals")).json()["approvals"]
        wanting = await listed(client, wants="approval")

    assert after == before
    (waiting,) = before
    assert waiting["session_id"] == session_id
    assert (waiting["name"], waiting["title"]) == ("bash", "who?")
    assert [(row["id"], row["approvals"]) for row in wanting] == [(session_id, 1)]


# --- the stream ---


async def test_one_stream_tells_of_all_sessions_and_the_events_of_some(tmp_path: Path) -> None:
    """A page follows its list and the conversation that is open on one connection."""
    async with (
        open_http_gateway(tmp_path) as gateway,
        gateway.client() as client,
        gateway.client() as reader,
    ):
        open_one, other = await gateway.session(), await gateway.session()
        gateway.provider.script += ["one two three"]
        async with streaming(reader, f"{open_one}:0") as frames:
            hello = await until(frames, lambda each: each.event == "hello")
            gateway.provider.hold()
            await client.post(
                f"{SESSIONS}/{open_one}/messages",
                json={"content": "hi"},
                headers={"Prefer": "respond-async"},
            )
            of_turn = await until(frames, lambda each: each.event == "token")
            gateway.provider.release()
            of_turn += await until(frames, is_end_of_turn)
            await say(client, other, "elsewhere")
            rows = await until(
                frames,
                lambda each: (
                    each.event == "rows"
                    and any(row["id"] == other and row["turns"] for row in each.data["sessions"])
                ),
            )
        log = await gateway.service.history(open_one, after=0, limit=99)

    assert hello[-1].data["fresh"] is True
    frames_of_turn = [each for each in of_turn if each.event == "event"]
    assert [each.data["seq"] for each in frames_of_turn] == [event.seq for event in log]
    text = ""
    for each in of_turn:
        if each.event == "token":
            text = text[: each.data["offset"]] + each.data["text"]
    assert text == "one two three"
    assert all(each.data["session_id"] == open_one for each in rows if each.event == "event")


async def test_a_stream_goes_on_where_it_broke(tmp_path: Path) -> None:
    """No event twice and none missing; rows that changed meanwhile come, and no others."""
    async with (
        open_http_gateway(tmp_path) as gateway,
        gateway.client() as client,
        gateway.client() as reader,
    ):
        session_id, other = await gateway.session(), await gateway.session()
        async with streaming(reader, f"{session_id}:0") as frames:
            await say(client, session_id, "one")
            first = await until(frames, is_end_of_turn)
        await say(client, session_id, "two")
        async with streaming(reader, f"{session_id}:0", cursor=first[-1].cursor) as frames:
            missing = {"rows", "turn_finished"}

            def is_all(frame: ServerEvent) -> bool:
                missing.difference_update((frame.event, frame.data.get("type")))
                return not missing

            second = await until(frames, is_all)
        log = await gateway.service.history(session_id, after=0, limit=99)
    async with (
        open_http_gateway(tmp_path) as gateway,
        gateway.client() as reader,
        streaming(reader, cursor=first[-1].cursor) as frames,
    ):
        restarted = await until(frames, lambda each: each.event == "hello")

    seqs = [each.data["seq"] for each in (*first, *second) if each.event == "event"]
    assert seqs == [event.seq for event in log]
    assert second[0].data["fresh"] is False
    frames_of_rows = [each for each in second if each.event == "rows"]
    changed = {row["id"] for each in frames_of_rows for row in each.data["sessions"]}
    assert changed == {session_id}
    assert other not in changed
    assert restarted[0].data["fresh"] is True
    assert restarted[0].data["boot"] != second[0].data["boot"]


async def test_a_principal_is_told_of_its_own_sessions_alone(tmp_path: Path) -> None:
    """On no way does one read of another's: not in the list, the inbox or the stream."""
    server = ServerConfig(api_token=TOKEN)
    async with open_http_gateway(tmp_path, server=server) as gateway:
        bobs = await gateway.token("bob", "talk")
        async with (
            gateway.client(token=TOKEN) as owner,
            gateway.client(token=bobs) as bob,
            gateway.client(token=bobs) as reader,
        ):
            secret = await gateway.session()
            his = (await bob.post(SESSIONS, json={"agent": "test"})).json()["id"]
            async with streaming(reader) as frames:
                await until(frames, lambda each: each.event == "hello")
                await say(owner, secret, "plum")
                await say(bob, his, "mine")
                rows = await until(frames, lambda each: "mine" in str(each.data))
            seen = await listed(bob)
            watched = await bob.get("/api/v1/stream", params={"watch": f"{secret}:0"})
            log = await bob.get(f"{SESSIONS}/{secret}/log")

    assert "plum" not in str(rows)
    assert [row["id"] for row in seen] == [his]
    assert (watched.status_code, log.status_code) == (404, 404)


async def test_a_deleted_session_leaves_the_lists_that_are_open(tmp_path: Path) -> None:
    """Whoever looks sees it go."""
    async with (
        open_http_gateway(tmp_path) as gateway,
        gateway.client() as client,
        gateway.client() as reader,
    ):
        session_id = await gateway.session()
        async with streaming(reader) as frames:
            await until(frames, lambda each: each.event == "hello")
            await client.delete(f"{SESSIONS}/{session_id}")
            seen = await until(
                frames,
                lambda each: each.event == "rows" and each.data["sessions"][0]["gone"],
            )

    assert seen[-1].data["sessions"][0]["id"] == session_id


@on_one_gateway("watch", ["x", "x:", "x:-1", "../x:1", "x:1:2"])
async def test_what_names_no_place_in_a_session_is_refused(
    gateway: HttpGateway, watch: str
) -> None:
    """A page with a fault is told so, instead of waiting for ever."""
    async with gateway.client() as client:
        answer = await client.get("/api/v1/stream", params={"watch": watch})

    assert (answer.status_code, answer.json()["type"]) == (
        422,
        "urn:everturn:problem:invalid-input",
    )


def test_a_cursor_that_cannot_be_read_names_no_place() -> None:
    """It comes from outside, and costs a list that is fetched anew."""
    assert read_cursor("") == read_cursor("x.1.") == read_cursor("7.7") == Cursor()
    boot = "0123456789abcdef"
    assert read_cursor(f"{boot}.7.a:1,b:2") == Cursor(boot, 7, (Watch("a", 1), Watch("b", 2)))
    assert read_cursor(f"{boot}.7.nonsense") == Cursor(boot, 7, ())
    assert read_watches([f"s:{n}" for n in range(9)]) is None


# --- the log ---


async def conversation(gateway: HttpGateway, client: httpx2.AsyncClient) -> tuple[str, list[int]]:
    """Make a session of three turns; return it, and the numbers of its events."""
    session_id = await gateway.session()
    for text in ("one", "two", "three"):
        await say(client, session_id, text)
    log = await gateway.service.history(session_id, after=0, limit=99)
    return session_id, [event.seq for event in log]


async def test_a_log_is_read_from_either_end_page_by_page(tmp_path: Path) -> None:
    """A page shows the newest events first, and fetches older ones when they are scrolled to."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        session_id, seqs = await conversation(gateway, client)
        path = f"{SESSIONS}/{session_id}/log"
        backwards: list[int] = []
        before = 0
        while before != 1:
            page = (await client.get(path, params={"before": before, "limit": 4})).json()
            backwards = [*(event["seq"] for event in page["events"]), *backwards]
            before = page["first"]
        forwards: list[int] = []
        after = 0
        while after < seqs[-1]:
            page = (await client.get(path, params={"after": after, "limit": 4})).json()
            forwards += (event["seq"] for event in page["events"])
            after = page["last"]
        said = (await client.get(path, params={"types": "received", "limit": 2})).json()

    assert backwards == forwards == seqs
    assert [event["text"] for event in said["events"]] == ["two", "three"]
    assert said["last_event"] == seqs[-1]


# --- beside sessions ---


def is_told(name: str, what: Callable[[dict[str, Any]], bool]) -> Callable[[ServerEvent], bool]:
    """Return what finds a frame of this name that says so."""
    return lambda frame: frame.event == name and what(frame.data)


async def test_approvals_channels_and_jobs_come_as_states(tmp_path: Path) -> None:
    """Each as it is when it is sent; what is answered, mended or called off is told as well."""
    async with (
        shell_agent(tmp_path) as gateway,
        gateway.client() as client,
        streaming(client) as frames,
    ):
        channels = gateway.channels = TwoChannels()
        first = await until(frames, is_told("channels", lambda data: len(data["channels"]) == 2))
        channels.shown = (WELL,)
        await until(frames, is_told("channels", lambda data: len(data["channels"]) == 1))
        gateway.provider.script.append(running("echo hi"))
        session_id = await gateway.session("second")
        await client.post(
            f"{SESSIONS}/{session_id}/messages",
            json={"content": "look"},
            headers={"Prefer": "respond-async"},
        )
        asked = await until(frames, is_told("approvals", lambda data: bool(data["approvals"])))
        (item,) = asked[-1].data["approvals"]
        answer = {"call_id": item["call_id"], "decision": "deny"}
        await client.post(f"{SESSIONS}/{session_id}/approve", json=answer)
        await until(frames, is_told("approvals", lambda data: not data["approvals"]))
        job = {"id": "hourly", "agent": "test", "every": 3600, "task": "Greet."}
        await client.post("/api/v1/schedules", json=job)
        made = await until(frames, is_told("schedules", lambda data: bool(data["schedules"])))
        await client.delete("/api/v1/schedules/hourly")
        await until(frames, is_told("schedules", lambda data: data["gone"] == ["hourly"]))

    assert any(each.event == "approvals" and not each.data["approvals"] for each in first)
    assert item["session_id"] == session_id
    assert made[-1].data["schedules"][0]["runs"] == []


async def test_what_is_not_for_a_reader_is_not_sent(tmp_path: Path) -> None:
    """A principal that only reads gets no channels and no jobs; one of an agent, its own jobs."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        gateway.channels = TwoChannels()
        write_agent(gateway.config.agents_dir, name="other")
        await gateway.library.reload()
        reader = await gateway.token("reader", "read", "talk")
        limited = await gateway.token("limited", "operate", "talk", agents=("other",))
        seen: list[list[ServerEvent]] = []
        for token in (reader, limited):
            async with gateway.client(token=token) as own, streaming(own) as frames:
                for agent in ("test", "other"):
                    job = {"agent": agent, "every": 3600, "task": "Greet."}
                    await client.post("/api/v1/schedules", json=job)
                made = await own.post(SESSIONS, json={"agent": "other"})
                last = made.json()["id"]
                await say(own, last, "hi")
                if token == limited:
                    seen.append(await until(frames, lambda each: each.event == "schedules"))
                else:
                    seen.append(await until(frames, lambda each: each.event == "rows"))

    (of_reader, of_limited) = [[each.event for each in frames] for frames in seen]
    assert not {"channels", "schedules"} & set(of_reader)
    assert "channels" not in of_limited
    jobs = seen[1][-1].data["schedules"]
    assert {job["agent"] for job in jobs} == {"other"}
