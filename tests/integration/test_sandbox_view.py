"""Which parts of a machine commands see, of what its owner lists and of its toolchains."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from msgspec import structs
from support.command import everturn, write_agent
from support.commands import BWRAP, make_site, needs_sandbox, write_script
from support.patience import WAIT_S
from support.tables import table

from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.shell import unseen_places
from everturn_gateway.tools.shell.confinement import sandbox
from everturn_gateway.tools.shell.confinement.environment import command_environ
from everturn_gateway.tools.shell.confinement.sandbox import Confinement, command_line

pytestmark = needs_sandbox


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder that is not below /tmp, which a command has of its own."""
    with tempfile.TemporaryDirectory(dir=Path.home(), prefix="everturn-view-") as made:
        yield Path(made)


def _run(
    environment: ToolEnvironment,
    command: str,
    confinement: Confinement = BWRAP,
    *,
    readable: Sequence[Path] = (),
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command_line(environment, confinement, command, readable=readable),
        env=command_environ(environment, sandbox.HOME),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def test_what_is_listed_is_shown_and_no_more(folder: Path) -> None:
    """An owner adds what a project needs."""
    environment = make_site(folder / "gate")
    for name in ("book/page", "book/.env", "out/old", "other/page"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"{name}\n")
    confinement = structs.replace(BWRAP, readable=(folder / "book",), writable=(folder / "out",))
    done = _run(
        environment,
        f"cd {folder}; cat book/page other/page; echo x > out/new; echo x > book/n",
        confinement,
    )

    assert done.stdout == "book/page\n"
    assert done.stderr.count("No such file") == 1
    assert done.stderr.count("Read-only file system") == 1
    assert (folder / "out/new").exists()


def test_secrets_in_a_folder_that_is_listed_stay_hidden(folder: Path) -> None:
    """Who lists a home means the work in it."""
    environment = make_site(folder / "gate", HOME=str(folder))
    for name in (".ssh/id", ".codex/auth.json", ".claude/.credentials.json", ".env", "work/notes"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"of {name}\n")
    shown = structs.replace(BWRAP, readable=(folder,))
    named = structs.replace(BWRAP, readable=(folder, folder / ".codex"))
    command = f"cd {folder}; cat .ssh/* .codex/* .claude/.c* .env work/notes gate/.everturn/*/*"

    assert _run(environment, command, shown).stdout == "of work/notes\n"
    assert _run(environment, command, named).stdout == "of .codex/auth.json\nof work/notes\n"


def test_a_path_that_leads_by_a_link_is_found_by_both_names(folder: Path) -> None:
    """Homes are links on some systems, and scripts name them as people do."""
    environment = make_site(folder / "gate")
    (folder / "real").mkdir()
    (folder / "real/page").write_text("page\n")
    (folder / "way").symlink_to("real")
    confinement = structs.replace(BWRAP, readable=(folder / "way", folder / "gone"))
    done = _run(environment, f"cat {folder}/way/page {folder}/real/page", confinement)

    assert done.stdout == "page\npage\n"
    assert unseen_places({"PATH": "/usr/bin"}, confinement) == ([], [folder / "gone"])


def test_a_virtual_environment_on_the_path_works(folder: Path) -> None:
    """The gateway itself is installed into one, often in a home; so are an agent's packages."""
    venv = folder / "venv"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=WAIT_S
    )
    (next(venv.glob("lib/python3*/site-packages")) / "mine.py").write_text("print('mine')")
    (venv / "notes.txt").write_text("private")
    environment = make_site(folder / "gate", PATH=f"{venv}/bin:{os.environ['PATH']}")
    done = _run(
        environment,
        f"python -c 'import mine, json, ssl, sys; print(sys.prefix)'; cat {venv}/notes.txt;"
        f" touch {venv}/bin/x",
    )

    assert done.stdout == f"mine\n{venv}\n"
    assert done.stderr.count("No such file") == 1
    assert done.stderr.count("Read-only file system") == 1


