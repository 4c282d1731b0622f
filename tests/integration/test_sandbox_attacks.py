"""Ways out of sandboxes that others were left by, tried in ours."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.commands import BWRAP, make_site, needs_sandbox
from support.patience import WAIT_S
from support.tables import table

from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.shell.confinement import sandbox
from everturn_gateway.tools.shell.confinement.environment import command_environ
from everturn_gateway.tools.shell.confinement.filters import MACHINES, call_filter
from everturn_gateway.tools.shell.confinement.sandbox import Confinement, command_line

pytestmark = needs_sandbox
_filtered = pytest.mark.skipif(
    platform.machine() not in MACHINES, reason="there is no filter for this processor"
)


@pytest.fixture
def environment() -> Generator[ToolEnvironment]:
    """A workspace that is not below /tmp, which a command has of its own."""
    with tempfile.TemporaryDirectory(dir=Path.home(), prefix="everturn-attacks-") as made:
        yield make_site(Path(made))


def _run(environment: ToolEnvironment, command: str, confinement: Confinement = BWRAP) -> str:
    done = subprocess.run(
        command_line(environment, confinement, command),
        env=command_environ(environment, sandbox.HOME),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    return done.stdout


def _python(environment: ToolEnvironment, program: str, confinement: Confinement = BWRAP) -> str:
    (environment.files / "attack.py").write_text(program)
    return _run(environment, "python3 attack.py", confinement)


def test_no_process_inside_leads_to_a_program_outside(environment: ToolEnvironment) -> None:
    """By /proc/1/exe a container once replaced the program that had made it."""
    bwrap = BWRAP.bwrap
    assert bwrap is not None
    before = bwrap.stat()
    said = _run(
        environment,
        "for p in /proc/[0-9]*; do readlink $p/exe; chmod 777 $p/exe; touch -h $p/exe; done;"
        " cat /proc/[0-9]*/cmdline /proc/[0-9]*/maps /proc/[0-9]*/mountinfo",
    )

    assert "bwrap" not in said
    assert "warden" not in said
    assert (bwrap.stat().st_mode, bwrap.stat().st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


@_filtered
def test_no_file_is_made_that_runs_as_its_owner(environment: ToolEnvironment) -> None:
    """It would be the gateway's user, root maybe, and anybody on the machine could run it."""
    said = _python(
        environment,
        "import os\n"
        "open('a', 'w').close()\n"
        "made = os.O_CREAT | os.O_WRONLY\n"
        "for mode in (0o4755, 0o2755, 0o6000):\n"
        "    for what in (lambda: os.chmod('a', mode), lambda: os.mknod('b', 0o100000 | mode),\n"
        "        lambda: os.open('c', made, mode), lambda: os.open('.', os.O_TMPFILE | 1, mode),\n"
        "        lambda: os.fchmod(os.open('a', 0), mode),\n"
        "        lambda: os.chmod('a', mode, dir_fd=os.open('.', 0))):\n"
        "        try: print('done', what())\n"
        "        except PermissionError: print('refused')\n"
        "os.close(os.open('d', made, 0o640)); os.chmod('d', 0o755); os.open('d', os.O_RDONLY)\n"
        "print(oct(os.stat('d').st_mode))",
    )

    assert said.splitlines() == ["refused"] * 18 + ["0o100755"]
    assert not [each for each in environment.files.iterdir() if each.stat().st_mode & 0o6000]


def test_programs_that_run_as_their_owner_give_nothing(environment: ToolEnvironment) -> None:
    """The sandbox is nosuid, and what it runs gets no new privileges."""
    said = _run(
        environment,
        "find / -xdev -perm -4000 -type f -path '/usr/bin/*' | while read p; do"
        " timeout 1 $p --version < /dev/null > /dev/null 2>&1; done;"
        " grep -E 'NoNewPrivs|Cap(Eff|Bnd)' /proc/self/status; findmnt -no OPTIONS / 2>/dev/null",
    )

    assert "NoNewPrivs:\t1" in said
    assert said.count("0000000000000000") == 2
    last = _run(environment, "cut -d' ' -f6 /proc/self/mountinfo").split()
    assert [each for each in last if "nosuid" not in each.split(",")] == []


def test_no_device_can_be_made(environment: ToolEnvironment) -> None:
    """The disk of the machine is one number away."""
    said = _run(
        environment,
        "mknod x b 8 0; mknod x c 1 1; mknod /tmp/x b 8 0; mknod /dev/shm/x c 1 2",
    )

    assert said.count("Operation not permitted") == 4, said


_REFUSED = {
    "EPERM": (
        *("keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd", "mount"),
        *("unshare", "setns", "open_tree", "fsopen", "open_by_handle_at"),
    ),
    "ENOSYS": ("io_uring_setup", "clone3", "openat2"),
}
"Calls of the kernel, by what they are answered."


@_filtered
def test_the_kernel_is_not_asked_for_what_nobody_needs(environment: ToolEnvironment) -> None:
    """Most holes in sandboxes were holes of the kernel."""
    refused = {call: error for error, calls in _REFUSED.items() for call in calls}
    numbers = {call: MACHINES[platform.machine()][1][call] for call in refused}
    program = (
        "import ctypes, errno, json\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def ask(number):\n"
        "    ctypes.set_errno(0)\n"
        "    answer = libc.syscall(number, 0, 0, 0, 0, 0)\n"
        "    return errno.errorcode.get(ctypes.get_errno(), '') if answer == -1 else answer\n"
        f"print(json.dumps({{call: ask(number) for call, number in {numbers}.items()}}))"
    )

    assert json.loads(_python(environment, program)) == refused


