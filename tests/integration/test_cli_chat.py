"""`everturn chat` in a real terminal and through pipes, with a gateway and without one."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
from support.command import Done, everturn, start, terminal, write_agent
from support.model_api import Answer, ModelApi, open_model_api
from support.patience import WAIT_S
from support.tables import table

KEY = {"OPENAI_API_KEY": "sk-test"}


@asynccontextmanager
async def model(folder: Path) -> AsyncGenerator[ModelApi]:
    """Open a model API and write the agent `helper` that asks it."""
    async with open_model_api() as api:
        write_agent(folder, provider="openai", model="fake-1", base_url=api.url)
        (folder / "everturn.yaml").write_text("server: {port: 0}\n")
        yield api


@asynccontextmanager
async def gateway(folder: Path, *, served: bool) -> AsyncGenerator[None]:
    """Run `everturn serve` in the folder, if it is wanted."""
    async with AsyncExitStack() as stack:
        if served:
            running = await stack.enter_async_context(start("serve", cwd=folder, env=KEY))
            await running.until("Ctrl-C stops it")
        yield


@table("served", [False, True], ids=["in process", "through a gateway"])
async def test_a_person_talks_to_an_agent(tmp_path: Path, served: bool) -> None:
    """The main job of the command: replies stream, Ctrl-C cancels, and the conversation stays."""
    held = anyio.Event()
    async with model(tmp_path) as api, gateway(tmp_path, served=served):
        api.script(
            Answer(pieces=("Good\n\n", "morning."), hold={1: held}),
            Answer(pieces=("This will\n\n", "never end"), hold={1: anyio.Event()}),
            Answer(text="Still here."),
        )
        async with terminal("chat", cwd=tmp_path, env=KEY) as person:
            await person.expect("helper: session", "you>")
            await person.enter("hello")
            await person.expect("Good")
            held.set()
            await person.expect("morning.", "you>")

            await person.enter("go on for ever")
            request = await api.received(2)
            await person.expect("This will")
            await person.press_control("c")
            await person.expect("(cancelled)", "you>")
            with anyio.fail_after(WAIT_S):
                await request.left.wait()

            await person.enter("are you there?")
            await person.expect("Still here.", "you>")
            await person.enter("/status")
            status = await person.expect("turns     3", "tokens", "you>")
            await person.enter("/reset")
            await person.expect("(the session has ended", "you>")
            await person.enter("/status")
            await person.expect("no session yet", "you>")
            await person.press_control("d")
            code, _ = await person.end()

    assert code == 0
    assert "(active)" in status
    roles = [m["role"] for m in api.requests[2].json()["messages"]]
    assert roles[-1] == "user"


def texts_below(folder: Path, pattern: str) -> list[str]:
    """Return what the files of a pattern hold."""
    return [path.read_text(encoding="utf-8") for path in sorted(folder.glob(pattern))]


async def test_the_prompt_stays_while_an_answer_runs(tmp_path: Path) -> None:
    """A person writes on, stops what runs, and goes from one session to another and back."""
    async with model(tmp_path) as api:
        api.script(Answer(pieces=("This will\n\n", "never end"), hold={1: anyio.Event()}))
        api.default = Answer(text="| a | b |\n|---|---|\n| 1 | **2** |")
        async with terminal("chat", cwd=tmp_path, env={**KEY, "NO_COLOR": "1"}) as person:
            await person.expect("you>")
            await person.enter("a long story")
            await person.expect("This will")
            await person.enter("/status")
            await person.expect("(answering)", "you>")
            await person.enter("/stop")
            await person.expect("(cancelled)", "you>")
            await person.enter("/new")
            await person.expect("(a new session: ")
            await person.type("\x1b[200~a table\nplease\x1b[201~\r")
            table = await person.expect("────", "you>")
            await person.enter("/resume long story")
            await person.expect("it had ended", "a long story", "you>")
            await person.enter("go on")
            await person.expect("────", "you>")
            await person.press_control("d")
            code, _ = await person.end()
        await everturn("chat", cwd=tmp_path, stdin=b"and tomorrow\n", env=KEY)
    asked = [request.json()["messages"] for request in api.requests]

    assert code == 0
    logs = texts_below(tmp_path, ".everturn/sessions/*/events*.jsonl")
    assert any('"partial":"This will' in log for log in logs)
    assert "a long story" in str(asked[3])  # what was gone to is where it goes on
    assert "**" not in table
    assert "a  b" in table
    assert asked[1][-1]["content"].endswith("a table\nplease")
    assert "a long story" in str(asked[2])
    assert "a table" not in str(asked[2])


async def test_a_terminal_without_escape_sequences_has_a_prompt_and_shows_each_line_once(
    tmp_path: Path,
) -> None:
    """Its own echo shows what is typed; questions are answered there, and Ctrl-C leaves."""
    with write_agent(tmp_path).open("a") as file:
        file.write("  tools: [{type: builtin, name: bash}]\n")
    env = {"TERM": "dumb"}
    async with terminal("chat", cwd=tmp_path, env=env) as person:
        await person.expect("you> ")
        await person.enter("good morning")
        said = await person.expect("You said: ", "you> ")
        await person.enter('call bash {"command": "touch done.txt"}')
        await person.expect("allow it? ")
        await person.enter("n")
        await person.expect("you> ")
        await person.press_control("c")
        code, rest = await person.end(escapes=True)

    assert code == 130
    assert said.count("good morning") == 2  # typed, and said by the agent
    assert "\x1b" not in rest


async def test_the_same_person_finds_the_same_conversation_again(tmp_path: Path) -> None:
    """Yesterday's conversation goes on today, with a gateway or without one."""
    write_agent(tmp_path)
    first = await everturn("chat", cwd=tmp_path, stdin=b"remember blue\n")
    async with start("serve", "--port", "0", cwd=tmp_path) as running:
        await running.until("Ctrl-C stops it")
        second = await everturn("chat", cwd=tmp_path, stdin=b"again\n/status\n")
    new = await everturn("chat", "--new", cwd=tmp_path, stdin=b"again\n/status\n")

    assert (first.code, second.code, new.code) == (0, 0, 0)
    assert "I can see 2 messages of yours" in second.out
    assert "turns     2" in second.out
    assert "You said: “again”. I am" in new.out
    assert "turns     1" in new.out


