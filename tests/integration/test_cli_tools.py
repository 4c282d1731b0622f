"""cli tools at work, plain and confined."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from anyio import to_thread
from support.commands import (
    BWRAP,
    PLAIN,
    both_ways,
    make_site,
    needs_sandbox,
    run_tool,
    write_script,
)
from support.tables import table

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.cli import CliProgram, CliTool, declared, discover
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.shell import Confinement

_SHOW = '#!/bin/sh\npwd; printf "<%s>" "$@"; echo\n'
_NASTY = ("a b", "$(touch x)", "; touch x", "`touch x`", "*", "| cat", "'", '"', "\\", "--", "é\n")


async def _tool(
    environment: ToolEnvironment, confinement: Confinement, command: str, readme: str | None = None
) -> CliTool:
    def read() -> CliProgram:
        return declared(environment.home, name="show", command=command, readme=readme)

    return CliTool(environment, await to_thread.run_sync(read), confinement)


@both_ways
async def test_a_declared_tool_runs_in_the_agents_folder(
    tmp_path: Path, confinement: Confinement
) -> None:
    """As in Duragent, so that older tools find their files."""
    environment = make_site(tmp_path)
    write_script(environment.home / "tools" / "show.sh", _SHOW)
    tool = await _tool(environment, confinement, command="./tools/show.sh --fixed")
    output = await run_tool(tool, {"args": "one 'two three' --four=5"})

    assert output.text == f"{environment.home}\n<--fixed><one><two three><--four=5>"
    assert (tool.capabilities.kind, tool.capabilities.read_only) == ("cli", False)


@both_ways
@table("command", ["./show.sh", "LEVEL=1 ./show.sh 2>&1"])
@table("args", [list(_NASTY), shlex.join(_NASTY)])
async def test_no_shell_reads_the_models_arguments(
    tmp_path: Path, confinement: Confinement, command: str, args: str | list[str]
) -> None:
    """A page that the model has read must not become a command by way of an argument."""
    environment = make_site(tmp_path)
    write_script(environment.home / "show.sh", _SHOW)
    output = await run_tool(await _tool(environment, confinement, command=command), {"args": args})

    assert output.text == f"{environment.home}\n" + "".join(f"<{each}>" for each in _NASTY)
    assert not (environment.home / "x").exists()


@both_ways
async def test_a_found_tool_runs_in_its_own_folder(
    tmp_path: Path, confinement: Confinement
) -> None:
    """The agent's, and those of the gateway, whose state is hidden otherwise."""
    environment = make_site(tmp_path)
    own = write_script(environment.home / "tools" / "own" / "run.sh", "cat data; ls ../../../..")
    shared = write_script(
        environment.state / "tools" / "shared" / "run.py", "#!/bin/sh\ncat data; ls ../.."
    )
    for each in (own, shared):
        (each.parent / "data").write_text(f"of {each.parent.name}\n")
    programs = (await to_thread.run_sync(discover, environment.home, environment.state)).programs
    outputs = [await run_tool(CliTool(environment, each, confinement), {}) for each in programs]

    assert [output.text.splitlines()[0] for output in outputs] == ["of own", "of shared"]
    if confinement is BWRAP:
        assert "sessions" not in outputs[1].text


@needs_sandbox
async def test_a_confined_tool_writes_to_the_workspace_alone(tmp_path: Path) -> None:
    """Its environment says where that is."""
    environment = make_site(tmp_path)
    write_script(
        environment.home / "keep.sh",
        '#!/bin/sh\necho "$EVERTURN_AGENT" > "$EVERTURN_FILES/kept"\n'
        'touch "$EVERTURN_AGENT_HOME/x"\n',
    )
    output = await run_tool(await _tool(environment, BWRAP, command="./keep.sh"), {})

    assert (environment.files / "kept").read_text() == "helper\n"
    assert "Read-only file system" in output.text
    assert output.is_error


async def test_a_tool_gets_what_its_owner_gives_it(tmp_path: Path) -> None:
    """A key that one tool needs is for that tool."""
    environment = make_site(tmp_path, API_KEY="of the gateway")
    program = declared(environment.home, name="show", command="printenv API_KEY")
    given = CliTool(environment, program, PLAIN, environ={"API_KEY": "of the tool"})

    assert (await run_tool(CliTool(environment, program, PLAIN), {})).text == "[exit code 1]"
    assert (await run_tool(given, {})).text == "of the tool"


async def test_a_manual_is_read_on_demand(tmp_path: Path) -> None:
    """It costs tokens only when it is needed."""
    environment = make_site(tmp_path)
    (environment.home / "README.md").write_text("# show\n\nShows.\n\nAll the rest.\n")
    tool = await _tool(environment, PLAIN, command="echo ran", readme="README.md")

    assert tool.definition.description == "Shows."
    assert "help" in tool.definition.parameters["properties"]
    assert (await run_tool(tool, {"help": True})).text == "# show\n\nShows.\n\nAll the rest.\n"
    assert (await run_tool(tool, {"help": False, "args": "x"})).text == "ran x"

    (environment.home / "README.md").unlink()
    with pytest.raises(ToolFailedError, match=r"its manual cannot be read: .*no such file"):
        await run_tool(tool, {"help": True})


@table(
    ("arguments", "why"),
    [
        ({"args": "it's"}, "args: no closing quotation; quote"),
        ({"args": 5}, "args"),
        ({"query": "x"}, "query: Extra inputs"),
        ({"help": True}, "help: Extra inputs"),
        ({"args": "a\0b"}, "holds a character"),
        ("[]", "Input should be"),
    ],
)
async def test_arguments_that_make_no_sense_say_what_is_wrong(
    tmp_path: Path, arguments: dict[str, object] | str, why: str
) -> None:
    """Duragent runs the tool without any, and the model wonders at the answer."""
    tool = await _tool(make_site(tmp_path), PLAIN, command="echo")
    with pytest.raises(ToolFailedError, match=why):
        await run_tool(tool, arguments)


@both_ways
async def test_a_program_that_is_not_installed_is_told(
    tmp_path: Path, confinement: Confinement
) -> None:
    """Its owner may install it later; until then the model goes another way."""
    tool = await _tool(make_site(tmp_path), confinement, command="no-such-program --x")
    output = await run_tool(tool, {})

    assert "no-such-program: command not found" in output.text
    assert output.is_error


@both_ways
async def test_a_tool_that_hangs_is_stopped(tmp_path: Path, confinement: Confinement) -> None:
    """A turn has other things to do."""
    environment = make_site(tmp_path)
    program = declared(environment.home, name="slow", command="sleep 1000")
    output = await run_tool(CliTool(environment, program, confinement, timeout_s=0.2), {})

    assert output.text == "[stopped: it was not done after 0.2 s]"


async def test_a_definition_is_small(tmp_path: Path) -> None:
    """It is sent with every request."""
    environment = make_site(tmp_path)
    (environment.home / "README.md").write_text("Shows. " * 500)
    definition = (await _tool(environment, PLAIN, command="echo", readme="README.md")).definition

    assert len(definition.description) + len(json.dumps(definition.parameters)) < 600


async def test_sandbox_of_a_tool_without_a_bubblewrap_is_refused(tmp_path: Path) -> None:
    """As for bash: never unconfined by accident."""
    environment = make_site(tmp_path)
    program = declared(environment.home, name="x", command="echo")
    tool = CliTool(
        replace(environment, environ={"PATH": str(tmp_path)}), program, Confinement(sandbox="bwrap")
    )
    with pytest.raises(ToolFailedError, match="install bubblewrap"):
        await run_tool(tool, {})
