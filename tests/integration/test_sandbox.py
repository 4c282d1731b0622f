"""What commands reach in the sandbox, asked of a real one."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from msgspec import structs
from support.commands import BWRAP, PLAIN, make_site, needs_sandbox, write_script
from support.patience import WAIT_S

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.shell.confinement import mounts, sandbox
from everturn_gateway.tools.shell.confinement.environment import command_environ
from everturn_gateway.tools.shell.confinement.sandbox import (
    Confinement,
    command_line,
    confine,
    sandbox_fault,
)


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder that is not below /tmp, all of which is hidden in the sandbox anyway."""
    places = (Path(sys.prefix), Path.home(), Path("/srv"), Path("/opt"))
    place = next(
        place
        for place in places
        if os.access(place, os.W_OK) and not place.resolve().is_relative_to("/tmp")  # noqa: S108 - it is what is left out
    )
    with tempfile.TemporaryDirectory(dir=place, prefix="everturn-sandbox-") as made:
        yield Path(made)


def _run(
    environment: ToolEnvironment,
    command: str | Sequence[str],
    confinement: Confinement = BWRAP,
    *,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    argv = command_line(environment, confinement, command, cwd=cwd)
    return subprocess.run(
        argv,
        env=command_environ(environment, sandbox.HOME),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


@needs_sandbox
def test_the_workspace_is_writable_and_nothing_else(folder: Path) -> None:
    """The one promise of the sandbox: a wrong command breaks the agent's own files at most."""
    environment = make_site(folder)
    done = _run(
        environment, f"echo mine > kept; touch {environment.home}/x {folder}/x /etc/x /usr/x; pwd"
    )

    assert (environment.files / "kept").read_text() == "mine\n"
    assert done.stdout == f"{environment.files}\n"
    assert done.stderr.count("Read-only file system") == 4
    assert not (environment.home / "x").exists()


@needs_sandbox
def test_no_mount_is_writable_that_does_not_have_to_be(folder: Path) -> None:
    """A forgotten mount is a hole that no single test of a path would find."""
    environment = make_site(folder)
    done = _run(
        environment, "cat /proc/self/mountinfo; test -w /proc/sys/kernel/core_pattern || echo no"
    )
    last: dict[str, str] = {}
    for line in done.stdout.splitlines()[:-1]:
        place, options = line.split()[4:6]
        last[place] = options  # a later mount covers an earlier one
    shown = {place for place, options in last.items() if options.split(",")[0] == "rw"}
    allowed = {str(environment.files), "/proc", "/tmp", "/var/tmp", sandbox.HOME}  # noqa: S108 - its own

    assert {place for place in shown if not place.startswith("/dev")} <= allowed
    assert str(environment.files) in shown
    assert done.stdout.splitlines()[-1] == "no"


@needs_sandbox
def test_state_secrets_and_other_agents_are_hidden(folder: Path) -> None:
    """What an agent cannot read it cannot be talked into telling."""
    person = folder / "person"
    for file in (".ssh/id_ed25519", ".config/gcloud/token", ".netrc", ".aws/credentials"):
        (person / file).parent.mkdir(parents=True, exist_ok=True)
        (person / file).write_text("a secret")
    environment = make_site(folder, HOME=str(person))
    for file in (".env", "tls.key", "everturn.yaml", "agents/.env.local", "agents/helper/.env"):
        (folder / file).write_text("a secret")
    (folder / "named").write_text("a secret")
    confinement = structs.replace(BWRAP, hidden=(folder / "named",))
    done = _run(
        environment,
        f"grep -rs secret {folder}; cat {folder}/.env; ls {environment.state}",
        confinement,
    )

    assert "a secret" not in done.stdout
    assert "what was said" not in _run(environment, f"cat {environment.state}/sessions/*").stdout
    assert "of other" not in _run(environment, f"cat {folder}/agents/other/agent.yaml").stdout
    assert done.stdout.split() == ["files"]


@needs_sandbox
def test_an_agents_folder_is_readable_but_for_what_rules_it(folder: Path) -> None:
    """Its skills and programs are of use to its commands; its rules may hold tokens."""
    environment = make_site(folder)
    for name in ("skill.md", "policy.yaml", "policy.local.yaml", ".env"):
        (environment.home / name).write_text(f"of {name}\n")
    done = _run(
        environment,
        f"cd {environment.home}; cat skill.md *.yaml .env; echo x > skill.md; ls /usr/bin/env",
    )

    assert done.stdout == "of skill.md\n/usr/bin/env\n"
    assert done.stderr.count("Permission denied") == 4
    assert (environment.home / "skill.md").read_text() == "of skill.md\n"


@needs_sandbox
def test_a_link_in_the_workspace_leads_nowhere_new(folder: Path) -> None:
    """Paths are what the kernel says they are, not what they are called."""
    environment = make_site(folder)
    (environment.files / "way").symlink_to(environment.state / "sessions")
    (environment.files / "home").symlink_to(environment.home)
    done = _run(environment, "cat way/events.jsonl; cat ../../sessions/events.jsonl; touch home/x")

    assert done.stdout == ""
    assert not (environment.home / "x").exists()


@needs_sandbox
def test_state_inside_the_workspace_is_hidden_too(folder: Path) -> None:
    """An owner may let an agent work in the project that the gateway itself lives in."""
    environment = dataclasses.replace(make_site(folder), files=folder)
    done = _run(environment, "ls .everturn; touch fine agents/helper/agent.yaml agents/helper/new")

    assert done.stdout == ""
    assert (folder / "fine").exists()
    assert done.stderr.count("Read-only file system") == 1
    assert (folder / "agents/helper/agent.yaml").read_text() == "# of helper\n"


@needs_sandbox
def test_an_agent_that_works_in_its_own_folder_cannot_rewrite_its_rules(folder: Path) -> None:
    """It could allow itself everything for the next call."""
    made = make_site(folder)
    environment = dataclasses.replace(made, files=made.home)
    (environment.home / "policy.yaml").write_text("mode: ask\n")
    done = _run(
        environment, "echo x > new; echo mode: dangerous > policy.yaml; mv policy.yaml p; ls"
    )

    assert (environment.home / "policy.yaml").read_text() == "mode: ask\n"
    assert done.stdout.split() == ["agent.yaml", "new", "policy.yaml"]


@needs_sandbox
def test_a_workspace_that_is_the_gateways_state_is_refused(folder: Path) -> None:
    """It would show everything that is to be hidden."""
    environment = make_site(folder)
    with pytest.raises(ToolFailedError, match="keeps its own state"):
        command_line(dataclasses.replace(environment, files=environment.state), BWRAP, "true")


@needs_sandbox
def test_a_folder_to_run_in_is_not_shown_for_that(folder: Path) -> None:
    """Where a command runs may be the model's choice; what it sees is not."""
    environment = make_site(folder)
    done = _run(environment, "cat events.jsonl", cwd=environment.state / "sessions")

    assert done.returncode != 0
    assert done.stdout == ""


@needs_sandbox
def test_tmp_is_private_and_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs keep sockets and files there, and it lies in memory."""
    monkeypatch.setattr(mounts, "PRIVATE_BYTES", 1024**2)
    environment = make_site(tmp_path / "site")
    (tmp_path / "theirs").write_text("secret")
    done = _run(
        environment, f"cat {tmp_path}/theirs; head -c 2000000 /dev/zero > /tmp/big; ls /tmp"
    )

    assert "No space left on device" in done.stderr
    assert "secret" not in done.stdout
    assert not Path("/tmp/big").exists()  # noqa: S108 - that is the question


@needs_sandbox
def test_the_network_is_there_if_it_is_allowed(folder: Path) -> None:
    """Without it nothing that an agent reads can leave the machine by a command."""
    environment = make_site(folder)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        allowed, refused = (
            _run(
                environment,
                f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo in",
                structs.replace(BWRAP, network=network),
            )
            for network in (True, False)
        )

    assert allowed.stdout == "in\n"
    assert refused.stdout == ""


@needs_sandbox
def test_sockets_of_other_programs_are_out_of_reach(folder: Path) -> None:
    """A read-only mount keeps nobody from talking to a container engine by its socket in /run."""
    environment = make_site(folder)
    done = _run(environment, "ls -A /run; test -e /var/run/docker.sock || echo none")

    assert done.stdout == "home\nnone\n"


@needs_sandbox
def test_a_command_has_no_capabilities_and_sees_no_other_processes(folder: Path) -> None:
    """Also where the gateway itself runs as root."""
    environment = make_site(folder)
    done = _run(
        environment, "grep -E 'Cap(Prm|Eff|Bnd)|NoNewPrivs' /proc/self/status; ls -d /proc/[0-9]*"
    )
    words = done.stdout.split()

    assert words[:8] == [
        *("CapPrm:", "0" * 16, "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"),
    ]
    assert f"/proc/{os.getpid()}" not in words
    assert len(words[8:]) <= 5


@needs_sandbox
def test_a_script_is_one_argument_whatever_it_holds(folder: Path) -> None:
    """Quoting is where sandboxes break."""
    environment = make_site(folder)

    for command, printed in (
        ("-x; echo ran", "ran\n"),
        ("--help; echo ran", "ran\n"),
        ("echo 'a  b'; echo \"$(echo 'c\"d')\"", 'a  b\nc"d\n'),
        ("# nothing\necho last", "last\n"),
    ):
        told = [_run(environment, command, each).stdout for each in (PLAIN, BWRAP)]
        assert told == [printed, printed], command
        assert command_line(environment, BWRAP, command)[-1] == command


def test_a_missing_bubblewrap_says_what_the_owner_can_do(tmp_path: Path) -> None:
    """Running unconfined instead would be the worst of surprises."""
    environment = make_site(tmp_path)
    nowhere = dataclasses.replace(environment, environ={"PATH": str(tmp_path)})
    write_script(tmp_path / "bash", "#!/bin/sh\n")
    with pytest.raises(
        ToolFailedError, match=r"install bubblewrap .*`sandbox: plain` with `run_as`"
    ):
        command_line(nowhere, Confinement(sandbox="bwrap"), "true")

    fault = sandbox_fault(nowhere.environ, Confinement(sandbox="bwrap"))
    assert fault is not None
    assert sandbox_fault(nowhere.environ, PLAIN) is None


def test_a_bubblewrap_that_cannot_work_says_why_and_is_asked_again(tmp_path: Path) -> None:
    """Whoever then allows user namespaces should not have to restart the gateway."""
    environment = make_site(tmp_path / "site")
    program = tmp_path / "bwrap"
    confinement = Confinement(sandbox="bwrap", bwrap=program)
    write_script(
        program, "#!/bin/sh\necho 'bwrap: No permissions to create a namespace' >&2\nexit 1"
    )
    with pytest.raises(ToolFailedError, match="No permissions to create a namespace"):
        command_line(environment, confinement, "true")
    write_script(program, "#!/bin/sh\nexit 0\n")

    assert str(program) in command_line(environment, confinement, "true")


@needs_sandbox
def test_a_bubblewrap_of_an_older_system_will_do(tmp_path: Path) -> None:
    """Before 0.7 it could not limit the size of a private /tmp."""
    environment = make_site(tmp_path / "site")
    old = write_script(
        tmp_path / "bwrap",
        '#!/bin/sh\ncase " $* " in *" --size "*) echo "bwrap: Unknown option --size" >&2; exit 1;;'
        f' esac\nexec {BWRAP.bwrap} "$@"\n',
    )
    done = _run(environment, "echo runs", Confinement(sandbox="bwrap", bwrap=old))

    assert done.stdout == "runs\n"


@needs_sandbox
def test_bubblewrap_is_found_on_the_gateways_path(tmp_path: Path) -> None:
    """Its owner installs it like any program."""
    environment = make_site(tmp_path / "site")
    write_script(tmp_path / "bin" / "bwrap", f'#!/bin/sh\nexec {BWRAP.bwrap} "$@"\n')
    found = dataclasses.replace(
        environment, environ={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    )

    assert _run(found, "echo runs", Confinement(sandbox="bwrap")).stdout == "runs\n"


async def test_a_workspace_that_cannot_be_made_is_a_clear_failure(tmp_path: Path) -> None:
    """A file may stand where the folder should."""
    environment = make_site(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolFailedError, match="workspace cannot be used: Not a directory"):
        await confine(
            dataclasses.replace(environment, files=tmp_path / "file" / "inside"), PLAIN, "true"
        )