async def test_an_answer_that_ends_before_the_next_chat_is_open_is_shown(tmp_path: Path) -> None:
    """The gateway that a chat opens may have answered before the chat has found its session."""
    async with model(tmp_path) as api:
        api.script(Answer(pieces=("never ", "finished"), hold={1: anyio.Event()}))
        api.default = Answer(text="Here is your answer.")
        async with start("chat", cwd=tmp_path, env=KEY) as person:
            await person.write("a question\n")
            await person.until("never")
            person.process.kill()
            await person.process.wait()
        later = await everturn("chat", cwd=tmp_path, env=KEY, stdin=b"/status\n")
        third = await everturn("chat", cwd=tmp_path, env=KEY, stdin=b"/status\n")

    assert "Here is your answer." in later.out
    assert "Here is your answer." not in third.out


async def test_an_answer_that_was_interrupted_goes_on_in_the_next_chat(tmp_path: Path) -> None:
    """The terminal was closed in the middle of an answer: the answer must not be lost."""
    seen = anyio.Event()
    async with model(tmp_path) as api:
        api.script(
            Answer(pieces=("never ", "finished"), hold={1: anyio.Event()}),
            Answer(pieces=("Here is ", "your answer."), hold={1: seen}),
        )
        async with start("chat", cwd=tmp_path, env=KEY) as person:
            await person.write("a question\n")
            await person.until("never")
            person.process.kill()
            await person.process.wait()
        async with start("chat", cwd=tmp_path, env=KEY) as person:
            await person.until("Here is")
            seen.set()
            later = await person.end(b"/status\n")

    assert later.code == 0
    assert "your answer." in later.out
    assert "turns     1" in later.out


async def test_ctrl_c_at_the_prompt_clears_then_warns_then_leaves(tmp_path: Path) -> None:
    """A person who cancels a line must not be thrown out of the conversation."""
    write_agent(tmp_path)
    async with terminal("chat", cwd=tmp_path) as person:
        await person.expect("you>")
        await person.type("a line that is not meant")
        await person.expect("meant")
        await person.press_control("c")
        await person.press_control("c")
        await person.expect("(Ctrl-C again or Ctrl-D leaves)", "you>")
        await person.enter("2+3")
        await person.expect("You said: “2+3”.", "you>")
        await person.enter("/nonsense")
        await person.expect("there is no command /nonsense", "you>")
        await person.press_control("c")
        await person.expect("(Ctrl-C again or Ctrl-D leaves)", "you>")
        await person.press_control("c")
        code, _ = await person.end()

    assert code == 0  # a shell's prompt must not turn red over a typo that was told long ago


@table("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_leaves_the_terminal_in_order(
    tmp_path: Path, number: signal.Signals
) -> None:
    """A terminal left in raw mode shows nothing of what is typed next."""
    write_agent(tmp_path)
    async with terminal("chat", cwd=tmp_path) as person:
        await person.expect("you>")
        person.signal(number)
        code, said = await person.end(escapes=True)

    assert code == 130
    assert "\x1b[?2004l" in said  # bracketed paste is off again


