"""Processes: how they end, what is read of them, and that nothing of them is left."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from support.commands import lifeline, write_script
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.shell import running
from everturn_gateway.tools.shell.running import Finished, run_process

_ENV = {"PATH": os.environ["PATH"]}


async def _bash(
    folder: Path, command: str, *, timeout_s: float = WAIT_S, stdin: bytes = b""
) -> Finished:
    with anyio.fail_after(WAIT_S + 10):
        return await run_process(
            ["bash", "-c", "--", command],
            cwd=folder,
            env=_ENV,
            timeout_s=timeout_s,
            limit_bytes=10_000,
            stdin=stdin,
        )


async def test_both_streams_are_read_in_the_order_of_writing(tmp_path: Path) -> None:
    """An error makes sense only beside the line that it belongs to."""
    done = await _bash(tmp_path, "echo one; echo two >&2; echo three; exit 3")

    assert done == Finished(text="one\ntwo\nthree\n", exit_code=3)


async def test_a_killed_process_says_which_signal_ended_it(tmp_path: Path) -> None:
    """Out of memory and a bug look alike otherwise."""
    done = await _bash(tmp_path, "echo begun; kill -KILL $$")

    assert done == Finished(text="begun\n", exit_code=128 + 9)


async def test_a_process_that_asks_for_input_gets_its_end_or_what_it_is_given(
    tmp_path: Path,
) -> None:
    """One that waits for somebody to type would hang until its deadline."""
    assert (await _bash(tmp_path, "cat; echo end")).text == "end\n"
    assert (await _bash(tmp_path, "cat", stdin=b"a" * 200_000)).left_out_bytes == 190_000


@table(
    "leaves",
    [
        pytest.param("sleep 1000", id="in the background"),
        pytest.param("setsid sleep 1000", id="in a session of its own"),
        pytest.param("(setsid setsid sleep 1000 >/dev/null 2>&1 &)", id="a daemon"),
        pytest.param("env -i sleep 1000", id="without our environment"),
    ],
)
async def test_children_that_outlive_the_command_neither_hold_it_up_nor_stay(
    tmp_path: Path, leaves: str
) -> None:
    """A child that keeps the output open is the classic way to hang an agent for ever."""
    with lifeline(tmp_path) as line:
        done = await _bash(tmp_path, f"exec 9>lifeline; {leaves} & echo done")

        await line.until_cut()
    assert done == Finished(text="done\n", exit_code=0)


async def test_a_hanging_process_ends_at_its_deadline_with_all_that_it_started(
    tmp_path: Path,
) -> None:
    """Even one that does not want to."""
    stubborn = "trap '' TERM; while :; do sleep 1000; done"
    with lifeline(tmp_path) as line:
        done = await _bash(
            tmp_path,
            f'exec 9>lifeline; echo begun; setsid bash -c "{stubborn}" & {stubborn}',
            timeout_s=2,
        )

        await line.until_cut()
    assert (done.text, done.timed_out, done.is_error) == ("begun\n", True, True)


async def test_a_process_may_put_its_things_in_order_before_it_ends(tmp_path: Path) -> None:
    """A lock file that stays behind breaks the next command."""
    command = (
        "exec 9>lifeline; trap 'echo yes > tidied; exit' TERM; echo up >&9;"
        " while :; do sleep 0.01; done"
    )
    with lifeline(tmp_path) as line:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_bash, tmp_path, command)
            await line.next_line()
            tasks.cancel_scope.cancel()

    assert (tmp_path / "tidied").exists()


@table("stubborn", ["", "trap '' TERM; "])
async def test_cancellation_ends_the_whole_tree_before_it_returns(
    tmp_path: Path, stubborn: str
) -> None:
    """/stop has to stop, not only to stop listening."""
    command = (
        f'exec 9>lifeline; {stubborn}setsid bash -c "{stubborn}echo up >&9; sleep 1000" &'
        " while :; do sleep 1000; done"
    )
    with lifeline(tmp_path) as line:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_bash, tmp_path, command)
            begun = await line.next_line()
            tasks.cancel_scope.cancel()

        assert begun == "up"
        await line.until_cut()


def test_a_cancelled_command_takes_less_than_a_second() -> None:
    """The promise of /stop, as the sum of what is waited for."""
    assert running.GRACE_S + running._KILL_S + running._REAP_S <= 1.0


async def test_a_flood_is_read_to_its_end_and_only_its_ends_are_kept(tmp_path: Path) -> None:
    """A gigabyte of output must neither fill the memory nor stop the command half-way."""
    done = await _bash(tmp_path, "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo last")

    assert done.exit_code == 0
    assert done.text.startswith("first\nxxx")
    assert done.text.endswith("xxxlast\n")
    assert done.left_out_bytes == 100_000_011 - 10_000


async def test_a_flood_is_read_slowly_from_some_size_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One runaway command must not take the processor of all conversations."""
    monkeypatch.setattr(running, "_FREE_BYTES", 1)
    monkeypatch.setattr(running, "_FLOOD_PAUSE_S", WAIT_S)
    done = await _bash(tmp_path, "yes", timeout_s=0.3)

    assert done.timed_out
    assert len(done.text) + done.left_out_bytes < 2 * 1024**2


