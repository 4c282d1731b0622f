"""What a command is told by its environment, and what files of the workspace cannot tell it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import anyio
import pytest
from support.commands import both_ways, make_site, run_tool
from support.processes import open_desk
from support.tables import table

from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.shell import Confinement
from everturn_gateway.tools.shell.bash import BashTool
from everturn_gateway.tools.shell.confinement.environment import GIT_CONFIG, command_environ

_RUNS = "touch RAN; "
"What a key of git's configuration would run, in whichever folder git is."


@both_ways
async def test_a_home_is_empty_private_and_thrown_away(
    tmp_path: Path, confinement: Confinement
) -> None:
    """Programs take orders from files in the home: what one call leaves, the next must not find."""
    tool = BashTool(make_site(tmp_path), confinement)
    first = await run_tool(tool, {"command": "ls -A ~; echo alias > ~/.bashrc; echo $HOME"})
    second = await run_tool(tool, {"command": "ls -A ~; echo $HOME"})

    assert len(first.text.splitlines()) == len(second.text.splitlines()) == 1
    for said in (first.text, second.text):
        assert not await anyio.Path(said).exists()
        assert not Path(said).is_relative_to(tmp_path)


async def test_the_home_of_a_background_process_is_its_own(tmp_path: Path) -> None:
    """It goes on for hours, and is told what it is by the same files."""
    command = "ls -A ~; echo x > ~/.profile; echo $HOME; echo $XDG_CONFIG_HOME"
    async with open_desk(tmp_path) as world:
        said = [(await world.wait_for(command)).text.splitlines() for _ in range(2)]

    homes = [each[-2] for each in said]
    assert [each[-1] for each in said] == [f"{home}/.config" for home in homes]
    assert len(said[0]) == len(said[1])
    assert homes[0] != homes[1]
    assert not any(each.startswith(str(world.files)) for each in homes)
    assert not [each async for each in anyio.Path(tmp_path).rglob(".profile")]


def test_nothing_of_the_gateways_environment_reaches_a_command(tmp_path: Path) -> None:
    """Keys of model APIs stand in it."""
    given = {"OPENAI_API_KEY": "sk-1", "LD_PRELOAD": "x", "HOME": "/root", "GIT_DIR": "/x"}
    environ = command_environ(make_site(tmp_path, USER="ann", **given), "/run/home", {"EXTRA": "1"})

    assert not set(environ) & {"OPENAI_API_KEY", "LD_PRELOAD", "GIT_DIR"}
    assert (environ["HOME"], environ["USER"], environ["EXTRA"]) == ("/run/home", "ann", "1")
    assert not [name for name, value in environ.items() if value in given.values() and value != "1"]


def _repository(files: Path) -> None:
    """Make a repository with a commit, a changed file and one that is new."""
    script = (
        "git init -q . && git config user.name o && git config user.email o@o && echo 1 > file"
        " && git add file && git commit -qm first && echo 2 > file && echo 3 > new"
    )
    _shell(files, script)


def _shell(files: Path, script: str) -> None:
    """Run a script as a person would, with nothing of what commands of agents get."""
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["/bin/sh", "-c", script], cwd=files, env=environ, check=True)


_TRIED = {
    "core.fsmonitor": ("", "git status; git diff; git add new"),
    "core.pager": ("", "script -qec 'git log' /dev/null"),
    "core.editor": ("", "git commit -a"),
    "sequence.editor": ("", "git stash && git rebase -i --root"),
    "core.askPass": ("", "printf 'protocol=https\\nhost=x.invalid\\n\\n' | git credential fill"),
    "credential.helper": (
        "!",
        "printf 'protocol=https\\nhost=x.invalid\\n\\n' | git credential fill",
    ),
    "core.sshCommand": ("", "git ls-remote ssh://x.invalid/y"),
    "gpg.program": ("", "git commit -S -am x; git log --show-signature"),
    "core.gitProxy": ("", "git ls-remote git://x.invalid/y"),
}


@both_ways
@table("key", _TRIED)
async def test_no_key_of_a_repository_starts_a_program(
    tmp_path: Path, confinement: Confinement, key: str
) -> None:
    """A model writes `.git/config` and then asks for `git status`: both look harmless."""
    environment = make_site(tmp_path)
    _repository(environment.files)
    sign, command = _TRIED[key]
    script = environment.files / "evil"
    script.write_text("#!/bin/sh\ntouch RAN .git/RAN\n")
    script.chmod(0o755)
    value = str(script) if key == "core.gitProxy" or not sign else f"{sign}{_RUNS}"
    with (environment.files / ".git/config").open("a") as config:
        section, name = key.rsplit(".", 1)
        config.write(f"[{section}]\n\t{name} = {value}\n[protocol]\n\tallow = always\n")
    await run_tool(BashTool(environment, confinement), {"command": f"({command}) < /dev/null"})

    assert not (environment.files / "RAN").exists()


@both_ways
async def test_hooks_and_a_gitconfig_of_the_workspace_are_not_read(
    tmp_path: Path, confinement: Confinement
) -> None:
    """The workspace was the home once, and `.git/hooks` is a folder like any other."""
    environment = make_site(tmp_path)
    _repository(environment.files)
    (environment.files / ".gitconfig").write_text(f"[core]\n\tfsmonitor = {_RUNS}\n")
    for name in ("pre-commit", "post-index-change", "post-commit", "reference-transaction"):
        hook = environment.files / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\ntouch RAN\n")
        hook.chmod(0o755)
    output = await run_tool(
        BashTool(environment, confinement), {"command": "git status -s && git commit -qam second"}
    )

    assert not output.is_error, output.text
    assert not (environment.files / "RAN").exists()


@both_ways
async def test_a_bare_repository_in_a_folder_is_none(
    tmp_path: Path, confinement: Confinement
) -> None:
    """Its `config` is a file with a harmless name, below any folder."""
    environment = make_site(tmp_path)
    _shell(environment.files, "git init -q --bare data")
    output = await run_tool(
        BashTool(environment, confinement), {"command": "cd data && git rev-parse"}
    )

    assert output.is_error
    assert "bareRepository" in output.text


@both_ways
async def test_commits_carry_the_name_of_the_agent(
    tmp_path: Path, confinement: Confinement
) -> None:
    """Without a home git would refuse to commit and ask who somebody is."""
    tool = BashTool(make_site(tmp_path), confinement)
    said = await run_tool(
        tool,
        {
            "command": "git init -q . && echo 1 > f && git add f && git commit -qm one"
            " && git log --format='%an <%ae> %cn'"
        },
    )

    assert said.text == "helper <helper@everturn.invalid> helper"


@both_ways
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_files_that_rule_programs_are_not_read(
    tmp_path: Path, confinement: Confinement
) -> None:
    """`.curlrc` and the like of the workspace, which was the home once."""
    environment = make_site(tmp_path)
    (environment.files / "data").write_text("shown")
    (environment.files / ".curlrc").write_text("output = taken\n")
    (environment.files / "usercustomize.py").write_text("open('RAN', 'w')\n")
    place = "python3 -m site --user-site | sed s:^$HOME:$PWD:"  # where it was below the workspace
    await run_tool(
        BashTool(environment, confinement),
        {"command": f"mkdir -p $({place}); mv usercustomize.py $({place}); python3 -c 0"},
    )
    said = await run_tool(
        BashTool(environment, confinement), {"command": "curl -s file://$PWD/data"}
    )

    assert said.text == "shown"
    assert not (environment.files / "taken").exists()
    assert not (environment.files / "RAN").exists()


def test_every_forced_key_reaches_git(tmp_path: Path) -> None:
    """A table is worth what git makes of it."""
    environment: ToolEnvironment = make_site(tmp_path)
    environ = command_environ(environment, str(tmp_path))
    listed = subprocess.run(
        ["/usr/bin/git", "config", "--list"],
        env=environ,
        cwd=environment.files,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()

    assert {line.partition("=")[0] for line in listed} >= {key.lower() for key in GIT_CONFIG}
