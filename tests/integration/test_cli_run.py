"""`everturn run`: one message in, one answer out, and an exit code that a script can use."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
from support.command import everturn, start, write_agent, write_scripted
from support.model_api import Answer, open_model_api
from support.patience import WAIT_S
from support.tables import table

KEY = {"OPENAI_API_KEY": "sk-test"}

SLOW = """\
replies:
  - chunks: ["never ", "finished"]
    delay_ms: 3600000
"""


async def test_the_answer_is_printed_and_nothing_else(tmp_path: Path) -> None:
    """Other commands read it; a run neither depends on what was asked nor disturbs the chat."""
    write_agent(tmp_path)
    await everturn("chat", cwd=tmp_path, stdin=b"remember blue\n")
    done = await everturn("run", "2+3", cwd=tmp_path)
    from_stdin = await everturn("run", "-", cwd=tmp_path, stdin=b"2+3\n")
    counted = await everturn("run", "how many messages", "--json", cwd=tmp_path)
    chat = await everturn("chat", cwd=tmp_path, stdin=b"/status\n")

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("You said: “2+3”.")
    assert from_stdin.code == 0
    assert "You said: “2+3”." in from_stdin.out
    assert json.loads(counted.out)["turn"] == 1
    assert "turns     1" in chat.out


@table("served", [False, True], ids=["in process", "through a gateway"])
async def test_json_tells_all_and_the_session_goes_on(tmp_path: Path, served: bool) -> None:
    """A script keeps the session's id and asks again; both ways print the same."""
    write_agent(tmp_path)

    async def talk() -> tuple[dict[str, object], dict[str, object]]:
        first = await everturn("run", "remember blue", "--json", cwd=tmp_path)
        one = json.loads(first.out)
        more = ("--session", one["session_id"])
        second = await everturn("run", "again", "--json", *more, cwd=tmp_path)
        return one, json.loads(second.out)

    if served:
        async with start("serve", "--port", "0", cwd=tmp_path) as running:
            await running.until("Ctrl-C stops it")
            one, two = await talk()
    else:
        one, two = await talk()

    assert list(one) == ["session_id", "agent", "turn", "outcome", "text", "error", "usage"]
    assert (one["agent"], one["turn"], one["outcome"]) == ("helper", 1, "answered")
    assert (two["session_id"], two["turn"]) == (one["session_id"], 2)
    assert "2 messages" in str(two["text"])


async def test_a_turn_without_an_answer_is_exit_code_1(tmp_path: Path) -> None:
    """A script must not take a failure for an answer."""
    async with open_model_api() as api:
        api.default = Answer(status=401, body=b'{"error": {"message": "Incorrect key"}}')
        write_agent(tmp_path, provider="openai", model="fake-1", base_url=api.url)
        done = await everturn("run", "hello", cwd=tmp_path, env=KEY)
        as_json = await everturn("run", "hello", "--json", cwd=tmp_path, env=KEY)

    assert (done.code, as_json.code) == (1, 1)
    assert done.out == ""
    assert done.err.startswith("everturn: no answer: ")
    assert json.loads(as_json.out)["outcome"] == "failed"
    assert json.loads(as_json.out)["error"]


async def test_a_deadline_cancels_the_turn(tmp_path: Path) -> None:
    """A script that waits no longer must not leave a turn that costs money."""
    write_scripted(tmp_path, SLOW)
    done = await everturn("run", "hello", "--json", "--timeout", "0.2", cwd=tmp_path)
    session = json.loads(done.out)["session_id"]
    shown = await everturn("sessions", "show", session, cwd=tmp_path)

    assert done.code == 1
    assert "no answer within 0.2 s" in done.err
    assert "(active)" in shown.out


