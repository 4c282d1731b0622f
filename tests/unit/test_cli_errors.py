"""How errors reach a person: one line each, an exit code, and never a traceback."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from everturn_actors.errors import InvalidInputError, WorkspaceLockedError
from everturn_channels.errors import ClientError
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.errors import explain
from everturn_gateway.errors import ConfigError, Fault


@pytest.fixture(autouse=True)
def _log(tmp_path: Path) -> Generator[None]:
    """Write logs of unexpected errors into the test's own folder."""
    crash_log.folder, crash_log.debug = tmp_path, False
    yield
    crash_log.folder, crash_log.debug = None, False


def test_an_expected_error_is_its_own_text(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each, however it came, and none for who stopped it."""
    # The errors' texts are written for people; nothing is put around them.
    code = explain(WorkspaceLockedError(Path("/w/workspace.lock"), 42))

    assert code == 2
    assert capsys.readouterr().err == (
        "everturn: /w is in use by process 42; stop it or choose another --workspace"
        " (beside `everturn serve` several commands work)\n"
    )

    # Every fault of a file is a line. Faults are repaired one by one, each at its place.
    faults = [Fault(file=Path("a.yaml"), line=n, field=f"f{n}", message="is wrong") for n in (1, 2)]
    explain(ConfigError(faults=faults))

    assert capsys.readouterr().err == (
        "everturn: a.yaml:1: f1: is wrong\neverturn: a.yaml:2: f2: is wrong\n"
    )

    # What a task group gathered is told once. A person must not read of exception groups, nor the
    # same error three times.
    same = [ClientError("the gateway is gone") for _ in range(3)]
    code = explain(ExceptionGroup("unhandled", [ExceptionGroup("inner", same)]))

    assert code == 2
    assert capsys.readouterr().err == "everturn: the gateway is gone\n"

    # Ctrl c says nothing. The person knows what they clicked; 130 is what a shell expects.
    code = explain(BaseExceptionGroup("unhandled", [KeyboardInterrupt()]))

    assert code == 130
    assert capsys.readouterr().err == ""


def test_an_unexpected_error_is_a_line_and_its_traceback_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the workspace, or elsewhere where there is none."""
    # A person gets a line; whoever repairs it gets the traceback, and nobody else can read it.
    code = explain(ExceptionGroup("unhandled", [InvalidInputError("known"), KeyError("missing")]))
    log = tmp_path / "everturn.log"

    assert code == 1
    assert capsys.readouterr().err == (
        f"everturn: unexpected KeyError: 'missing'; the traceback is in {log}\n"
    )
    assert "KeyError: 'missing'" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600

    # Without a workspace the traceback has a file of its own. What fails before the workspace is
    # known must not be lost either.
    crash_log.folder = tmp_path / "missing"
    explain(RuntimeError("odd"))
    said = capsys.readouterr().err
    log = Path(said.rpartition(" ")[2].strip())

    assert log.is_file()
    assert "RuntimeError: odd" in log.read_text()
    log.unlink()


def test_on_a_full_disk_the_traceback_goes_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error that a full disk causes must not be hidden behind the next one."""
    (tmp_path / "everturn.log").symlink_to("/dev/full")
    code = explain(RuntimeError("odd"))
    said = capsys.readouterr().err
    log = Path(said.rpartition(" ")[2].strip())

    assert code == 1
    assert said.startswith("everturn: unexpected RuntimeError: odd; the traceback is in ")
    assert "RuntimeError: odd" in log.read_text()
    log.unlink()


def test_debug_shows_the_traceback_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever works on the program wants to see it where they are."""
    crash_log.debug = True
    explain(RuntimeError("odd"))

    assert "RuntimeError: odd\neverturn: unexpected RuntimeError: odd\n" in capsys.readouterr().err
