"""The tutorials, followed to the letter: their blocks are run, and print what they say.

A block `sh` is run; a block `yaml` is written to the file that its first line names; of a block
`text` each line stands in what the block before it printed; a block `chat` happens on a pretended
platform. The port is a free one.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from support.examples import LONG_RUN
from support.ports import free_port
from support.tutorial_chats import open_chats, open_platform
from support.warm_start import everturn_command

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
TEXTS = {page.stem: page.read_text() for page in PAGES}
FOLLOWED = [page for page in PAGES if LONG_RUN or "```chat" not in TEXTS[page.stem]]
"Those with a bot load its platform's library several times: by night."
_BLOCK = re.compile(r"^```([a-z-]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EVERTURN = """\
#!/bin/sh
[ "$1" != serve ] || exec {python} -m everturn_gateway "$@"
[ "$1" = init ] || exec {command} "$@"
{command} "$@" && sed -i s/8080/{port}/ "$2/everturn.yaml" && echo {channel} >> "$2/everturn.yaml"
"""
"A gateway is the real command, as pages kill it; all others need not import everything again."
_SITE = re.compile(r"^python3 -m http\.server (\d+) .*&$", re.MULTILINE)
_UP = r"\g<0>" + "\nuntil (: < /dev/tcp/127.0.0.1/\\1) 2> /dev/null; do sleep 0.05; done"
"Whoever types the next line is slower than Python; a script is not."
_MARK = "--- end of block {} ---"
TIMEOUT_S = 240


def blocks(page: str, port: int) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each block of a page."""
    yield from _BLOCK.findall(re.sub(r"\b8080\b", str(port), page))


def script(page: str, port: int, chats: str = "") -> tuple[str, dict[int, list[str]]]:
    """Return a page as one script, and what its blocks have to print."""
    lines = ["set -e -o pipefail"]
    wanted: dict[int, list[str]] = {}
    number = talks = 0
    for kind, text in blocks(page, port):
        if kind == "sh":
            number += 1
            lines += [_SITE.sub(_UP, text), f"echo {shlex.quote(_MARK.format(number))}"]
        elif kind == "yaml":
            name = text.splitlines()[0].removeprefix("# ")
            lines += [f"cat > {shlex.quote(name)} <<'END_OF_FILE'\n{text}END_OF_FILE"]
        elif kind == "chat":
            lines += [f"curl -s --fail-with-body {chats}/{talks} >&2"]
            talks += 1
        elif kind == "text":
            wanted[number] = text.splitlines()
    return "\n".join(lines), wanted


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.stem)
async def test_a_tutorial_does_what_it_says(page: Path, tmp_path: Path) -> None:
    """From an empty folder, one block after the other."""
    port, text = free_port(), re.sub(r"\b8099\b", str(free_port()), TEXTS[page.stem])
    async with open_platform(text) as platform:
        if platform is None:
            await follow(page.name, *script(text, port), tmp_path, port)
            return
        for shown, real in getattr(platform, "ids", {}).items():
            text = text.replace(shown, real)
        said = [block for kind, block in blocks(text, port) if kind == "chat"]
        async with open_chats(platform, said) as chats:
            await follow(page.name, *script(text, port, chats), tmp_path, port, platform.settings)


async def follow(
    name: str, text: str, wanted: dict[int, list[str]], home: Path, port: int, channel: str = ""
) -> None:
    """Run a page, and look whether its blocks print what it says."""
    command = home / "bin" / "everturn"
    command.parent.mkdir()
    started = shlex.join(everturn_command())
    python = shlex.quote(sys.executable)
    extra = f"channels: {{{channel}}}" if channel else ""
    command.write_text(
        _EVERTURN.format(python=python, command=started, port=port, channel=shlex.quote(extra))
    )
    command.chmod(0o755)
    with anyio.fail_after(TIMEOUT_S):
        done = await anyio.run_process(
            ["/bin/bash", "-c", text],
            cwd=home,
            env={**os.environ, "HOME": str(home), "PATH": f"{command.parent}:{os.environ['PATH']}"},
            check=False,
        )
    rest, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, rest[-2000:] + err[-3000:]
    for number in range(1, max(wanted) + 1):
        printed, mark, rest = rest.partition(_MARK.format(number))
        assert mark
        for line in wanted.get(number, ()):
            assert line in printed, f"block {number} of {name}: {printed}"
