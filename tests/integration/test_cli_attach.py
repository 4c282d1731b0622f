"""`everturn attach`: looking on, and speaking, in a session that lives elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
from support.command import everturn, start, terminal, write_agent
from support.model_api import Answer, open_model_api
from support.tables import table

KEY = {"OPENAI_API_KEY": "sk-test"}
READY = "Ctrl-C stops it."


async def new_session(folder: Path, *prompts: str) -> str:
    """Return the id of a session in which these prompts were answered."""
    session = ""
    for prompt in prompts:
        more = ["--session", session] if session else []
        done = await everturn("run", prompt, "--json", *more, cwd=folder, env=KEY)
        session = json.loads(done.out)["session_id"]
    return session


async def test_two_people_see_the_same_session_live_and_each_can_stop_it(tmp_path: Path) -> None:
    """One follows in a terminal what another one asks, and ends what runs away."""
    (tmp_path / "everturn.yaml").write_text("server: {port: 0}\n")
    async with open_model_api() as api:
        write_agent(tmp_path, provider="openai", model="fake-1", base_url=api.url)
        async with start("serve", cwd=tmp_path, env=KEY) as gateway:
            await gateway.until(READY)
            session = await new_session(tmp_path, "an old question")
            held = anyio.Event()
            api.script(Answer(pieces=("Good\n\n", "morning."), hold={1: held}))
            async with terminal("attach", session, cwd=tmp_path, env=KEY) as watcher:
                async with start("chat", "--session", session, cwd=tmp_path, env=KEY) as other:
                    await watcher.expect("an old question", "All right.", "you>")
                    await other.write("hello\n")
                    await watcher.expect("hello", "Good")
                    held.set()
                    await watcher.expect("morning.", "you>")
                    api.script(Answer(text="To both of you."))
                    await watcher.enter("and from me")
                    await watcher.expect("and from me", "To both of you.", "you>")
                    await watcher.enter("/status")
                    await watcher.expect("turns     3")
                await watcher.press_control("d")
                code, _ = await watcher.end()

            api.script(Answer(pieces=("never\n\n", "finished"), hold={1: anyio.Event()}))
            async with start("run", "two", "-s", session, cwd=tmp_path, env=KEY) as other:
                await other.until("never")
                async with terminal("attach", session, cwd=tmp_path, env=KEY) as watcher:
                    await watcher.expect("never")
                    await watcher.enter("/stop")
                    await watcher.expect("(cancelled)")
                    await watcher.press_control("d")
                    late_code, _ = await watcher.end()
                done = await other.end()

    assert (code, late_code) == (0, 0)
    assert done.code == 1
    assert "cancelled" in done.err


async def test_a_script_reads_and_speaks_until_the_session_ends(tmp_path: Path) -> None:
    """It goes when its answers came; looking on is safe; `--last` is as long as wanted."""
    write_agent(tmp_path)
    session = await new_session(tmp_path, "1+1", "2+2", "3+3")
    async with start("attach", session, "--read-only", "--last", "2", cwd=tmp_path) as watcher:
        await watcher.write("not for anybody\n")
        said = await watcher.until("You said: “3+3”.")
        watcher.interrupt()
        looked = await watcher.end()
    shown = await everturn("sessions", "show", session, cwd=tmp_path)
    spoke = await everturn("attach", session, cwd=tmp_path, stdin=b"2+3\n/status\n7*6\n")
    first = await everturn("attach", session, cwd=tmp_path, stdin=b"/reset\n")
    ended = await everturn("attach", session, "--read-only", cwd=tmp_path)
    refused = await everturn("attach", session, "--last", "0", cwd=tmp_path, stdin=b"8+8\n")

    assert looked.code == 0
    assert "1+1" not in said
    assert "You said: “2+2”." in said
    assert "not for anybody" not in shown.out
    assert spoke.code == 0
    assert "user: 1+1" in spoke.out
    assert "You said: “2+3”." in spoke.out
    assert "You said: “7*6”." in spoke.out
    assert first.code == 0
    assert ended.code == 0
    assert "(the session has ended: reset)" in ended.out
    assert "You said: “8+8”." not in refused.out


@table("session", ["nope", "../../etc/passwd", "", "a b"])
async def test_an_unknown_session_is_named(tmp_path: Path, session: str) -> None:
    """A mistyped id is the usual mistake; a path must never be more than that."""
    write_agent(tmp_path)
    done = await everturn("attach", session, cwd=tmp_path)

    assert done.code == 2
    assert f"there is no session {session!r}" in done.err
