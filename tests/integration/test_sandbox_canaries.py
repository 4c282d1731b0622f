"""A secret in every place where a machine keeps some, and commands that look for it everywhere."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Generator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest
from msgspec.structs import replace
from support.commands import BWRAP, make_site, needs_sandbox
from support.patience import WAIT_S
from support.tables import table

from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.shell.confinement import sandbox
from everturn_gateway.tools.shell.confinement.environment import command_environ
from everturn_gateway.tools.shell.confinement.sandbox import Confinement, command_line

pytestmark = needs_sandbox

_HOMES = (
    *(".ssh/id_ed25519", ".codex/auth.json", ".claude/.credentials.json", ".claude.json"),
    *(".aws/credentials", ".netrc", ".bash_history", ".gitconfig", ".config/gh/hosts.yml"),
    *(".mozilla/firefox/x.default/cookies.sqlite", ".config/google-chrome/Default/Cookies"),
    *(".gnupg/private-keys-v1.d/k.key", "Documents/letter.txt", "notes.md", ".pgpass"),
)
"What stands in the home of a person."
_MACHINE = (
    *("/home", "/root", "/srv", "/opt", "/mnt", "/media"),
    *("/var/lib", "/var/log", "/var/tmp"),  # noqa: S108 - it is not shown
)
"Where it is put as well, where the tests may write there."
_MORE = ("/tmp", "/run", "/dev/shm", "/etc", "/usr/local/etc")  # noqa: S108 - as well

_LOOK_INTO = """
cat {folder}/everturn.yaml {folder}/.env {folder}/.everturn/* {folder}/.everturn/*/*
cat {home}/agent.yaml {home}/policy.yaml {home}/policy.local.yaml {home}/.env
cat {folder}/agents/other/* {folder}/agents/other/.* ../../sessions/* ../../../everturn.yaml
cat {person}/.ssh/* {person}/.codex/* {person}/.claude/.credentials.json {person}/.netrc
cat {person}/.mozilla/firefox/*/cookies.sqlite {person}/.config/google-chrome/Default/Cookies
cat ~root/* ~root/.ssh/* ~/.* /root/.*
find / \\( -path /proc -o -path /usr -o -path /dev \\) -prune -o -type f -exec cat {{}} +
find / \\( -path /proc -o -path /usr -o -path /dev \\) -prune -o -print
find /usr /lib /bin -name '*canary*'
grep -rsa {word} /home /root /srv /opt /var /mnt /media /etc /run /tmp /dev/shm /sys /boot . ..
grep -rsa {word} {folder} {person} {home}
grep -rsa {word} /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/maps /proc/self/mountinfo
grep -rsa {word} /usr/local/etc /etc
ls -laR {folder} {person} /home /root /srv /opt /var /mnt /media /run /tmp /etc /dev
ls -laR /proc/[0-9]*/fd /proc/[0-9]*/cwd /proc/[0-9]*/root/home
env; set; export -p; printenv; declare -x
cat /proc/self/environ /proc/1/environ /proc/*/environ | tr '\\0' '\\n'
cat /proc/*/cmdline | tr '\\0' '\\n'
strings -a /proc/*/environ
for p in /proc/[0-9]*; do cat $p/environ $p/cmdline $p/status; readlink $p/exe; done
ps auxeww; ps -ef; top -bn1
tar c --exclude=/proc --exclude=/usr --exclude=/dev /
tar c --dereference /home /root /srv /opt /var /mnt /media /run /etc {folder} {person}
tar c {folder}/everturn.yaml {folder}/agents/other {folder}/.everturn/sessions
cp -r {person} {folder}/agents/other {folder}/.everturn/sessions . ; cat */* */*/*
dd if={folder}/everturn.yaml; head -c 9999 {person}/.netrc; tail {person}/notes.md
sort {folder}/.env {person}/*; awk 1 {person}/notes.md; sed p {person}/notes.md; diff {person} /tmp
ln -s {folder}/everturn.yaml a; ln -s / b; ln -s {person} c; cat a b{folder}/.env c/notes.md; rm ?
ln {folder}/everturn.yaml d; cat d; mount --bind / /mnt; ls /mnt; chroot / cat {folder}/.env
cat /proc/self/root{folder}/everturn.yaml /proc/1/root{folder}/everturn.yaml
cat /proc/1/root{person}/notes.md /proc/1/cwd/everturn.yaml /proc/*/root{folder}/.env
cat /proc/self/cwd/../../../everturn.yaml /proc/self/fd/*{folder}/everturn.yaml
for fd in $(seq 0 255); do timeout 0.01 cat <&$fd; ls /proc/self/fd/$fd/; done 2>/dev/null
cat /proc/cmdline /proc/keys /proc/key-users /proc/kcore /proc/kmsg /proc/kallsyms | head -c 1000000
cat /dev/mem /dev/kmem /dev/sda /dev/vda /dev/nvme0n1 /dev/mapper/* /dev/kmsg | head -c 1000000
cat /sys/class/dmi/id/* /sys/fs/cgroup/* /sys/kernel/debug/*
dmesg; journalctl -n 100; last; who; lastlog; cat /var/log/* /var/mail/*
getent passwd; getent shadow; cat /etc/shadow /etc/passwd /etc/group /etc/environment /etc/gitconfig
crontab -l; cat /etc/cron*/* /var/spool/cron/* /etc/fstab /etc/mtab
git config --list --show-origin; git -C {folder} log -p; curl -s file://{folder}/everturn.yaml
curl -s --unix-socket {socket} http://x/; curl -s --abstract-unix-socket {name} http://x/
curl -s --unix-socket /run/docker.sock http://x/; curl -s --unix-socket ./s http://x/
curl -sm 2 http://169.254.169.254/latest/meta-data/ http://[fd00:ec2::254]/ http://100.100.100.200/
curl -sm 2 http://metadata.google.internal/ http://127.0.0.1:{port}/ http://localhost:{port}/
exec 3<>/dev/tcp/127.0.0.1/{port}; echo GET >&3; timeout 1 cat <&3
exec 3<>/dev/tcp/169.254.169.254/80; echo GET >&3; timeout 1 cat <&3
python3 -c "import os; print(dict(os.environ)); os.system('env')"
python3 unix.py; python3 tree.py; node -p 'JSON.stringify(process.env)'
sudo -n cat {folder}/everturn.yaml; su -c 'cat {folder}/everturn.yaml'; pkexec cat {person}/notes.md
nsenter -t 1 -a cat {folder}/everturn.yaml; nsenter -t $PPID -m cat {person}/notes.md
unshare -r cat {folder}/.env; unshare -rm sh -c 'mount --bind / /mnt; cat /mnt{person}/notes.md'
gdb -p 1 -batch -ex 'info proc'; strace -p 1 -o /dev/stdout & sleep 0.2; kill %1
ssh-add -l; gpg --list-secret-keys; secret-tool search x y; keyctl show; keyctl list @u
systemd-run --user cat {person}/notes.md; at now <<< 'cat {folder}/.env'; docker ps; tmux ls
"""
_UNIX = """
import socket
for where in {where!r}:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        try:
            with socket.socket(socket.AF_UNIX, kind) as link:
                link.settimeout(2)
                link.connect(where)
                print("connected", where[-10:], link.recv(100))
        except OSError as error:
            print(error)
for family in (socket.AF_VSOCK, socket.AF_PACKET, socket.AF_ALG, 31, 21):
    try:
        socket.socket(family, socket.SOCK_DGRAM).close()
        print("made", family)
    except OSError as error:
        print(error)
"""
_TREE = """
import os
seen = set()
for top in ("/", "/proc/1/root", "/proc/self/root", "/proc/thread-self/root"):
    for folder, folders, files in os.walk(top):
        if folder == top:
            folders[:] = sorted(set(folders) - {"usr", "proc", "dev"})
        try:
            it = os.stat(folder)
        except OSError:
            continue
        if (it.st_dev, it.st_ino) in seen:  # the same, by another way
            folders.clear()
            continue
        seen.add((it.st_dev, it.st_ino))
        for name in files:
            try:
                text = open(os.path.join(folder, name), "rb").read(10000)
            except OSError:
                continue
            print(folder, name, text if b"canary" in text else "")
"""


@dataclass(frozen=True, slots=True)
class _World:
    environment: ToolEnvironment
    word: str
    "The secret; in the name of some files as well."
    person: Path
    socket: str
    name: str
    "Of a socket that is no file."
    port: int


@pytest.fixture(scope="module")
def world() -> Generator[_World]:
    """A machine with the secret in every place that can be written to."""
    word = f"canary{secrets.token_hex(8)}"
    with ExitStack() as stack:
        places: list[Path] = []
        for place in (*_MACHINE, *_MORE, str(Path.home())):
            with suppress(OSError):
                made = tempfile.mkdtemp(dir=place, prefix=f".{word}-")
                stack.callback(shutil.rmtree, made, ignore_errors=True)
                places.append(Path(made))
                Path(made, f"{word}.txt").write_text(word)
        # A gateway in the home of one person, and the home of another.
        home = Path.home() if places[-1].parent == Path.home() else places[0].parent
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=home, prefix="gate-")))
        person = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=home, prefix="person-")))
        for name in _HOMES:
            (person / name).parent.mkdir(parents=True, exist_ok=True)
            (person / name).write_text(word)
        environment = make_site(folder, HOME=str(person), OPENAI_API_KEY=word)
        for name in ("policy.yaml", "policy.local.yaml", "agent.yaml", ".env"):
            (environment.home / name).write_text(word)
            (environment.home.parent / "other" / name).write_text(word)
        (environment.state / "sessions" / "events.jsonl").write_text(word)
        (environment.state / "policy.yaml").write_text(word)
        for name in ("everturn.yaml", ".env", "key.txt"):
            (folder / name).write_text(word)
        answering = stack.enter_context(_Answering(folder / "socket", word))
        victim = subprocess.Popen(["/bin/sleep", "600"], env={"TOKEN": word})
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        (environment.files / "unix.py").write_text(
            _UNIX.format(where=[str(answering.file), f"\0{answering.name}"])
        )
        (environment.files / "tree.py").write_text(_TREE)
        yield _World(environment, word, person, str(answering.file), answering.name, answering.port)


class _Answering:
    """Sockets of another program, which tell the secret to whoever connects."""

    def __init__(self, file: Path, word: str) -> None:
        self.file, self.name = file, f"everturn-{secrets.token_hex(4)}"
        self._word = word.encode()
        self._sockets = [
            socket.socket(socket.AF_UNIX),
            socket.socket(socket.AF_UNIX),
            socket.socket(socket.AF_INET),
        ]
        # The path of a socket has a hundred bytes at most, so it is named from its folder.
        fd = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        self._sockets[0].bind(f"/proc/self/fd/{fd}/{file.name}")
        os.close(fd)
        self._sockets[1].bind(f"\0{self.name}")
        self._sockets[2].bind(("127.0.0.1", 0))
        self.port: int = self._sockets[2].getsockname()[1]

    def __enter__(self) -> Self:
        for each in self._sockets:
            each.listen()
            threading.Thread(target=self._answer, args=(each,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _answer(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                link, _ = listening.accept()
                with link:
                    link.sendall(self._word)


def _look(world: _World, command: str, confinement: Confinement = BWRAP) -> str:
    return _printed(world, command, confinement).decode(errors="replace")


def _printed(world: _World, command: str, confinement: Confinement = BWRAP) -> bytes:
    done = subprocess.run(
        command_line(world.environment, confinement, command),
        env=command_environ(world.environment, sandbox.HOME),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=WAIT_S,
        check=False,
    )
    return done.stdout


def _filled(world: _World, command: str) -> str:
    folder = world.environment.state.parent
    return command.format(
        folder=folder,
        home=world.environment.home,
        person=world.person,
        word=f"[c]{world.word[1:]}",  # which does not find itself in the list of processes
        socket=world.socket,
        name=world.name,
        port=world.port,
    )


@table("command", _LOOK_INTO.strip().splitlines(), parts=2)
def test_a_secret_of_the_machine_is_never_printed(world: _World, command: str) -> None:
    """What is on no list does not exist: no new program's keys have to be thought of."""
    filled = _filled(world, command)
    said = _printed(world, filled)  # a whole machine: to decode it takes longer than to print it
    found = said.splitlines() if world.word.encode() in said else []
    lines = [line.decode(errors="replace") for line in found if world.word.encode() in line]
    if filled != command and world.word in filled:
        lines = [line for line in lines if f"grep -rsa {world.word}" not in line]

    assert [line[:300] for line in lines] == []


def test_the_secret_would_be_found(world: _World) -> None:
    """Or the tests above would say nothing."""
    plain = replace(BWRAP, sandbox="none")
    folder = world.environment.state.parent

    for command in (
        f"cat {folder}/everturn.yaml",
        f"cat {world.person}/.codex/auth.json",
        "grep -sa TOKEN= /proc/[0-9]*/environ",
        f"python3 {world.environment.files}/unix.py",
        f"exec 3<>/dev/tcp/127.0.0.1/{world.port}; cat <&3",
    ):
        assert world.word in _look(world, command, plain), command


