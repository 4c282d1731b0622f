"""The tool `bash`, plain and confined, with real shells."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from support.commands import BWRAP, PLAIN, both_ways, lifeline, make_site, needs_sandbox, run_tool
from support.tables import table

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ToolCall
from everturn_gateway.tools.environment import RunsCommands
from everturn_gateway.tools.shell import Confinement
from everturn_gateway.tools.shell.bash import BashTool


@both_ways
async def test_a_command_runs_in_the_workspace_and_says_what_it_printed(
    tmp_path: Path, confinement: Confinement
) -> None:
    """The plain case."""
    environment = make_site(tmp_path)
    tool = BashTool(environment, confinement)
    output = await run_tool(tool, {"command": "pwd; echo there > here; echo oh >&2"})

    assert (output.text, output.is_error) == (f"{environment.files}\noh", False)
    assert (environment.files / "here").read_text() == "there\n"


@both_ways
@table(
    ("command", "text"),
    [
        pytest.param("echo so far; exit 4", "so far\n[exit code 4]", id="failed"),
        pytest.param("kill -KILL $$", "[exit code 137: ended by SIGKILL]", id="killed"),
        pytest.param("true", "[done; it printed nothing]", id="silent"),
        pytest.param("printf 'caf\\351 \\000\\033[1mx\\n'", "caf\ufffd x", id="not UTF-8"),
        pytest.param('read line; echo "<$line>"', "<>", id="asks for input"),
    ],
)
async def test_a_result_says_how_the_command_ended(
    tmp_path: Path, confinement: Confinement, command: str, text: str
) -> None:
    """The model decides by it what to do next."""
    output = await run_tool(BashTool(make_site(tmp_path), confinement), {"command": command})

    assert output.text == text
    assert output.is_error is ("exit code" in text)


@both_ways
async def test_a_command_that_hangs_is_stopped_and_keeps_what_it_printed(
    tmp_path: Path, confinement: Confinement
) -> None:
    """A deadline without the output so far would hide why it hung."""
    tool = BashTool(make_site(tmp_path), confinement)
    output = await run_tool(
        tool, {"command": "echo waiting for x; sleep 1000", "timeout_seconds": 2}
    )

    assert output.text == "waiting for x\n[stopped: it was not done after 2 s]"
    assert output.is_error


@both_ways
async def test_nobody_gets_more_time_than_the_owner_gives(
    tmp_path: Path, confinement: Confinement
) -> None:
    """The model may ask for less only."""
    tool = BashTool(make_site(tmp_path), confinement, timeout_s=0.2)
    output = await run_tool(tool, {"command": "sleep 1000", "timeout_seconds": 9999})

    assert output.text == "[stopped: it was not done after 0.2 s]"
    assert tool.capabilities.timeout_s > 0.2


@both_ways
async def test_cancelling_ends_everything_that_a_command_started(
    tmp_path: Path, confinement: Confinement
) -> None:
    """Also below the sandbox, where we do not know the processes by number."""
    environment = make_site(tmp_path)
    command = "exec 9>lifeline; setsid sleep 1000 & echo up >&9; sleep 1000"
    with lifeline(environment.files) as line:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_tool, BashTool(environment, confinement), {"command": command})
            await line.next_line()
            tasks.cancel_scope.cancel()

        await line.until_cut()


@both_ways
async def test_what_a_command_leaves_running_is_ended_with_it(
    tmp_path: Path, confinement: Confinement
) -> None:
    """Nobody would know of it, and nobody could stop it."""
    environment = make_site(tmp_path)
    with lifeline(environment.files) as line:
        output = await run_tool(
            BashTool(environment, confinement),
            {"command": "exec 9>lifeline; nohup setsid sleep 1000 & echo started"},
        )

        await line.until_cut()
    assert output.text == "started"


@both_ways
async def test_a_flood_is_shortened_in_its_middle(tmp_path: Path, confinement: Confinement) -> None:
    """A model reads the ends; the middle would only cost memory."""
    tool = BashTool(make_site(tmp_path), confinement)
    output = await run_tool(tool, {"command": "seq 1 200000; echo end"})

    assert output.text.startswith("1\n2\n3\n")
    assert output.text.endswith("200000\nend")
    assert "bytes are left out here" in output.text
    assert len(output.text) < 300_000


@needs_sandbox
async def test_a_path_outside_is_refused_by_the_kernel(tmp_path: Path) -> None:
    """Whatever a command is called, it cannot write there."""
    output = await run_tool(
        BashTool(make_site(tmp_path), BWRAP), {"command": "echo x > /etc/everturn-was-here"}
    )

    assert "Read-only file system" in output.text
    assert output.is_error


@needs_sandbox
async def test_a_full_disk_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model can then clean up, or do with less."""
    monkeypatch.setattr("everturn_gateway.tools.shell.confinement.mounts.PRIVATE_BYTES", 1024**2)
    output = await run_tool(
        BashTool(make_site(tmp_path), BWRAP), {"command": "head -c 9000000 /dev/zero > /tmp/big"}
    )

    assert "No space left on device" in output.text
    assert output.is_error