@_filtered
@table("name", ["TIOCSTI", "TIOCLINUX"])
def test_nothing_is_typed_into_a_terminal(environment: ToolEnvironment, name: str) -> None:
    """CVE-2017-5226: what a sandbox types, the shell that started it runs."""
    number = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C}[name]
    program = (
        "import fcntl, os, pty\n"
        "_, theirs = pty.openpty()\n"
        f"for number in ({number}, {number} | 1 << 40, -(1 << 32) + {number}):\n"
        "    try: print('typed', fcntl.ioctl(theirs, number & 0xffffffff, b'x'))\n"
        "    except OSError as error: print(error.strerror)\n"
    )

    assert _python(environment, program).splitlines() == ["Operation not permitted"] * 3


def test_user_namespaces_cannot_be_made(environment: ToolEnvironment) -> None:
    """In one of its own a process is root to many parts of the kernel."""
    said = _python(
        environment,
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.unshare(0x10000000), libc.unshare(0x00020000))\n"
        "print(os.stat('/proc/self/ns/user').st_ino)",
    )

    assert said.splitlines()[0] == "-1 -1"
    assert int(said.splitlines()[1]) != os.stat("/proc/self/ns/user").st_ino


def test_no_descriptor_of_the_gateway_is_inherited(environment: ToolEnvironment) -> None:
    """A file that is open is not asked for its folder any more."""
    secret = environment.state / "secret"
    secret.write_text("secret")
    fd = os.open(secret, os.O_RDONLY)
    os.set_inheritable(fd, True)  # noqa: FBT003
    try:
        said = _run(
            environment, "for p in /proc/[0-9]*; do ls $p/fd; timeout 0.1 cat $p/fd/*; done"
        )
    finally:
        os.close(fd)

    assert "secret" not in said
    # Its own three, and what the shell opens to read these.
    assert {word for word in said.split() if word.isdigit()} <= {"0", "1", "2", "3", "255"}


def test_other_processes_cannot_be_reached(environment: ToolEnvironment) -> None:
    """Neither by number, nor with the right of who has the same user."""
    victim = subprocess.Popen(["/bin/sleep", "60"])
    try:
        said = _run(
            environment,
            f"kill {victim.pid}; kill -0 {os.getpid()}; kill -9 -1; ls /proc/{victim.pid};"
            f" cat /proc/{os.getpid()}/environ; echo x > /proc/{victim.pid}/mem",
        )
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()
    assert said.count("No such") >= 4


def test_the_first_process_is_not_to_be_ended_or_replaced(environment: ToolEnvironment) -> None:
    """With it the limits would go, and the rest stay."""
    said = _run(
        environment, "kill -9 1; kill -STOP 1; kill -TERM 1; sleep 0.1; head -c 2 /proc/1/comm"
    )

    assert said == "sh"


def test_settings_of_the_kernel_cannot_be_changed(environment: ToolEnvironment) -> None:
    """To root's user they belong, capabilities or not."""
    said = _run(
        environment,
        "for f in /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sysrq-trigger"
        " /proc/sys/net/ipv4/ip_forward /proc/sys/fs/suid_dumpable /proc/irq/0/smp_affinity"
        " /proc/self/uid_map; do { echo 0 > $f; } 2>/dev/null && echo $f; done;"
        " cd /proc; cat kpagecount slabinfo vmallocinfo cmdline keys 2>/dev/null",
    )

    assert said == ""


def test_private_memory_is_private_and_bounded(environment: ToolEnvironment) -> None:
    """What one command leaves in /dev/shm, or in its IPC, is not there for another."""
    _run(environment, "echo x > /dev/shm/left; ipcmk -M 100 > /dev/null 2>&1")

    assert _run(environment, "ls /dev/shm; ipcs -m 2>/dev/null | grep -c agent") in {"0\n", ""}
    assert not Path("/dev/shm/left").exists()  # noqa: S108 - that is the question
    assert "No space" in _run(environment, "head -c 600000000 /dev/zero > /dev/shm/x")


def test_no_place_for_files_is_left_out_of_the_bounds(environment: ToolEnvironment) -> None:
    """A folder in memory without a size would take all of it."""
    said = _run(
        environment, "touch /dev/x /x /run/x /var/x /home/x /etc/x /proc/x /usr/x /opt/x /root/x"
    )

    assert said.count("touch: ") == 10


@table("machine", ["x86_64", "aarch64", "riscv64"])
@table("network", [True, False])
def test_a_filter_is_a_whole_program(machine: str, *, network: bool) -> None:
    """A jump beyond its end would make the kernel refuse it, and every command with it."""
    program = call_filter(network=network, machine=machine)
    assert program is not None
    steps = [program[at : at + 8] for at in range(0, len(program), 8)]

    assert steps[-1][0] == 0x06
    for at, step in enumerate(steps):
        code, yes, no = step[0] | step[1] << 8, step[2], step[3]
        if code in {0x15, 0x35, 0x45}:
            assert at + 1 + max(yes, no) < len(steps)
    assert call_filter(network=True, machine="m68k") is None


@_filtered
def test_with_a_network_there_are_pairs_of_sockets_and_no_others(
    environment: ToolEnvironment,
) -> None:
    """Event loops and pools of processes need pairs."""
    said = _python(
        environment,
        "import asyncio, socket, subprocess\n"
        "async def main(): return await (await asyncio.create_subprocess_exec('true')).wait()\n"
        "print(asyncio.run(main()), len(socket.socketpair()))\n"
        "try: socket.socket(socket.AF_UNIX)\n"
        "except OSError as error: print(error.strerror)\n",
        replace(BWRAP, network=True),
    )

    assert said.splitlines() == ["0 2", "Address family not supported by protocol"]
