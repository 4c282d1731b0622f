"""`everturn serve`: where it listens, how it is found, how it stops, and what it refuses."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
from pathlib import Path

import anyio
import httpx2
import pytest
from support.command import everturn, start, write_agent
from support.model_api import Answer, open_model_api
from support.tables import table

KEY = {"OPENAI_API_KEY": "sk-test"}
READY = "Ctrl-C stops it."


def note_of(folder: Path) -> Path:
    """Return the note that a running gateway leaves."""
    return folder / ".everturn" / "gateway.json"


async def test_it_says_what_to_type_next_and_that_the_workspace_is_its_own(tmp_path: Path) -> None:
    """A person copies the lines; other commands find the gateway by its note."""
    write_agent(tmp_path)
    async with start("serve", "--port", "0", cwd=tmp_path) as running:
        said = await running.until(READY)
        note = json.loads(note_of(tmp_path).read_text())
        mode = note_of(tmp_path).stat().st_mode & 0o777
        command = next(line for line in said.splitlines() if "curl" in line)
        _, url, _, header, _, body = shlex.split(command)
        async with httpx2.AsyncClient(timeout=30) as http:
            kind = dict([header.split(": ")])
            answer = await http.post(url, headers=kind, content=body)
        # Two gateways on one journal would destroy it; the second names the first.
        second = await everturn("serve", "--port", "0", cwd=tmp_path)
        running.process.send_signal(signal.SIGTERM)
        done = await running.end()

    assert f"listens on {note['url']}" in said
    assert "everturn chat" in said
    assert note["pid"] == running.process.pid
    assert mode == 0o600
    assert answer.json()["choices"][0]["message"]["content"]
    assert second.code == 2
    assert f"in use by process {running.process.pid}" in second.err
    assert second.err.count("everturn: ") == 1
    assert done.code == 0
    assert not note_of(tmp_path).exists()


async def test_a_signal_lets_the_running_turn_finish(tmp_path: Path) -> None:
    """An orderly stop answers whom it can before it goes."""
    (tmp_path / "everturn.yaml").write_text("server: {port: 0}\n")
    async with open_model_api() as api:
        write_agent(tmp_path, provider="openai", model="fake-1", base_url=api.url)
        held = anyio.Event()
        api.script(Answer(pieces=("one ", "two"), hold={1: held}))
        async with (
            start("serve", cwd=tmp_path, env=KEY) as gateway,
            httpx2.AsyncClient(timeout=30) as http,
        ):
            await gateway.until(READY)
            url = json.loads(note_of(tmp_path).read_text())["url"]
            made = await http.post(f"{url}/api/v1/sessions", json={"agent": "helper"})
            path = f"{url}/api/v1/sessions/{made.json()['id']}/messages"
            answers: list[httpx2.Response] = []

            async def ask() -> None:
                answers.append(await http.post(path, json={"content": "hi"}))

            async with anyio.create_task_group() as tg:
                tg.start_soon(ask)
                await api.received(1)
                gateway.interrupt()
                assert gateway.process.stderr is not None
                said = b""
                while b"stopping; " not in said:
                    said += await gateway.process.stderr.receive()
                held.set()
            done = await gateway.end()

    assert answers[0].json()["content"] == "one two"
    assert done.code == 0


async def test_a_second_signal_stops_at_once_and_the_turn_goes_on_later(tmp_path: Path) -> None:
    """Who cannot wait loses nothing: the turn is answered by the next gateway."""
    (tmp_path / "everturn.yaml").write_text("server: {port: 0}\n")
    async with open_model_api() as api:
        write_agent(tmp_path, provider="openai", model="fake-1", base_url=api.url)
        api.script(
            Answer(pieces=("never ", "finished"), hold={1: anyio.Event()}), Answer(text="Later.")
        )
        async with start("serve", cwd=tmp_path, env=KEY) as gateway:
            await gateway.until(READY)
            async with start("chat", cwd=tmp_path, env=KEY) as person:
                await person.write("hello\n")
                await person.until("never")
                gateway.interrupt()
                assert gateway.process.stderr is not None
                said = b""
                while b"stopping; " not in said:
                    said += await gateway.process.stderr.receive()
                gateway.interrupt()
                done = await gateway.end()
                left_a_note = note_of(tmp_path).exists()
                person.process.kill()
        later = await everturn("chat", cwd=tmp_path, env=KEY, stdin=b"/status\n")
        kept = [*(tmp_path / ".everturn" / "sessions").glob("*/*.*")]

    assert done.code == 130
    assert "stopped at once" in done.err
    assert not left_a_note
    assert "turns     1, messages 2" in later.out
    assert any("Later." in file.read_text() for file in kept)


async def test_a_json_log_has_nothing_but_json(tmp_path: Path) -> None:
    """In a container both streams are one, and a line that is none breaks whoever reads them."""
    write_agent(tmp_path)
    (tmp_path / "agents" / "broken").mkdir()
    (tmp_path / "agents" / "broken" / "agent.yaml").write_text("kind: Agent\n")
    async with start("serve", "--port", "0", "--log-format", "json", cwd=tmp_path) as running:
        err = await running.until_error('"ready"')
        running.process.terminate()
        rest = await running.end()
    (tmp_path / "everturn.yaml").write_text("server: {prot: 1}\n")
    faulty = await everturn("serve", "--log-format", "json", cwd=tmp_path)

    lines = [json.loads(line) for line in (err + rest.err + rest.out).splitlines()]
    assert lines[-1]["message"].startswith("stopping")
    assert any("broken" in line["message"] for line in lines)
    assert "server.prot" in json.loads(faulty.err)["message"]
    assert faulty.out == ""


async def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    """The most common reason why a server does not start."""
    write_agent(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = await everturn("serve", "--port", str(port), cwd=tmp_path)

    assert done.code == 2
    assert f"127.0.0.1:{port}" in done.err
    assert "in use" in done.err
    assert not note_of(tmp_path).exists()


@table(
    ("arguments", "expected"),
    [
        (["--port", "70000"], "--port"),
        (["--port", "many"], "--port"),
        (["--host", "no such host"], "--host"),
        (["--host", "0.0.0.0"], "api_token"),  # noqa: S104 - it must be refused
        (["--host", "203.0.113.1", "--port", "0"], "api_token"),
        (["--config", "missing.yaml"], "missing.yaml"),
        (["--workspace", "/proc/no/such"], "cannot be created"),
        # A process on files would not know what the other one wrote; nothing is begun.
        (["--workers", "2", "--port", "0"], "cannot share the store 'file'"),
        (["--workers", "2", "--port", "0"], "take `store: {type: postgres}`"),
        (["--worker"], "for processes that `everturn serve --workers` starts"),
    ],
)
async def test_what_cannot_be_served_is_refused(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    """Closed by default, and each refusal says what to do."""
    write_agent(tmp_path)
    done = await everturn("serve", *arguments, cwd=tmp_path)

    assert done.code == 2
    assert expected in done.err


async def test_a_faulty_agent_does_not_stop_the_others(tmp_path: Path) -> None:
    """One bad file must not take the whole gateway down; it is told at the start."""
    write_agent(tmp_path, "good")
    bad = write_agent(tmp_path, "bad")
    bad.write_text(bad.read_text().replace("builtin", "nonsense"))
    async with start("serve", "--port", "0", cwd=tmp_path) as running:
        said = await running.until(READY)
        answer = await everturn("run", "2+3", cwd=tmp_path)
        refused = await everturn("run", "2+3", "--agent", "bad", cwd=tmp_path)
        running.interrupt()
        done = await running.end()

    assert "agents     good" in said
    assert answer.out.startswith("You said: “2+3”.")
    assert refused.code == 2
    assert "'nonsense'" in refused.err
    assert f"everturn: {bad}:" in done.err
    assert done.code == 0


async def test_without_any_agent_it_starts_and_says_so(tmp_path: Path) -> None:
    """Agents may be put there later; the reload finds them."""
    (tmp_path / "agents").mkdir()
    async with start("serve", "--port", "0", cwd=tmp_path) as running:
        await running.until(READY)
        running.interrupt()
        done = await running.end()

    assert "no agent can be used" in done.err
    assert done.code == 0


async def test_other_commands_use_the_token(tmp_path: Path) -> None:
    """The token stands in the configuration or in the environment, never on the command line."""
    write_agent(tmp_path)
    (tmp_path / "everturn.yaml").write_text(
        'server: {port: 0, host: "0.0.0.0", api_token: "${EVERTURN_API_TOKEN:-}"}\n'
    )
    token = {"EVERTURN_API_TOKEN": "sesame-open"}
    async with start("serve", cwd=tmp_path, env=token) as running:
        said = await running.until(READY)
        good = await everturn("run", "2+3", cwd=tmp_path, env=token)
        without = await everturn("run", "2+3", cwd=tmp_path)
        wrong = await everturn("run", "2+3", cwd=tmp_path, env={"EVERTURN_API_TOKEN": "closed"})
        url = json.loads(note_of(tmp_path).read_text())["url"]
        running.interrupt()
        done = await running.end()

    assert good.out.startswith("You said: “2+3”.")
    assert (without.code, wrong.code) == (2, 2)
    assert "EVERTURN_API_TOKEN" in without.err
    assert url.startswith("http://127.0.0.1:")
    assert "sesame" not in said + done.out + done.err + without.err


@table(
    "note",
    [
        "",
        "not JSON",
        "[]",
        '{"pid": "x", "url": 7}',
        '{"pid": 999999999, "url": "http://127.0.0.1:1"}',
        '{"pid": 0, "url": "http://127.0.0.1:1"}',
        pytest.param(
            f'{{"pid": {os.getpid()}, "url": "http://127.0.0.1:1"}}', id="alive, nobody listens"
        ),
        pytest.param(f'{{"pid": {os.getpid()}, "url": "no address"}}', id="alive, no address"),
        f'{{"pid": {10**30}, "url": ""}}',
    ],
)
async def test_a_stale_note_fools_nobody(tmp_path: Path, note: str) -> None:
    """A gateway that was killed leaves its note; the next command must work all the same."""
    write_agent(tmp_path)
    note_of(tmp_path).parent.mkdir()
    note_of(tmp_path).write_text(note)
    done = await everturn("run", "2+3", cwd=tmp_path)

    assert done.code == 0
    assert "You said: “2+3”." in done.out


async def test_a_busy_workspace_names_who_has_it(tmp_path: Path) -> None:
    """A chat without a gateway holds the workspace; a second one has to say why it cannot."""
    write_agent(tmp_path)
    async with start("chat", cwd=tmp_path) as person:
        await person.write("2+3\n")
        await person.until("You said: “2+3”.")
        done = await everturn("run", "2+3", cwd=tmp_path)

    assert done.code == 2
    assert f"in use by process {person.process.pid}" in done.err


async def test_a_gateway_whose_lock_is_removed_ends_and_says_why(tmp_path: Path) -> None:
    """Two on one workspace would answer everything twice; the next start finds all as it was."""
    write_agent(tmp_path)
    async with start("serve", "--port", "0", cwd=tmp_path) as running:
        await running.until(READY)
        url = json.loads(note_of(tmp_path).read_text())["url"]
        async with httpx2.AsyncClient(timeout=30) as http:
            made = await http.post(f"{url}/api/v1/sessions", json={"agent": "helper"})
            path = f"{url}/api/v1/sessions/{made.json()['id']}"
            answered = await http.post(f"{path}/messages", json={"content": "hi"})
        running.process.send_signal(signal.SIGSTOP)  # it has not noticed yet
        (tmp_path / ".everturn" / "workspace.lock").unlink()
        refused = await everturn("serve", "--port", "0", cwd=tmp_path)
        running.process.send_signal(signal.SIGCONT)
        done = await running.end()
    async with start("serve", "--port", "0", cwd=tmp_path) as again:
        await again.until(READY)
        url = json.loads(note_of(tmp_path).read_text())["url"]
        async with httpx2.AsyncClient(timeout=30) as http:
            rows = (await http.get(f"{url}/api/v1/sessions")).json()
        again.process.send_signal(signal.SIGTERM)
        await again.end()

    assert answered.status_code == 200
    assert refused.code == 2
    assert "is in use by process" in refused.err
    assert done.code == 1
    assert "workspace.lock: was removed or replaced" in done.err
    assert [row["id"] for row in rows["sessions"]] == [made.json()["id"]]
