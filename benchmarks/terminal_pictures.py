"""The moving picture of the README: a chat whose gateway is killed in the middle of an answer.

    export PYTHONPATH=tests
    .venv/bin/python benchmarks/terminal_pictures.py docs/terminal.svg docs/terminal.png

Needs tmux, and for the second file a browser. Everturn itself runs in two terminals; a script
types, and a server on loopback stands in for a model. Long waits are cut to a second. The second
file is the last moment, for where pictures do not move.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from xml.sax.saxutils import escape

from newcomer import KEY, Model
from rich.color import Color
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from support.browser import open_browser

COLUMNS, ROWS, ROWS_BELOW = 78, 19, 5
CELL, LINE, EDGE = 8.4, 19, 14
LONGEST_S, END_S, EVERY_S = 1.0, 4.0, 0.2
WAIT_S = 60.0
ASKED = "Plan a Saturday in Lisbon for us."
SAID = """\
Here is a plan that leaves you **time to sit down**:

| when | what | how long |
|------|------|----------|
| 9:30 | Alfama, before the crowds: start at the cathedral and walk up | 2 hours |
| 12:00 | lunch at the market hall by the river | 1 hour |
| 15:00 | the tile museum, in a convent of 1509 | 2 hours |

The tram 28 is full by ten; the walk is nicer. Shall I remind you on Friday?
"""
THEME = TerminalTheme(
    (30, 34, 42),
    (216, 222, 233),
    [
        *((76, 86, 106), (224, 108, 117), (152, 195, 121), (229, 192, 123)),
        *((97, 175, 239), (198, 120, 221), (86, 182, 194), (216, 222, 233)),
    ],
)


class Slow(Model):
    """Answers word by word."""

    def do_POST(self) -> None:  # noqa: N802 - http.server calls it so
        """Stream the answer."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        text = SAID if asked.get("tools") else "A plan for Lisbon"
        try:
            for word in text.replace(" ", " \0").split("\0"):
                delta = {"role": "assistant", "content": word}
                self.piece({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
                time.sleep(0.08)
            self.piece({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:  # the gateway was killed
            pass

    def piece(self, fields: dict[str, object]) -> None:
        """Send a chunk."""
        chunk = {"id": "1", "object": "chat.completion.chunk", "model": "a-model", **fields}
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.flush()


class Pane:
    """A terminal of tmux."""

    def __init__(self, server: str, name: str, rows: int, home: Path) -> None:
        self.to = ["tmux", "-L", server, "-f", "/dev/null"]
        self.name = name
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        kept = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "tmux-256color"}
        shell = shlex.join(
            ["env", "-i", *(f"{k}={v}" for k, v in kept.items()), "PS1=$ ", "bash", "--norc"]
        )
        size = ["-x", str(COLUMNS), "-y", str(rows), "-c", str(home)]
        self.tmux("new-session", "-d", "-s", name, *size, shell)

    def tmux(self, command: str, *arguments: str) -> str:
        """Run a command of tmux."""
        done = subprocess.run(
            [*self.to, command, *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout

    def type(self, text: str) -> None:
        """Type as a person does, and Enter."""
        if self.name == "serve":
            self.prompt()
        for each in text:
            self.tmux("send-keys", "-t", self.name, "-l", each)
            time.sleep(0.04)
        time.sleep(0.4)
        self.tmux("send-keys", "-t", self.name, "Enter")

    def prompt(self) -> None:
        """Wait until the shell waits for a command."""
        until = time.monotonic() + WAIT_S
        while not self.tmux("capture-pane", "-p", "-t", self.name).rstrip("\n").endswith("$"):
            assert time.monotonic() < until
            time.sleep(0.1)

    def until(self, text: str) -> None:
        """Wait until something is to be seen."""
        until = time.monotonic() + WAIT_S
        while text not in self.tmux("capture-pane", "-p", "-t", self.name):
            assert time.monotonic() < until, self.tmux("capture-pane", "-p", "-t", self.name)
            time.sleep(0.1)

    def rows(self) -> list[str]:
        """Return what is to be seen, with its colours."""
        return self.tmux("capture-pane", "-p", "-e", "-t", self.name).split("\n")[:-1]


def record(home: Path) -> list[tuple[float, list[str]]]:
    """Play the scene; return what was to be seen, and from when on."""
    server = f"everturn-{os.getpid()}"
    chat, gateway = (Pane(server, n, r, home) for n, r in (("chat", ROWS), ("serve", ROWS_BELOW)))
    frames: list[tuple[float, list[str]]] = []
    over = threading.Event()

    def watch() -> None:
        began = time.monotonic()
        while not over.wait(EVERY_S):
            below = gateway.rows()
            seen = [*chat.rows(), "\x1b[2m" + "─" * COLUMNS + "\x1b[0m", *below]
            if not frames or frames[-1][1] != seen:
                frames.append((time.monotonic() - began, seen))

    watching = threading.Thread(target=watch)
    try:
        watching.start()
        gateway.type("everturn serve > serve.log 2>&1 &")
        wait_for_gateway(home)
        chat.prompt()
        chat.type("everturn chat")
        chat.until("you>")
        chat.type(ASKED)
        chat.until("time to")
        gateway.type("kill -9 $(everturn pid)")
        time.sleep(2)
        gateway.type("everturn serve > serve.log 2>&1 &")
        chat.until("on Friday?")
        time.sleep(1)
    finally:
        over.set()
        watching.join()
        run(home, "sh", "-c", "kill $(everturn pid)")
        subprocess.run(["tmux", "-L", server, "kill-server"], check=False)
    return frames


def wait_for_gateway(home: Path) -> None:
    """Wait until it listens."""
    log, until = home / "serve.log", time.monotonic() + WAIT_S
    while not log.exists() or "Ctrl-C stops it" not in log.read_text():
        assert time.monotonic() < until
        time.sleep(0.1)


def run(home: Path, *command: str) -> None:
    """Run a command in the home."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(command, cwd=home, env={"HOME": str(home), "PATH": path}, check=True)


def drawn(row: str) -> str:
    """Return the SVG of a row, without its place."""
    text = Text.from_ansi(row)
    parts: list[str] = []
    for start, end, style in runs(text):
        words = text.plain[start:end]
        if words.strip():
            look = f'fill="{shade(style)}"' + (' font-weight="bold"' if style.bold else "")
            look += ' opacity=".6"' if style.dim else ""
            place = f'x="{EDGE + start * CELL:.1f}" textLength="{(end - start) * CELL:.1f}"'
            parts.append(f"<tspan {place} {look}>{escape(words)}</tspan>")
    return f'<text xml:space="preserve">{"".join(parts)}</text>'


def shade(style: Style) -> str:
    """Return the colour of text."""
    colour = style.color or Color.default()
    return colour.get_truecolor(THEME).hex


def runs(text: Text) -> Iterator[tuple[int, int, Style]]:
    """Yield the runs of one style in a row."""
    styles = [Style() for _ in text.plain]
    for span in text.spans:
        for at in range(span.start, min(span.end, len(styles))):
            added = span.style
            styles[at] += added if isinstance(added, Style) else Style.parse(added)
    start = 0
    for at in range(1, len(styles) + 1):
        if at == len(styles) or styles[at] != styles[start]:
            yield start, at, styles[start]
            start = at


def moving(frames: list[tuple[float, list[str]]]) -> str:
    """Return the picture: each row once, and for each moment which rows stand where."""
    kinds: dict[str, int] = {}
    shown: list[str] = []
    times = [0.0]
    for number, (at, _) in enumerate(frames):
        after = frames[number + 1][0] - at if number + 1 < len(frames) else END_S
        times.append(times[-1] + min(after, LONGEST_S if number + 1 < len(frames) else END_S))
    whole = times[-1]
    for number, (_, rows) in enumerate(frames):
        begin, end = (100 * times[number + more] / whole for more in (0, 1))
        uses = "".join(
            f'<use href="#r{kinds.setdefault(row, len(kinds))}" y="{place * LINE}"/>'
            for place, row in enumerate(rows)
            if Text.from_ansi(row).plain.strip()
        )
        keys = f"{begin:.3f}%,{end - 0.001:.3f}%{{visibility:visible}}"
        keys += f"{end:.3f}%,100%{{visibility:hidden}}" if end < 100 else ""
        is_last = number == len(frames) - 1
        style = f"@keyframes f{number}{{0%{{visibility:hidden}}{keys}}}"
        style += f"#f{number}{{animation:f{number} {whole:.2f}s step-end infinite}}"
        hidden = "" if is_last else ' visibility="hidden"'
        shown.append(f'<style>{style}</style><g id="f{number}"{hidden}>{uses}</g>')
    defined = "".join(f'<g id="r{number}">{drawn(row)}</g>' for row, number in kinds.items())
    width = round(2 * EDGE + COLUMNS * CELL)
    height = round((ROWS + ROWS_BELOW + 1) * LINE + 1.5 * EDGE)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" font-family="ui-monospace,DejaVu Sans Mono,Menlo,Consolas,monospace"'
        ' font-size="14"><title>A chat goes on where its gateway was killed</title>'
        "<style>@media (prefers-reduced-motion:reduce){g{animation:none!important}}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="{THEME.background_color.hex}"/>'
        f"<defs>{defined}</defs>"
        f'<g transform="translate(0 {EDGE + 10})">{"".join(shown)}</g></svg>\n'
    )


async def photograph(svg: str, to: Path) -> None:
    """Write the last moment of a moving picture."""
    async with open_browser() as browser:
        page = await browser.new_page(reduced_motion="reduce")
        await page.goto(svg)
        await page.locator("svg").first.screenshot(path=to)


def main(svg: Path, png: Path | None) -> None:
    """Make the pictures."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="everturn-picture-") as name, socket.socket() as probe:
        home = Path(name)
        probe.bind(("127.0.0.1", 0))
        options = ["--base-url", f"http://127.0.0.1:{server.server_port}/v1", "--model", "a-model"]
        (home / "key").write_text(KEY)
        run(home, "everturn", "setup", *options, "--key-file", "key", "--no-test")
        config = home / ".local/share/everturn/everturn.yaml"
        text = config.read_text().replace("8080", str(probe.getsockname()[1]))
        probe.close()
        config.write_text(text)
        svg.write_text(moving(record(home)), encoding="utf-8")
    server.shutdown()
    if png is not None:
        asyncio.run(photograph(svg.absolute().as_uri(), png))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
