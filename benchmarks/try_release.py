"""A release, tried as somebody gets it: `python benchmarks/try_release.py dist`.

Checks the checksums, follows the recipe of the image without a container - its build stage in a
folder, what it runs as its user in an empty volume - and follows what the program points to: help,
documentation, setup, the gateway, and its health check. What it leaves out: the base image, and the
packages of the distribution.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

USER = 10001  # as in the recipe
WAIT_S = 60.0
TOKEN = "a-token-for-a-try"


def main(dist: Path) -> None:
    """Try all of it; stops at what fails."""
    print("checksums ...", check_sums(dist), "files")
    with tempfile.TemporaryDirectory(prefix="everturn-release-") as name:
        root = Path(name)
        root.chmod(0o755)
        recipe = (dist / "Dockerfile").read_text(encoding="utf-8")
        build(recipe, dist, root)
        installed = Installed(root, recipe)
        installed.follow()
    print("all of it works")


def check_sums(dist: Path) -> int:
    """Hold each file against its checksum; return how many there are."""
    lines = (dist / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    for line in lines:
        wanted, name = line.split(maxsplit=1)
        found = hashlib.sha256((dist / name).read_bytes()).hexdigest()
        assert wanted == found, f"{name} is not what SHA256SUMS says"
    named = {line.split(maxsplit=1)[1] for line in lines}
    assert named == {each.name for each in dist.iterdir()} - {"SHA256SUMS"}, named
    return len(lines)


def instructions(recipe: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a recipe with their arguments, lines joined."""
    kept = "\n".join(line for line in recipe.splitlines() if not line.lstrip().startswith("#"))
    for line in kept.replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, " ".join(rest.split())


def build(recipe: str, dist: Path, root: Path) -> None:
    """Do what the build stage does, below `root`."""
    source = root / "src"
    source.mkdir()
    shown = dict(os.environ, EXTRAS="", PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for word, rest in instructions(recipe.split("\nFROM ")[1]):
        if word == "COPY":
            for pattern in rest.split()[:-1]:
                for each in dist.glob(pattern):
                    shutil.copy(each, source)
        elif word == "RUN":
            print("RUN", rest[:100])
            line = rest.replace("/opt/everturn", str(root / "opt"))
            subprocess.run(["/bin/sh", "-ec", line], cwd=source, env=shown, check=True)


class Installed:
    """What the image would run, in an empty volume."""

    def __init__(self, root: Path, recipe: str) -> None:
        last = dict(instructions(recipe.rsplit("\nFROM ", 1)[1]))
        self.program = root / "opt" / "bin" / "everturn"
        self.command = json.loads(last["CMD"])
        self.health = json.loads(last["HEALTHCHECK"].partition("CMD ")[2])
        self.volume = root / "volume"
        self.volume.mkdir(mode=0o700)
        self.user = self.other_user(root / "opt" / "bin" / "python")
        self.env = {
            "PATH": f"{root / 'opt' / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.volume),
            "EVERTURN_HOME": str(self.volume),
            "EVERTURN_API_TOKEN": TOKEN,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        assert "EVERTURN_HOME=/srv/everturn" in last["ENV"]

    def other_user(self, python: Path) -> int | None:
        """Return the user of the image, where a process of root may become it and reach Python."""
        if os.geteuid() != 0:
            return None
        try:
            subprocess.run([str(python), "-c", ""], check=True, user=USER, group=USER)
        except PermissionError:
            print("as", os.geteuid(), "- the Python of this machine is closed to other users")
            return None
        os.chown(self.volume, USER, USER)
        return USER

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command of the program; return what it printed."""
        print("everturn", shlex.join(arguments))
        done = subprocess.run(
            [str(self.program), *arguments],
            cwd=self.volume,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            user=self.user,
            group=self.user,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout

    def follow(self) -> None:
        """Go from nothing to an answer, and to every page that is pointed to."""
        self.run("--version")
        for topic in sorted(self.pointed_to()):
            self.run("help", topic)
        self.read_site()
        self.run("serve", code=2)  # nothing is set up, and it says so
        self.run("setup", "--provider", "builtin")
        self.serve()
        self.run("doctor")
        self.run("upgrade", "--dry-run")

    def pointed_to(self) -> set[str]:
        """Return the pages that texts of the program name; files that pages link to have to be."""
        (package,) = self.program.parents[1].glob("lib/python*/site-packages/everturn_gateway")
        project = package / "project"
        found: set[str] = set()
        for path in package.rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            found |= set(re.findall(r"`everturn help ([a-z][a-z-]+)`", text))
            found |= set(re.findall(r'"docs/([a-z-]+)\.md"', text))
        for page in project.rglob("*.md"):
            for target in re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
                assert (page.parent / target).exists(), f"{page}: {target} is not installed"
        print(len(found), "pages are named by the program")
        return found

    def read_site(self) -> None:
        """Read the first page of the documentation as a browser would."""
        with self.started("docs", "--no-open") as process:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            found = re.search(r"http://\S+/", line)
            assert found, line
            with urllib.request.urlopen(found[0], timeout=10) as page:  # noqa: S310 - on loopback
                assert b"Everturn" in page.read()

    def serve(self) -> None:
        """Run the gateway as the image does, until its health check is content, and ask it."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        with self.started(*self.command, "--port", port):
            until = time.monotonic() + WAIT_S
            while self.is_unwell():
                assert time.monotonic() < until, "the health check fails"
                time.sleep(0.2)
            assert "hello" in self.run("run", "hello")

    def is_unwell(self) -> bool:
        """Say whether the image's health check fails."""
        return bool(
            subprocess.run(
                self.health, cwd=self.volume, env=self.env, capture_output=True, check=False
            ).returncode
        )

    def started(self, *arguments: str) -> Started:
        """Start a command of the program; it is stopped at the end of the block."""
        print("everturn", shlex.join(arguments))
        return Started([str(self.program), *arguments], self)


class Started:
    """A program that runs while a block does."""

    def __init__(self, command: list[str], installed: Installed) -> None:
        self.command, self.installed = command, installed

    def __enter__(self) -> subprocess.Popen[bytes]:
        there = self.installed
        self.process = subprocess.Popen(
            self.command,
            cwd=there.volume,
            env=there.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            user=there.user,
            group=there.user,
        )
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=WAIT_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