async def test_what_is_printed_last_is_read_even_if_nobody_listened_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last lines are those that say what went wrong."""
    monkeypatch.setattr(running, "_FREE_BYTES", 1)
    monkeypatch.setattr(running, "_FLOOD_PAUSE_S", WAIT_S)
    done = await _bash(tmp_path, "echo first; sleep 0.05; echo last")

    assert done.text == "first\nlast\n"


async def test_an_endless_flood_ends_at_its_deadline_while_others_go_on(tmp_path: Path) -> None:
    """Whoever shares the gateway with a runaway command has to be served."""
    turns = 0
    async with anyio.create_task_group() as tasks:

        async def others() -> None:
            nonlocal turns
            while True:
                await anyio.lowlevel.checkpoint()
                turns += 1

        tasks.start_soon(others)
        done = await _bash(tmp_path, "yes", timeout_s=0.3)
        tasks.cancel_scope.cancel()

    assert done.timed_out
    assert turns > 100


async def test_a_file_that_grows_too_large_ends_the_command_not_the_gateway(
    tmp_path: Path,
) -> None:
    """A full disk is the command's failure, and has to be told as one."""
    done = await _bash(tmp_path, "ulimit -f 8; head -c 10000000 /dev/zero > big; echo is $?")

    assert "File size limit exceeded" in done.text
    assert done.text.endswith("is 153\n")


@table(
    ("argv", "why"),
    [
        pytest.param(["no-such-program"], "there is no such program", id="missing"),
        pytest.param(["./script"], "permission denied", id="not executable"),
        pytest.param(["./garbage"], "neither a program nor a script", id="no program"),
        pytest.param(["./orphan"], "or none that its first line", id="no interpreter"),
        pytest.param(["echo", "a\0b"], "holds a character", id="NUL"),
        pytest.param(["echo", "\ud800"], "holds a character", id="half a surrogate pair"),
        pytest.param(["echo", "x" * 200_000], "too long; write it to a file", id="too long"),
    ],
)
async def test_what_cannot_be_started_says_why(tmp_path: Path, argv: list[str], why: str) -> None:
    """The model can only do better if it knows what was wrong."""
    (tmp_path / "script").write_text("#!/bin/sh\n")
    write_script(tmp_path / "garbage", "nothing\n")
    write_script(tmp_path / "orphan", "#!/no/such/interpreter\n")
    with pytest.raises(ToolFailedError, match=why):
        await run_process(argv, cwd=tmp_path, env=_ENV, timeout_s=WAIT_S, limit_bytes=100)


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """The program is not what is missing."""
    with pytest.raises(ToolFailedError, match=r"there is no folder .*gone"):
        await _bash(tmp_path / "gone", "true")


async def test_many_at_once_leave_no_descriptor_open(tmp_path: Path) -> None:
    """A gateway that runs for months starts many commands."""
    before = len(os.listdir("/proc/self/fd"))
    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(_bash, tmp_path, "echo x")
    with pytest.raises(ToolFailedError):
        await _bash(tmp_path / "gone", "true")

    assert len(os.listdir("/proc/self/fd")) <= before