@table("network", [True, False])
def test_no_socket_of_another_program_answers(world: _World, *, network: bool) -> None:
    """A socket without a file is one of the network's; a read-only mount stops no connection."""
    said = _look(world, "python3 unix.py", replace(BWRAP, network=network))

    assert world.word not in said
    assert "connected" not in said
    assert "made" not in said
    assert "Traceback" not in said


def test_sockets_of_its_own_work(world: _World) -> None:
    """Test suites and pools of processes speak over them."""
    program = (
        "import socket\n"
        "a = socket.socket(socket.AF_UNIX); a.bind('/tmp/s'); a.listen()\n"
        "b = socket.socket(socket.AF_UNIX); b.connect('/tmp/s'); print('fine')\n"
        "c, d = socket.socketpair(); c.send(b'x'); print(d.recv(1))\n"
        "e = socket.create_server(('127.0.0.1', 0)); socket.create_connection(e.getsockname())\n"
        "print(socket.gethostbyname('localhost'))\n"
    )
    (world.environment.files / "own.py").write_text(program)

    assert _look(world, "python3 own.py") == "fine\nb'x'\n127.0.0.1\n"


def test_what_is_left_of_the_machine_is_short(world: _World) -> None:
    """A whole list, so that a new line in it is a decision."""
    said = _look(world, "ls -A / /home /root /srv /opt /var /mnt /media /run")
    folder = world.environment.state.parent
    entries = {line for line in said.split() if not line.startswith("/") or not line.endswith(":")}
    expected = {
        *("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "proc", "dev", "tmp"),
        *("home", "root", "srv", "opt", "var", "mnt", "media", "run", "nix", "gnu"),
    }

    assert entries - expected <= {*folder.parts, "cargo", "go"}


def test_the_environment_of_a_command_is_known(world: _World) -> None:
    """Nothing of the gateway's, whichever way it is asked for."""
    program = "import json, os; print(json.dumps(sorted(os.environ)))"
    names = set(json.loads(_look(world, f'python3 -c "{program}"')))
    given = set(command_environ(world.environment, sandbox.HOME))

    assert names - given <= {"USER", "LOGNAME", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"}