async def test_alt_enter_makes_a_second_line_and_history_comes_back(tmp_path: Path) -> None:
    """Longer messages are typed in lines, and typed once."""
    write_agent(tmp_path)
    async with terminal("chat", cwd=tmp_path) as person:
        await person.expect("you>")
        await person.type("first line\x1b\rsecond line\r")
        await person.expect("built-in", "you>")
        await person.enter("how many messages")
        await person.expect("I can see", "you>")
        await person.enter("/exit")
        await person.end()
    async with terminal("chat", cwd=tmp_path) as person:
        await person.expect("goes on after 2 turns", "you>")
        await person.type("\x1b[A\x1b[A\x1b[A\x1b[A\r")
        shown = await person.expect("first line", "second line", "3 messages of yours", "you>")
        await person.press_control("d")
        await person.end()
    history = tmp_path / ".everturn" / "terminal_history"

    assert shown
    assert "+first line\n+second line\n" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


async def test_a_second_ctrl_c_leaves_an_answer_that_cannot_be_cancelled(tmp_path: Path) -> None:
    """Whatever hangs, a person must be able to leave."""
    async with model(tmp_path) as api, start("serve", cwd=tmp_path, env=KEY) as running:
        await running.until("Ctrl-C stops it")
        api.script(Answer(pieces=("never\n\n", "finished"), hold={1: anyio.Event()}))
        async with terminal("chat", cwd=tmp_path, env=KEY) as person:
            await person.expect("you>")
            await person.enter("hello")
            await person.expect("never")
            running.process.send_signal(signal.SIGSTOP)  # the gateway hangs
            await person.press_control("c")
            await person.press_control("c")
            code, _ = await person.end()

    assert code == 130


async def test_a_failed_turn_is_told_and_the_chat_goes_on(tmp_path: Path) -> None:
    """A wrong key is no reason to lose the terminal; the exit code of a script says it failed."""
    async with model(tmp_path) as api:
        api.default = Answer(status=401, body=b'{"error": {"message": "bad key"}}')
        done = await everturn("chat", cwd=tmp_path, env=KEY, stdin=b"hello\n/status\n")

    assert done.code == 1
    assert "no answer: " in done.out
    assert "turns     1" in done.out


async def test_lines_that_are_no_messages_are_refused_one_by_one(tmp_path: Path) -> None:
    """One bad line of a file must not stop those after it."""
    write_agent(tmp_path)
    lines = b"\xff\xfe\n" + b"x" * (3 * 1024 * 1024) + b"\n/nonsense\n\n2+3\n"
    done = await everturn("chat", cwd=tmp_path, stdin=lines)

    assert done.code == 1
    assert "line 1 of the input is not UTF-8: byte 1" in done.out
    assert "line 2 of the input is longer than" in done.out
    assert "there is no command /nonsense" in done.out
    assert "You said: “2+3”." in done.out


@table(
    ("arguments", "expected"),
    [
        (["chat", "nobody"], "there is no agent 'nobody'; there are: helper"),
        (["chat", "--session", "nope"], "there is no session 'nope'"),
        (["chat", "--session", "../../etc"], "there is no session '../../etc'"),
        (["chat", "--session", "x", "--new"], "--session names a session"),
        (["chat", "--workspace", "/dev/null/x"], "cannot be created"),
    ],
)
async def test_what_cannot_be_opened_is_named(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    """Bad input is one line and exit code 2."""
    write_agent(tmp_path)
    done: Done = await everturn(*arguments, cwd=tmp_path)

    assert done.code == 2
    assert done.err.startswith("everturn: ")
    assert expected in done.err
    assert done.err.count("\n") == 1


async def test_the_agent_is_the_one_there_is_or_has_to_be_chosen(tmp_path: Path) -> None:
    """Where there is none it says how to get one; to talk to a wrong one is worse than that."""
    nobody = await everturn("chat", cwd=tmp_path)
    write_agent(tmp_path, "one")
    write_agent(tmp_path, "two")
    undecided = await everturn("chat", cwd=tmp_path)
    chosen = await everturn("chat", "two", cwd=tmp_path, stdin=b"2+3\n/status\n")
    write_agent(tmp_path, "assistant")
    by_name = await everturn("chat", cwd=tmp_path, stdin=b"/status\n")

    assert (nobody.code, undecided.code, chosen.code, by_name.code) == (2, 2, 0, 0)
    assert "everturn init" in nobody.err
    assert "which agent? There are: one, two" in undecided.err
    assert "agent     two" in chosen.out
    assert "agent     assistant" in by_name.out
