"""What the model sees, from the command line and in a chat."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
from support.command import everturn, start, terminal, write_agent
from support.model_api import Answer, open_model_api
from support.tables import table

KEY = {"OPENAI_API_KEY": "sk-test"}
WORDS = " and so on" * 80
READY = "Ctrl-C stops it."


async def talk(folder: Path, turns: int) -> str:
    """Return the id of a session with so many turns, worth summarising."""
    lines = "".join(f"{number}+{number}{WORDS}\n" for number in range(turns))
    await everturn("chat", cwd=folder, stdin=lines.encode())
    listed = await everturn("sessions", "list", "--json", cwd=folder)
    return str(json.loads(listed.out)[0]["session_id"])


async def test_a_report_is_shown_with_a_gateway_and_without(tmp_path: Path) -> None:
    """An operator looks at any session, at any time, and a script reads the same."""
    write_agent(tmp_path)
    session = await talk(tmp_path, 2)
    alone = await everturn("context", "show", session, cwd=tmp_path)
    as_json = await everturn("context", "show", session, "--json", cwd=tmp_path)
    narrow = await everturn("context", "show", session, cwd=tmp_path, env={"COLUMNS": "40"})
    async with start("serve", "--port", "0", cwd=tmp_path) as gateway:
        await gateway.until(READY)
        served = await everturn("context", "show", session, cwd=tmp_path)
        served_json = await everturn("context", "show", session, "--json", cwd=tmp_path)
    report = json.loads(as_json.out)

    assert alone.out == served.out
    assert report == json.loads(served_json.out)
    assert alone.out.startswith("context   everturn, builtin\n")
    assert "messages  4 shown, 0 hidden\n" in alone.out
    assert report["regions"]["free"] > 0
    assert max(map(len, narrow.out.splitlines())) <= 40
    assert "\x1b" not in alone.out


async def test_a_summary_and_then_what_it_hid_is_told(tmp_path: Path) -> None:
    """Make room, look at it, and ask of an old message where it went."""
    write_agent(tmp_path)
    session = await talk(tmp_path, 9)
    early = await everturn("context", "explain", session, "45", cwd=tmp_path)
    done = await everturn("compact", session, "--focus", "sums", cwd=tmp_path)
    again = await everturn("compact", session, "--json", cwd=tmp_path)
    shown = await everturn("context", "show", session, cwd=tmp_path)
    more = await everturn("run", "1+1", "--session", session, "--json", cwd=tmp_path)
    later = await everturn("context", "explain", session, "48", cwd=tmp_path)
    as_json = await everturn("context", "explain", session, "48", "--json", cwd=tmp_path)

    assert "the oldest 10 messages are summarised by how each of them began" in done.out
    assert json.loads(again.out)["done"] is False
    assert "10 hidden (10 summarised)" in shown.out
    assert more.code == 0
    assert "verdict   same: " in early.out
    assert "summarised" not in early.out
    assert "verdict   same: " in later.out
    assert any(line.startswith("2-25") and "summarised" in line for line in later.out.splitlines())
    assert json.loads(as_json.out)["messages"][0]["by_seq"] == 47


async def test_bad_input_is_told_in_a_line(tmp_path: Path) -> None:
    """No traceback, the right numbers, and an exit code that a script sees."""
    write_agent(tmp_path)
    session = await talk(tmp_path, 1)
    nobody = await everturn("context", "show", "nope", cwd=tmp_path)
    wrong = await everturn("context", "explain", session, "1", cwd=tmp_path)
    zero = await everturn("context", "explain", session, "0", cwd=tmp_path)
    no_text = await everturn("compact", session, b"--focus=\xff", cwd=tmp_path)
    too_long = await everturn("compact", session, f"--focus={'x' * 2_001}", cwd=tmp_path)
    nothing = await everturn("compact", session, cwd=tmp_path)

    assert (nobody.code, wrong.code, zero.code) == (2, 2, 2)
    assert "there is no session 'nope'" in nobody.err
    assert "requests were sent for the events 5" in wrong.err
    assert (no_text.code, too_long.code, nothing.code) == (2, 2, 0)
    assert "the focus is not valid Unicode text at character 0" in no_text.err
    assert "at most 2,000 are accepted" in too_long.err
    assert nothing.out.startswith("Nothing to compact yet")


async def test_a_script_asks_for_both_in_a_chat_and_while_it_looks_on(tmp_path: Path) -> None:
    """The commands work where no terminal is."""
    write_agent(tmp_path)
    session = await talk(tmp_path, 9)
    chat = await everturn("chat", cwd=tmp_path, stdin=b"/context\n/compact the sums\n/context\n")
    looked_on = await everturn("attach", session, cwd=tmp_path, stdin=b"/context\n/compact\n")
    fresh = await everturn("chat", "--new", cwd=tmp_path, stdin=b"/reset\n/context\n/compact\n")

    assert (chat.code, looked_on.code, fresh.code) == (0, 0, 0)
    before, after = chat.out.split("the oldest 10 messages are summarised")
    assert "18 shown, 0 hidden" in before
    assert "8 shown, 10 hidden (10 summarised)" in after
    assert "8 shown, 10 hidden" in looked_on.out
    assert "Nothing to compact yet" in looked_on.out
    assert fresh.out.count("no session yet; your message starts one") == 2


@table("served", [False, True], ids=["in process", "through a gateway"])
async def test_a_person_looks_and_makes_room_without_waiting(
    tmp_path: Path,
    served: bool,
) -> None:
    """A summary takes a while; the person goes on, and finds it made later."""
    held = anyio.Event()
    async with open_model_api() as api:
        write_agent(tmp_path, provider="openai", model="fake-1", base_url=api.url)
        (tmp_path / "everturn.yaml").write_text("server: {port: 0}\n")
        async with anyio.create_task_group() as tg:
            if served:
                await tg.start(_serve, tmp_path)
            api.script(*[Answer(text=f"answer {number}{WORDS}") for number in range(9)])
            lines = "".join(f"question {number}\n" for number in range(9))
            await everturn("chat", cwd=tmp_path, env=KEY, stdin=lines.encode())
            async with terminal("chat", cwd=tmp_path, env=KEY) as person:
                await person.expect("you>")
                await person.enter("/context")
                await person.expect("context   everturn, fake-1", "free", "18 shown", "you>")

                api.script(Answer(pieces=("They asked ", "nine things."), hold={1: held}))
                await person.enter("/compact the ninth")
                await person.expect("(summarising; you can go on meanwhile)")
                asked = await api.received(10)
                await person.enter("/status")
                await person.expect("turns     9", "you>")
                held.set()
                await person.expect("are summarised by a model", "you>")
                await person.enter("/context")
                await person.expect("by a model", "you>")
                await person.press_control("d")
                code, _ = await person.end()
            tg.cancel_scope.cancel()

    assert code == 0
    assert "the ninth" in asked.json()["messages"][-1]["content"]


async def _serve(folder: Path, *, task_status: anyio.abc.TaskStatus[None]) -> None:
    async with start("serve", cwd=folder, env=KEY) as gateway:
        await gateway.until(READY)
        task_status.started()
        await anyio.sleep_forever()