async def test_a_missing_workspace_is_made(tmp_path: Path) -> None:
    """The first command of a new agent has to work, too."""
    environment = make_site(tmp_path)
    environment.files.rmdir()
    output = await run_tool(BashTool(environment, PLAIN), {"command": "pwd"})

    assert output.text == str(environment.files)


async def test_secrets_are_masked(tmp_path: Path) -> None:
    """What a command finds goes to a model's provider and into the log."""
    environment = make_site(tmp_path)
    environment.secrets.add("sk-very-secret")
    output = await run_tool(BashTool(environment, PLAIN), {"command": "echo key: sk-very-secret"})

    assert output.text == "key: ***"


@table(
    ("arguments", "why"),
    [
        pytest.param("{", "not JSON", id="no JSON"),
        pytest.param({}, "command: Field required", id="no command"),
        pytest.param({"command": " \n"}, "command: .*it is empty", id="blank"),
        pytest.param({"command": 5}, "command: Input should be a valid string", id="a number"),
        pytest.param({"command": "a", "cwd": "/"}, "cwd: Extra inputs", id="unknown argument"),
        pytest.param({"command": "a", "timeout_seconds": 0}, "more than 0", id="no time"),
        pytest.param('{"command": "a", "timeout_seconds": NaN}', "more than 0", id="not a number"),
        pytest.param({"command": "a\0b"}, "holds a character", id="NUL"),
        pytest.param({"command": "echo " + "x" * 300_000}, "too long", id="too long"),
    ],
)
async def test_arguments_that_make_no_sense_say_what_is_wrong(
    tmp_path: Path, arguments: dict[str, object] | str, why: str
) -> None:
    """Small models get them wrong often, and right the second time if they are told."""
    with pytest.raises(ToolFailedError, match=why):
        await run_tool(BashTool(make_site(tmp_path), PLAIN), arguments)


def test_the_policy_judges_the_command_that_runs(tmp_path: Path) -> None:
    """A second reading of the arguments that differs from the first is a way around the policy."""
    tool = BashTool(make_site(tmp_path), PLAIN)

    def command_of(arguments: str) -> str | None:
        return tool.command_of(ToolCall(call_id="1", name="bash", arguments=arguments))

    assert isinstance(tool, RunsCommands)
    assert tool.capabilities.kind == "bash"
    assert command_of('{"command": "ls", "command": "rm x"}') == "rm x"
    assert command_of('{"command": ["ls"]}') is None


@table(
    ("command", "fetches"),
    [
        ("curl example.com", True),
        ("sudo wget -q x", True),
        ("python fetch.py https://example.com", True),
        ("git -C repo pull", True),
        ("cat <(curl x)", True),
        ("git status", False),
        ("python http.py", False),
        ("ls curls", False),
    ],
)
async def test_what_comes_from_the_network_is_marked(
    tmp_path: Path, command: str, *, fetches: bool
) -> None:
    """A page can hold orders to the model; what it does after reading one is asked for again."""
    printed = {"command": f"false && {command}"}
    environment = make_site(tmp_path)

    assert (await run_tool(BashTool(environment, PLAIN), printed)).untrusted is fetches


@needs_sandbox
async def test_without_a_network_nothing_is_from_there(tmp_path: Path) -> None:
    """Asking for no reason teaches people to say yes."""
    environment = make_site(tmp_path)
    outputs = [
        await run_tool(
            BashTool(environment, replace(BWRAP, network=network)), {"command": ": http://x"}
        )
        for network in (False, True)
    ]

    assert [output.untrusted for output in outputs] == [False, True]


def test_the_definition_is_small_and_says_what_holds(tmp_path: Path) -> None:
    """It is sent with every request."""
    environment = make_site(tmp_path)
    confined, plain = (BashTool(environment, c).definition for c in (BWRAP, PLAIN))

    assert "no network" in confined.description
    assert "writable" not in plain.description
    assert len(json.dumps(confined.parameters)) + len(confined.description) < 600