@table(
    "mark", ["include/node/node.h", "lib/rustlib/x", "pkg/tool/x", "conda-meta/history", "Cellar/x"]
)
def test_a_toolchain_is_known_by_its_make(folder: Path, mark: str) -> None:
    """A folder on the PATH alone says nothing of what lies beside it."""
    own = folder / mark.replace("/", "-")
    prefix = own / "tool"
    write_script(prefix / "bin" / "runs", '#!/bin/sh\ncat "${0%/bin/runs}/lib/data"\n')
    for name in (mark, "lib/data", "secret"):
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).write_text(f"{name}\n")
    environment = make_site(own / "gate", PATH=f"{prefix}/bin:{os.environ['PATH']}")

    assert _run(environment, f"runs; cat {prefix}/secret").stdout == "lib/data\n"
    assert unseen_places({"PATH": f"{prefix}/bin"}, BWRAP) == ([], [])


def test_a_folder_of_programs_in_a_home_shows_nothing(folder: Path) -> None:
    """`~/bin` and `~/.local/bin` are on many a PATH, and beside them lies a home."""
    home = folder / "home"
    for name in ("bin", ".local/bin", ".cargo/bin"):
        write_script(home / name / "mine", "#!/bin/sh\necho ran\n")
    (home / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (home / "lib").mkdir()
    (home / "lib/notes").write_text("private")
    path = f"{home}/bin:{home}/.local/bin:{home}/.cargo/bin"
    environment = make_site(folder / "gate", HOME=str(home), PATH=f"{path}:{os.environ['PATH']}")
    done = _run(environment, f"mine; cat {home}/lib/notes; ls {home}")

    assert done.stdout == ""
    unseen, _ = unseen_places({"PATH": path, "HOME": str(home)}, BWRAP)
    assert unseen == [home / "bin", home / ".local/bin", home / ".cargo/bin"]


def test_a_folder_of_the_path_that_leads_nowhere_hinders_nothing(folder: Path) -> None:
    """A PATH is made by many, and some of it is another user's, or gone."""
    environment = make_site(folder)
    (folder / "loop").symlink_to("loop")
    (folder / "closed").mkdir(mode=0)
    path = f"{folder}/closed/bin:{folder}/loop/bin:{folder}/gone/bin::bin:{os.environ['PATH']}"
    environment = dataclasses.replace(environment, environ={"PATH": path})
    lists = structs.replace(BWRAP, readable=(folder / "closed/x", folder / "gone"))

    assert _run(environment, "echo runs", lists).stdout == "runs\n"


def test_a_toolchain_that_holds_the_gateway_is_none(folder: Path) -> None:
    """Somebody makes a virtual environment in the folder of everything."""
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    write_script(folder / "bin" / "mine", "#!/bin/sh\necho ran\n")
    environment = make_site(folder, PATH=f"{folder}/bin:{os.environ['PATH']}")
    done = _run(environment, f"mine; ls {folder}")

    assert done.stdout.split() == ["agents"]


def test_a_command_cannot_choose_what_the_next_one_sees(folder: Path) -> None:
    """A link where its owner meant a folder would show, or open, any place of the machine."""
    environment = make_site(folder / "gate")
    for name in ("private/lib", "private/bin", "out"):
        (folder / name).mkdir(parents=True)
    (folder / "private/lib/page").write_text("private\n")
    (folder / "private/pyvenv.cfg").write_text("home = /usr/bin\n")
    (folder / "private/bin/python3").symlink_to("/usr/bin/env")
    lists = structs.replace(
        BWRAP,
        readable=(folder / "out/data", environment.files / "data/lib"),
        writable=(folder / "out", folder / "out/more", environment.files / "x"),
    )
    path = f"{environment.files}/venv/bin:{environment.files}/own/bin:{os.environ['PATH']}"
    environment = dataclasses.replace(environment, environ={"PATH": path})
    _run(
        environment,
        f"for l in {folder}/out/data {folder}/out/more data x venv; do"
        f" ln -s {folder}/private $l; done;"
        f" mkdir -p own/bin; echo home = {folder}/private/bin > own/pyvenv.cfg",
        lists,
    )
    assert (folder / "out/more").is_symlink()
    said = _run(
        environment,
        f"grep -rs . {folder}/private; echo x > {folder}/private/new; ls {folder}",
        lists,
    )

    assert "private\n" not in said.stdout
    assert not (folder / "private/new").exists()
    assert sorted(said.stdout.split()) == ["gate", "out"]


def test_a_virtual_environment_of_the_workspace_stays_writable(folder: Path) -> None:
    """Its agent installs packages into it."""
    environment = make_site(folder)
    prefix = environment.files / "venv"
    write_script(prefix / "bin" / "mine", "#!/bin/sh\necho ran\n")
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    environment = dataclasses.replace(
        environment, environ={"PATH": f"{prefix}/bin:{os.environ['PATH']}"}
    )

    assert _run(environment, "mine; touch venv/bin/new; ls venv/bin").stdout == "ran\nmine\nnew\n"


def test_who_a_command_is_to_itself(folder: Path) -> None:
    """Programs refuse root, or ask who they are; names of the machine's people are not told."""
    environment = make_site(folder, USER="ann")
    done = _run(
        environment, "id -un; id -u; echo $USER ~ ~agent; stat -c %U .; wc -l < /etc/passwd"
    )

    assert done.stdout.splitlines() == [
        *("agent", "1000", f"agent {sandbox.HOME} {sandbox.HOME}", "agent", "3")
    ]
    assert (environment.files.stat().st_uid, environment.files.stat().st_gid) == (
        os.geteuid(),
        os.getegid(),
    )


def test_what_programs_need_of_the_system_is_there(folder: Path) -> None:
    """A sandbox that hides too much is switched off."""
    environment = make_site(folder)
    done = _run(
        environment,
        "test -r /etc/ld.so.cache -o -r /etc/ld-musl-x86_64.path && echo loader;"
        " getent hosts localhost > /dev/null && echo names; date +%Z > /dev/null && echo zone;"
        " test -e /etc/ssl/certs -o -e /etc/ssl/cert.pem -o -e /etc/pki && echo trust;"
        " echo x | awk '{print $1}' > /tmp/f && echo tmp; echo x > /dev/shm/f && echo shm;"
        " echo <(true) | cut -c1-5; ls /var/tmp > /dev/null && echo vartmp",
    )

    assert done.stdout.split() == [
        *("loader", "names", "zone", "trust", "tmp", "shm", "/dev/", "vartmp")
    ]


async def test_doctor_says_what_commands_do_not_see(tmp_path: Path) -> None:
    """Who misses a program should not have to find out why."""
    assert BWRAP.bwrap is not None
    agent = write_agent(tmp_path)
    tool = "{type: builtin, name: bash, network: true, readable: [/srv/not-there], writable: [out]}"
    agent.write_text(f"{agent.read_text()}  tools: [{tool}]\n")
    (tmp_path / "bin").mkdir()
    path = f"{tmp_path}/bin:{BWRAP.bwrap.parent}:{os.environ['PATH']}"
    checked = await everturn("agent", "validate", cwd=tmp_path)
    agent.write_text(agent.read_text().replace(", writable: [out]", ""))
    done = await everturn("doctor", cwd=tmp_path, env={"PATH": path})
    notes = [line for line in done.out.splitlines() if "commands" in line]

    assert "folder of one: a command could change what rules it" in checked.out + checked.err
    assert any(f"do not see {tmp_path}/bin" in note for note in notes)
    assert any("are to see /srv/not-there, and that is not there" in note for note in notes)
    assert any("asks for no token" in note for note in notes)
    assert not any("cannot run" in note for note in notes)
