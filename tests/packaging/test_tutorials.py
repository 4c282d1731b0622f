"""Whoever follows a page of `docs/plugins/` literally arrives where it says.

A block below a line with a path in backticks and a colon is that file. Each line of a block of `sh`
is run in its turn; what stands after its `#` is a part of what it prints.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from support import plugin_dist
from support.command import everturn
from support.run_pytest import __file__ as run_pytest
from support.warm_start import python_command

PAGES = Path(__file__).parents[2] / "docs" / "plugins"
DEADLINE_S = 100.0
_BLOCK = re.compile(
    r"(?:^`(?P<path>[^`\n]+)`:\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
_INSTALL = "pip install "
RUN_PYTEST = Path(run_pytest)


@pytest.mark.parametrize("page", sorted(page.stem for page in PAGES.glob("*.md")))
async def test_the_page_can_be_followed(tmp_path: Path, page: str) -> None:
    """A tutorial that fails is worse than none: a reader blames himself."""
    home = tmp_path / "home"
    home.mkdir()
    commands = 0
    for block in _BLOCK.finditer((PAGES / f"{page}.md").read_text(encoding="utf-8")):
        if block["path"]:
            file = home / block["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block["text"], encoding="utf-8")
            file.chmod(0o600)
        elif block["kind"] == "sh":
            for line in block["text"].splitlines():
                await _follow(line, home, tmp_path / "site")
                commands += 1

    assert commands


async def _follow(line: str, home: Path, site: Path) -> None:
    """Run a line of a page; a package of the page itself is installed beside Everturn."""
    command, _, expected = line.partition("  # " if "  # " in line else "\0")
    if command.startswith(_INSTALL):
        for name in command.removeprefix(_INSTALL).split():
            if name.startswith("./"):
                await to_thread.run_sync(plugin_dist.install, site, home / name)
            # Others are installed where the tests run.
        return
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(site),
        "NO_COLOR": "1",
        "COLUMNS": "300",
    }
    program, *arguments = shlex.split(command)
    if program == "everturn":  # most of them: a start takes a second
        stdin = b""
        if "<" in arguments:
            at = arguments.index("<")
            stdin = (home / arguments[at + 1]).read_bytes()
            del arguments[at : at + 2]
        said = await everturn(*arguments, cwd=home, stdin=stdin, env=env)
        code, printed = said.code, f"{said.out}\n{said.err}"
    else:
        line_of = [program, *arguments]
        if program == "pytest":
            line_of = [*python_command(RUN_PYTEST), "-p", "no:cacheprovider", *arguments]
        elif program == "python" and arguments[0].endswith(".py"):
            line_of = [*python_command(home / arguments[0]), *arguments[1:]]
        with anyio.fail_after(DEADLINE_S):
            done = await anyio.run_process(
                line_of,
                cwd=home,
                env={**os.environ, **env},
                stderr=subprocess.STDOUT,
                check=False,
            )
        code, printed = done.returncode, done.stdout.decode()

    assert code == 0, f"{line}\n{printed}"
    assert " ".join(expected.split()) in " ".join(printed.split()), f"{line}\n{printed}"
