"""What a confined command may take of the machine.

Each command that tries to take too much stops by itself at a bound that hurts nobody: a limit that
fails must fail the test, and not the machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from support.commands import BWRAP, lifeline, make_site, needs_sandbox, run_tool
from support.patience import WAIT_S

from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.shell import Confinement
from everturn_gateway.tools.shell.bash import BashTool
from everturn_gateway.tools.shell.confinement import sandbox, warden
from everturn_gateway.tools.shell.confinement.environment import command_environ
from everturn_gateway.tools.shell.confinement.sandbox import Limits, command_line, confine

pytestmark = needs_sandbox

_TREE = "f() { if [ $1 -gt 0 ]; then f $(($1-1)) & f $(($1-1)) & fi; wait; sleep 60; }; "
"`f N` starts 2^(N+1) shells, each of which stays: 1,024 for 9."


def _limited(**limits: int) -> Confinement:
    return replace(BWRAP, limits=replace(Limits(), **limits))


def _run(environment: ToolEnvironment, command: str, confinement: Confinement) -> tuple[int, str]:
    done = subprocess.run(
        command_line(environment, confinement, command),
        env=command_environ(environment, sandbox.HOME),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    return done.returncode, done.stdout


async def test_a_fork_bomb_ends_with_the_call(tmp_path: Path) -> None:
    """It took down the machine, and all other conversations with it."""
    # Who is not root cannot start more, and waits for an end; root is ended at once.
    tool = BashTool(make_site(tmp_path), _limited(tasks=100), timeout_s=8)
    with lifeline(tmp_path / ".everturn/files/helper") as line:
        began = time.monotonic()
        done = await run_tool(tool, {"command": f"exec 7>lifeline; {_TREE} f 9"})
        took_s = time.monotonic() - began

        await line.until_cut()
    assert done.is_error
    if os.geteuid() == 0:
        assert "more than 100 processes at once" in done.text
        assert "exit code 137" in done.text
    else:
        assert "fork" in done.text
    assert took_s < 15


async def test_a_fork_bomb_of_processes_that_leave_their_session_ends_too(tmp_path: Path) -> None:
    """`setsid` is how a daemon gets away from whoever started it."""
    tool = BashTool(make_site(tmp_path), _limited(tasks=50), timeout_s=20)
    command = "exec 7>lifeline; for i in $(seq 200); do setsid -f sleep 60; done; wait; sleep 60"
    with lifeline(tmp_path / ".everturn/files/helper") as line:
        done = await run_tool(tool, {"command": command})

        await line.until_cut()
    assert done.is_error


@pytest.mark.skipif(os.geteuid() != 0, reason="others are held by the kernel, process by process")
def test_threads_count_as_processes(tmp_path: Path) -> None:
    """A bomb of threads takes as much of the machine."""
    program = (
        "from threading import Thread\nfrom time import sleep\n"
        "for i in range(300): Thread(target=sleep, args=(20,), daemon=True).start()\n"
        "sleep(20)"
    )
    environment = make_site(tmp_path)
    (environment.files / "bomb.py").write_text(program)
    code, said = _run(environment, "python3 bomb.py", _limited(tasks=100))

    assert code == 128 + signal.SIGKILL
    assert "more than 100 processes and threads at once" in said


def test_what_is_within_the_limits_is_left_alone(tmp_path: Path) -> None:
    """A limit that ends a build is switched off."""
    command = "for i in $(seq 60); do sleep 0.5 & done; wait; echo done"
    code, said = _run(make_site(tmp_path), command, _limited(tasks=100))

    assert (code, said) == (0, "done\n")


def test_memory_of_all_processes_together_is_limited(tmp_path: Path) -> None:
    """Each of them stays below what one may have."""
    command = (
        "for i in 1 2 3 4 5 6; do head -c 40000000 /dev/zero | tail -c 40000000 | sleep 20 & done;"
        " wait"
    )
    code, said = _run(make_site(tmp_path), command, _limited(memory_bytes=100 * 1024**2))

    assert code == 128 + signal.SIGKILL
    assert "more than 100 MiB of memory" in said


def test_memory_of_one_process_is_limited(tmp_path: Path) -> None:
    """Before it was looked at."""
    environment = make_site(tmp_path)
    program = "x = bytearray(300 * 1024 * 1024)"
    code, said = _run(environment, f"python3 -c '{program}'", _limited(memory_bytes=100 * 1024**2))

    assert code != 0
    assert "MemoryError" in said


def test_the_size_of_a_file_is_limited(tmp_path: Path) -> None:
    """The disk is everybody's."""
    environment = make_site(tmp_path)
    code, said = _run(environment, "head -c 3000000 /dev/zero > big", _limited(file_bytes=1024**2))

    assert code != 0
    assert "File" in said
    assert (environment.files / "big").stat().st_size == 1024**2


def test_limits_cannot_be_raised_from_inside(tmp_path: Path) -> None:
    """They are hard ones, also for who has the number 0 outside."""
    command = "ulimit -c; ulimit -c 1; ulimit -f unlimited; ulimit -d unlimited; ulimit -n 100000"
    _, said = _run(make_site(tmp_path), command, BWRAP)

    assert said.splitlines()[0] == "0"
    assert said.count("cannot modify limit") == 4


def test_no_core_file_is_written(tmp_path: Path) -> None:
    """It would lie in the workspace, or go to a program of the machine's, outside."""
    environment = make_site(tmp_path)
    code, _ = _run(environment, "kill -SEGV $$", BWRAP)

    assert code == 128 + signal.SIGSEGV
    assert not list(environment.files.iterdir())


def test_the_memory_of_commands_is_the_first_to_be_taken(tmp_path: Path) -> None:
    """Where the machine has none left, the kernel should not choose the gateway."""
    _, said = _run(make_site(tmp_path), "cat /proc/self/oom_score_adj; nice", BWRAP)

    assert said.splitlines() == ["1000", "5"]


def test_exit_codes_are_those_of_the_command(tmp_path: Path) -> None:
    """The warden stands between."""
    environment = make_site(tmp_path)

    for command, code in (("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("nosuch", 127)):
        assert _run(environment, command, BWRAP)[0] == code


async def test_a_command_ends_with_whoever_started_it(tmp_path: Path) -> None:
    """A gateway that is killed leaves nothing behind that is confined."""
    environment = make_site(tmp_path)
    argv = await confine(environment, BWRAP, "exec 7>lifeline; echo up >&7; sleep 60")
    with lifeline(environment.files) as line:
        # A shell in between, which is killed as a gateway would be. No pipe leads to it: what it
        # leaves behind would hold it open, and the loop would end before it was closed.
        async with await anyio.open_process(
            ["/bin/sh", "-c", '"$@"; :', "sh", *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as between:
            assert await line.next_line() == "up"
            between.kill()
            await between.wait()
        await line.until_cut()


def test_a_warden_that_cannot_look_inside_runs_nothing(tmp_path: Path) -> None:
    """Without limits would be the worst of surprises."""
    program = tmp_path / "bwrap"
    # It says that the first process is one that has no root of its own.
    program.write_text(
        f"#!/bin/sh\necho '{{\"child-pid\": 1}}' >&{warden.INFO_FD}\nexec sleep 60\n"
    )
    program.chmod(0o755)
    order = '{"data": [], "tasks": 9, "memory_bytes": 9, "file_bytes": 9, "files": 9, "nice": 0}'
    done = subprocess.run(
        ["python3", "-I", "-S", warden.__file__, order, str(program)],  # noqa: S607
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )

    assert done.returncode == 126
    assert "its limits cannot be set here, so nothing was run" in done.stderr