@table("served", [False, True], ids=["in process", "through a gateway"])
async def test_ctrl_c_cancels_the_turn(tmp_path: Path, served: bool) -> None:
    """130 is what a shell expects of an interrupted command, and the model call is closed."""
    (tmp_path / "everturn.yaml").write_text("server: {port: 0}\n")
    async with open_model_api() as api:
        write_agent(tmp_path, provider="openai", model="fake-1", base_url=api.url)
        api.script(Answer(pieces=("never ", "finished"), hold={1: anyio.Event()}))

        async def interrupt() -> int:
            async with start("run", "hello", cwd=tmp_path, env=KEY) as running:
                await running.until("never")
                running.interrupt()
                code = (await running.end()).code
                with anyio.fail_after(WAIT_S):
                    await api.requests[0].left.wait()
                return code

        if served:
            async with start("serve", cwd=tmp_path, env=KEY) as gateway:
                await gateway.until("Ctrl-C stops it")
                code = await interrupt()
        else:
            code = await interrupt()

    assert code == 130


@table(
    ("arguments", "stdin", "expected"),
    [
        (["run", ""], b"", "the message is empty"),
        (["run", " \n "], b"", "the message is empty"),
        (["run", "-"], b"", "the message is empty"),
        (["run", "-"], b"caf\xe9", "the input is not UTF-8: byte 4"),
        (["run", "-"], b"x" * 2 * 1024 * 1024, "2097152 bytes"),
        (["run", b"caf\xe9"], b"", "not valid Unicode"),
        (["run", "hi", "--agent", "nobody"], b"", "there is no agent 'nobody'; there are: helper"),
        (["run", "hi", "--session", "nope"], b"", "there is no session 'nope'"),
        (["run", "hi", "--session", "../../etc"], b"", "there is no session"),
        (["run", "hi", "--session", "x", "--agent", "y"], b"", "leave --agent out"),
        (["run", "hi", "--timeout", "0"], b"", "--timeout"),
        (["run", "hi", "--config", "missing.yaml"], b"", "missing.yaml"),
        (["run"], b"", "missing argument"),
    ],
)
async def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, arguments: list[str | bytes], stdin: bytes, expected: str
) -> None:
    """A clear error that names the place, on stderr, and nothing accepted."""
    write_agent(tmp_path)
    done = await everturn(*arguments, cwd=tmp_path, stdin=stdin)

    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("everturn: ")
    assert expected in done.err
    assert done.err.count("\n") == 1


async def test_bad_input_through_a_gateway_is_told_the_same(tmp_path: Path) -> None:
    """Whether a gateway runs or not must make no difference to a script."""
    write_agent(tmp_path)
    async with start("serve", "--port", "0", cwd=tmp_path) as running:
        await running.until("Ctrl-C stops it")
        large = await everturn("run", "-", cwd=tmp_path, stdin=b"x" * 2 * 1024 * 1024)
        nobody = await everturn("run", "hi", "--agent", "nobody", cwd=tmp_path)
        nowhere = await everturn("run", "hi", "--session", "nope", cwd=tmp_path)
        garbled = await everturn("run", b"caf\xe9", cwd=tmp_path)

    assert [d.code for d in (large, nobody, nowhere, garbled)] == [2, 2, 2, 2]
    assert "bytes" in large.err
    assert "there is no agent 'nobody'" in nobody.err
    assert "there is no session 'nope'" in nowhere.err
    assert "Unicode" in garbled.err


async def test_every_fault_of_the_configuration_is_told(tmp_path: Path) -> None:
    """Someone who repairs a file wants to see all that is wrong with it, with its line."""
    (tmp_path / "everturn.yaml").write_text("server:\n  port: many\n  hots: x\n")
    done = await everturn("run", "hello", cwd=tmp_path)

    assert done.code == 2
    assert "everturn.yaml:2: server.port" in done.err
    assert "everturn.yaml:3: server.hots" in done.err


@table("named", [(), ("--agent", "helper")], ids=["by default", "by name"])
async def test_a_missing_key_is_named(tmp_path: Path, named: tuple[str, ...]) -> None:
    """The first thing that goes wrong with a real model is its key."""
    agent = write_agent(tmp_path, provider="openai", model="gpt-5-mini")
    done = await everturn("run", "hello", *named, cwd=tmp_path)

    assert done.code == 2
    assert f"{agent}:" in done.err
    assert "OPENAI_API_KEY" in done.err
