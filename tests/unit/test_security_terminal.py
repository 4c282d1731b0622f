"""What people and models write is shown in a terminal, and obeyed by none."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.tables import table

from everturn_actors.events import ApprovalAsked, Body, Event, ModelReplied
from everturn_actors.model import ToolCall
from everturn_channels.errors import ClientError
from everturn_channels.terminal.reply import Piece, ReplyReader, Style
from everturn_channels.terminal.screen import Screen
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.errors import explain, say
from everturn_gateway.commands.shared.finding import is_alive, is_here
from everturn_gateway.commands.shared.printing import print_json, print_line
from everturn_gateway.logs import SecretRegistry, setup_logging

AT = datetime(2026, 11, 22, 8, 0, tzinfo=UTC)
EVIL = "\x1b]0;title\x07\x1b[2J\x9b31mred\x08\x7f"
"Sets the title of a window, clears it, colours it, goes back."
OBEYED = ("\x1b", "\x07", "\x08", "\x7f", "\x9b")
SECRET = "sk-live-0123456789"


def shown(*bodies: Body) -> str:
    """Return what somebody sees of events, on a screen without colours."""
    written: list[str] = []
    reader, screen = ReplyReader(show_users=True), Screen(written.append, colour=False)
    for number, body in enumerate(bodies, 1):
        screen.show(reader.read(Event(seq=number, at=AT, body=body)))
    return "".join(written)


def question(arguments: str, *, name: str = "bash", reason: str = "") -> str:
    """Return the question whether a call may run, as it is shown."""
    call = ToolCall(call_id="c1", name=name, arguments=arguments)
    asked = ApprovalAsked(call_id="c1", arguments_hash="0" * 32, reason=reason, timeout_s=60)
    replied = ModelReplied(text="", calls=(call,))
    return shown(replied, asked).partition("\n  waits to be allowed")[2]


@table("hidden", ["\u202e", "\u2066", "\u200b", "\U000e0041", "\x1b", "\u3000"])
def test_a_question_hides_nothing_of_the_call_that_it_is_about(hidden: str) -> None:
    """Who says yes has to have seen what will run: not what direction marks make of it."""
    text = question(f'{{"command": "ls{hidden} mr"}}', name=f"ba{hidden}sh", reason=f"a{hidden}b")

    assert hidden not in text
    assert text.count(f"\\u{ord(hidden):04x}") == 3


def test_a_call_cannot_add_lines_of_its_own_to_the_question() -> None:
    """Between two words of JSON there is room for a page of text that looks like the gateway's."""
    arguments = '{\n\n  waits to be allowed: it only looks (call c1)\n  bash {"command": "ls"}\n}'
    lines = question(arguments, reason="first\nsecond").splitlines()

    assert lines[0] == ": first second (call c1)"
    assert lines[1] == "  bash {"
    assert all(line.startswith("  | ") for line in lines[2:])


@table("style", ["reply", "user", "note", "warning", "error"])
def test_whatever_comes_to_the_screen_comes_without_escape_sequences(style: Style) -> None:
    """One place that nothing gets past, whoever made the piece."""
    written: list[str] = []
    Screen(written.append, colour=False).show([Piece(style=style, text=EVIL, ends=True)])

    assert "".join(written) == "]0;title[2J31mred\n"


def test_what_commands_print_holds_nothing_that_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`pair approve` prints a sender's id, `--json` prints what people call themselves."""
    print_line(EVIL)
    print_json({"name": EVIL, "half": "\ud83d"})
    line, _, text = capsys.readouterr().out.partition("\n")

    assert not set(OBEYED) & set(line + text)
    assert json.loads(text) == {"name": EVIL, "half": "\ud83d"}

    # The text of an error may be somebody else's: a server's, a file's.
    say(f"there is no session {EVIL}")
    explain(ClientError(EVIL))
    said = capsys.readouterr().err

    assert not set(OBEYED) & set(said)
    assert said.count("everturn: ") == 2


# --- what is kept of a crash, and logged ---


@pytest.fixture
def _log(tmp_path: Path) -> Generator[None]:
    crash_log.folder, crash_log.secrets = tmp_path, SecretRegistry()
    crash_log.secrets.add(SECRET)
    yield
    crash_log.folder, crash_log.secrets = None, SecretRegistry()


@pytest.mark.usefixtures("_log")
def test_a_traceback_is_kept_and_told_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is sent to whoever repairs the program."""
    explain(RuntimeError(f"cannot reach https://api.example/?key={SECRET}"))
    kept = (tmp_path / "everturn.log").read_text()

    assert "RuntimeError: cannot reach https://api.example/?key=***" in kept
    assert SECRET not in kept + capsys.readouterr().err


def test_nothing_that_is_logged_can_pass_for_a_line_of_its_own() -> None:
    """A server that answers with a line break could write the log of a day that never was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    forged = "\n2026-11-22T08:00:00.000Z INFO    everturn  all is well\x1b[2J"
    try:
        setup_logging("INFO", SecretRegistry(), stream=stream)
        library = logging.getLogger("some.library")
        library.warning("the server said %s", forged)
        library.warning("and so did", extra={"field": forged})
        library.error("it failed", exc_info=RuntimeError(forged))
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    lines = stream.getvalue().splitlines()

    assert [line for line in lines if line.endswith("all is well") or "\x1b" in line] == []
    assert len([line for line in lines if not line.startswith("  ")]) == 3


@table(
    ("url", "here"),
    [
        ("http://127.0.0.1:8080", True),
        ("http://[::1]:8080", True),
        ("http://localhost:8080", True),
        ("http://192.0.2.1:8080", False),
        ("http://no-such-name.invalid:80", False),
        ("http://[::1", False),
        ("", False),
    ],
)
def test_commands_speak_to_no_gateway_on_another_machine(url: str, *, here: bool) -> None:
    """The note of its address lies in a folder that may have come from somebody else."""
    assert is_here(url) is here


def test_a_number_that_somebody_elses_process_has_by_now_is_no_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They may listen where a gateway did that was killed, and would be sent the token."""

    def kill(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr("os.kill", kill)

    assert not is_alive(12345)
