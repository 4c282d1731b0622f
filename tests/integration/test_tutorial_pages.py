"""The tutorials, followed to the letter: their blocks are run, and print what they say.

A block `sh` is run; a block `yaml` is written to the file that its first line names; of a block
`text` each line stands in what the block before it printed. The port is a free one.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from support.tables import table
from support.warm_start import everturn_command

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
_BLOCK = re.compile(r"^```([a-z-]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EVERTURN = """\
#!/bin/sh
[ "$1" != serve ] || exec {python} -m everturn_gateway "$@"
[ "$1" = init ] || exec {command} "$@"
{command} "$@" && sed -i s/8080/{port}/ "$2/everturn.yaml"
"""
"A gateway is the real command, as pages kill it; all others need not import everything again."
_MARK = "--- end of block {} ---"
TIMEOUT_S = 240


def blocks(page: Path, port: int) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each block of a page."""
    for kind, text in _BLOCK.findall(page.read_text()):
        yield kind, text.replace("8080", str(port))


def script(page: Path, port: int) -> tuple[str, dict[int, list[str]]]:
    """Return a page as one script, and what its blocks have to print."""
    lines = ["set -e -o pipefail"]
    wanted: dict[int, list[str]] = {}
    number = 0
    for kind, text in blocks(page, port):
        if kind == "sh":
            number += 1
            lines += [text, f"echo {shlex.quote(_MARK.format(number))}"]
        elif kind == "yaml":
            name = text.splitlines()[0].removeprefix("# ")
            lines += [f"cat > {shlex.quote(name)} <<'END_OF_FILE'\n{text}END_OF_FILE"]
        elif kind == "text":
            wanted[number] = text.splitlines()
    return "\n".join(lines), wanted


@table("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_does_what_it_says(page: Path, tmp_path: Path) -> None:
    """From an empty folder, one block after the other."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text, wanted = script(page, port)
    command = tmp_path / "bin" / "everturn"
    command.parent.mkdir()
    started = shlex.join(everturn_command())
    python = shlex.quote(sys.executable)
    command.write_text(_EVERTURN.format(python=python, command=started, port=port))
    command.chmod(0o755)
    path = f"{command.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/bash", "-c", text],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "PATH": path},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    rest = done.stdout
    for number in range(1, max(wanted) + 1):
        printed, mark, rest = rest.partition(_MARK.format(number))
        assert mark
        for line in wanted.get(number, ()):
            assert line in printed, f"block {number} of {page.name}: {printed}"
