"""The commands that set up and check: init, agent, completions, version, help, local pull."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import httpx2
from support.command import everturn, start, terminal, write_agent
from support.tables import table

ALL = (
    *("setup", "init", "serve", "chat", "run", "attach", "sessions", "agent", "schedule"),
    *("doctor", "local", "completions", "version"),
)


def names_in(folder: Path) -> list[str]:
    """Return the names of what is in a folder."""
    return sorted(path.name for path in folder.iterdir())


async def test_help_lists_every_command(tmp_path: Path) -> None:
    """What help does not list is never found."""
    done = await everturn("--help", cwd=tmp_path)

    assert done.code == 0
    assert [name for name in ALL if f" {name} " not in done.out] == []


async def test_nothing_is_loaded_before_it_is_needed(tmp_path: Path) -> None:
    """Help and completion answer at once only as long as nobody imports the gateway for them.

    Most commands look at no job; and libraries of platforms take seconds and a hundred megabytes.
    """
    heavy = "anyio fastapi httpx2 orjson prompt_toolkit pydantic uvicorn watchfiles yaml"
    code = (
        "import sys, everturn_gateway.cli\n"
        "try: everturn_gateway.cli.run(['--help'])\n"
        "except SystemExit: pass\n"
        f"print('HELP', *(m for m in {heavy.split()!r} if m in sys.modules))\n"
        "from everturn_gateway.commands import channel, chat, run, sessions\n"
        "jobs = [m for m in sys.modules if m == 'cronsim' or 'everturn_gateway.scheduler' in m]\n"
        "print('COMMANDS', *jobs)\n"
        "import everturn_gateway.app, everturn_gateway.commands.serving.serve\n"
        "print('SERVING', *({'aiogram', 'aiohttp', 'discord'} & sys.modules.keys()))"
    )
    done = await anyio.run_process([sys.executable, "-c", code], cwd=tmp_path)

    assert done.stdout.decode().splitlines()[-3:] == ["HELP", "COMMANDS", "SERVING"]


@table(
    ("arguments", "expected"),
    [
        (["bogus"], "no such command 'bogus'"),
        (["sessions", "bogus"], "no such command 'bogus'"),
        (["--bogus"], "--bogus"),
        (["serve", "--bogus"], "--bogus"),
        (["sessions", "show"], "missing argument"),
        (["completions", "cmd"], "'cmd'"),
    ],
)
async def test_a_slip_on_the_command_line_is_one_line(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    """Nobody reads a page to find out which word was wrong."""
    done = await everturn(*arguments, cwd=tmp_path)

    assert done.code == 2
    assert expected in done.err.lower()
    assert done.err.count("\n") == 1


async def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    """A bug report begins with it."""
    command = await everturn("version", cwd=tmp_path)
    option = await everturn("--version", cwd=tmp_path)

    assert command.code == option.code == 0
    assert command.out == option.out
    assert command.out.startswith("everturn 0.")


async def test_completion_completes(tmp_path: Path) -> None:
    """The script that a shell evaluates calls the command back with what was typed so far."""
    script = await everturn("completions", "bash", cwd=tmp_path)
    asked = {"_EVERTURN_COMPLETE": "complete_bash", "COMP_WORDS": "everturn se", "COMP_CWORD": "1"}
    found = await everturn(cwd=tmp_path, env=asked)

    assert "complete -o default -F _everturn_completion everturn" in script.out
    assert found.out.split() == ["setup", "serve", "sessions", "seat"]


async def test_a_new_folder_works_at_once(tmp_path: Path) -> None:
    """From nothing to an answer in two commands, without a question where nobody can answer."""
    made = await everturn("init", "home", cwd=tmp_path)
    home = tmp_path / "home"
    answer = await everturn("run", "2+3", cwd=home)
    checked = await everturn("agent", "validate", cwd=home)
    health = await everturn("doctor", cwd=home)

    assert made.code == 0
    assert "cd home" in made.out
    assert "everturn chat" in made.out
    assert answer.out.startswith("You said: “2+3”.")
    assert checked.code == 0
    assert health.code == 0, health.out
    assert (home / ".gitignore").read_text() == ".everturn/\n.env\n"


async def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """Running it again must not cost a person their work."""
    (tmp_path / ".gitignore").write_text("*.log")
    (tmp_path / "everturn.yaml").write_text("# mine\n")
    write_agent(tmp_path, "assistant")
    before = (tmp_path / "agents/assistant/agent.yaml").read_text()
    first = await everturn("init", cwd=tmp_path)
    second = await everturn("init", "--json", cwd=tmp_path)

    assert (first.code, second.code) == (0, 0)
    assert "kept     everturn.yaml" in first.out
    assert json.loads(second.out)["written"] == []
    assert (tmp_path / "everturn.yaml").read_text() == "# mine\n"
    assert (tmp_path / "agents/assistant/agent.yaml").read_text() == before
    assert (tmp_path / ".gitignore").read_text() == "*.log\n.everturn/\n.env\n"


async def test_a_person_is_asked_two_things_and_may_change_their_mind(tmp_path: Path) -> None:
    """Ctrl-C at a question means: do nothing; Enter takes what is offered."""
    async with terminal("init", cwd=tmp_path) as person:
        await person.expect("Name of the first agent")
        left, _ = await person.press_until_end("c")
    written = names_in(tmp_path)
    async with terminal("init", cwd=tmp_path) as person:
        await person.expect("Name of the first agent", "assistant")
        await person.enter("helper")
        await person.expect("Who runs its model", "builtin")
        await person.enter("openai")
        code, said = await person.end()
    agent = (tmp_path / "agents" / "helper" / "agent.yaml").read_text()

    assert (left, written) == (130, [])
    assert code == 0
    assert "OPENAI_API_KEY" in said
    assert "provider: openai" in agent
    assert "name: helper" in agent


@table(
    ("arguments", "expected"),
    [
        (["init", "--agent", "../up"], "no name for an agent"),
        (["init", "--agent", ""], ""),
        (["init", "--provider", "skynet"], "there is no provider 'skynet'"),
        (["init", "--model", "a: b\nc"], "no name of a model"),
        (["init", "file"], "cannot be written"),
        (["agent", "create", "a b"], "no name for an agent"),
        (["agent", "create", "helper"], "exists already"),
        (["agent", "create", "x", "--provider", "skynet"], "there is no provider"),
        (["agent", "show", "nobody"], "there is no agent 'nobody'"),
        (["agent", "validate", "nobody"], "there is no agent 'nobody'"),
        (["agent", "list", "--agents-dir", "missing"], "there is no agents folder"),
    ],
)
async def test_bad_names_and_places_are_refused(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    """Each of these would otherwise end in a file somewhere else, or in a broken one."""
    write_agent(tmp_path)
    (tmp_path / "file").write_text("")
    done = await everturn(*arguments, cwd=tmp_path)

    assert done.code == (2 if expected else 0)
    assert expected in done.err


async def test_a_created_agent_is_valid_and_found_by_a_running_gateway(tmp_path: Path) -> None:
    """A new agent is talked to without a restart."""
    write_agent(tmp_path)
    async with start("serve", "--port", "0", cwd=tmp_path) as gateway:
        await gateway.until("Ctrl-C stops it.")
        made = await everturn("agent", "create", "second", cwd=tmp_path)
        note = json.loads((tmp_path / ".everturn" / "gateway.json").read_text())
        async with httpx2.AsyncClient(timeout=30) as http:
            await http.post(f"{note['url']}/api/v1/admin/reload")
        answer = await everturn("run", "2+3", "--agent", "second", cwd=tmp_path)
    checked = await everturn("agent", "validate", "second", cwd=tmp_path)
    listed = await everturn("agent", "list", "--json", cwd=tmp_path)

    assert made.code == 0
    assert "everturn chat second" in made.out
    assert answer.out.startswith("You said: “2+3”.")
    assert checked.out.startswith("ok  second")
    assert [agent["name"] for agent in json.loads(listed.out)] == ["helper", "second"]


async def test_every_fault_of_every_agent_is_told_with_its_place(tmp_path: Path) -> None:
    """Someone who writes agents repairs all at once, and a build must fail."""
    write_agent(tmp_path, "good")
    bad = write_agent(tmp_path, "bad")
    bad.write_text(bad.read_text().replace("name: bad", "name: b a d") + "  nonsense: 1\n")
    keyless = write_agent(tmp_path, "keyless", provider="openai", model="gpt-5-mini")
    for command in ("validate", "list"):
        done = await everturn("agent", command, cwd=tmp_path)
        lines = done.err.splitlines()

        assert done.code == 2
        assert "good" in done.out
        assert any(line.startswith(f"everturn: {bad}:4: metadata.name") for line in lines)
        assert any("nonsense" in line for line in lines)
        assert any(str(keyless) in line and "OPENAI_API_KEY" in line for line in lines)


async def test_what_has_no_effect_is_told_of_an_agent(tmp_path: Path) -> None:
    """A setting that is accepted and does nothing must not be taken for one that works.

    Patterns that allow nothing are told with what to write by all three commands that look at
    agents; and what nobody writes is shown.
    """
    agent = write_agent(tmp_path)
    tools = "[{type: builtin, name: bash}, {type: builtin, name: web_search}]"
    agent.write_text(agent.read_text() + f"  tools: {tools}\n")
    agent.with_name("policy.yaml").write_text("allow: ['bash:python *', 'bash:git status*']\n")
    note = "bash:python * allows nothing: python runs code"

    shown = await everturn("agent", "show", "helper", cwd=tmp_path)
    as_json = await everturn("agent", "show", "helper", "--json", cwd=tmp_path)
    checked = await everturn("agent", "validate", cwd=tmp_path)
    examined = await everturn("doctor", cwd=tmp_path)

    assert all(note in each.out for each in (shown, checked, examined))
    assert shown.code == checked.code == 0
    assert "git status" not in shown.out
    assert "names with a dot: such as .git" in shown.out
    assert "without effect:" in shown.out
    assert "spec.tools: web_search (needs search:" in shown.out
    [inactive] = json.loads(as_json.out)["inactive"]
    assert inactive.startswith("spec.tools: web_search (needs search:")


async def test_files_from_outside_are_listed_and_trusted(tmp_path: Path) -> None:
    """Only the owner takes a mark off, and sees before what it is about."""
    write_agent(tmp_path)
    files = tmp_path / ".everturn" / "files" / "helper"
    for name in ("inbox/a.pdf", "inbox/b.pdf", "own.md"):
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).write_text("x")

    listed = await everturn("agent", "files", "helper", cwd=tmp_path)
    trusted = await everturn("agent", "files", "helper", "--trust", "inbox/a.pdf", cwd=tmp_path)
    as_json = await everturn("agent", "files", "helper", "--json", cwd=tmp_path)
    wrong = await everturn("agent", "files", "helper", "--trust", "own.md", cwd=tmp_path)
    rest = await everturn("agent", "files", "helper", "--trust", "inbox", cwd=tmp_path)

    assert "inbox/a.pdf" in listed.out
    assert "own.md" not in listed.out
    assert "inbox/a.pdf: trusted from now on" in trusted.err
    assert [each["path"] for each in json.loads(as_json.out)] == ["inbox/b.pdf"]
    assert (wrong.code, "own.md: no text from outside is marked there" in wrong.err) == (2, True)
    assert "no file in" in rest.out


async def test_the_schema_is_json(tmp_path: Path) -> None:
    """Editors read it."""
    done = await everturn("agent", "schema", cwd=tmp_path)

    assert json.loads(done.out)["title"] == "Everturn agent"


async def test_tables_are_plain_and_whole_where_nobody_looks(tmp_path: Path) -> None:
    """A script reads the list: no colours, no cut columns."""
    long = " ".join(["many words"] * 20)
    agent = write_agent(tmp_path)
    agent.write_text(agent.read_text().replace("spec:", f"  description: {long}\nspec:"))
    done = await everturn("agent", "list", cwd=tmp_path)

    assert long in done.out
    assert "\x1b" not in done.out


async def test_weights_that_cannot_be_fetched_are_explained(tmp_path: Path) -> None:
    """Without a network the command has to say so, and `make run` goes on with `builtin`."""
    done = await everturn("local", "pull", "--json", cwd=tmp_path, env={"PIP_NO_INDEX": "1"})

    assert done.code == 2
    assert done.err.splitlines()[-1].startswith("everturn: ")
    assert done.out == ""
    workspace = tmp_path / ".everturn"
    assert not workspace.exists() or workspace.stat().st_mode & 0o777 == 0o700
