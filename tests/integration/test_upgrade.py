"""`everturn upgrade`: what is new is told, and what an earlier version wrote is written anew."""

from __future__ import annotations

import json
from pathlib import Path

from support.command import everturn
from support.disk_model import lay_out, picture_of
from support.disk_trace import Recorder
from support.tables import table

from everturn.testing._histories import SESSION_ID, simple_log
from everturn_actors.errors import CorruptJournalError
from everturn_actors.journal.doctor.formats import migrate
from everturn_actors.journal.loading import load_session
from everturn_actors.journal.log.codec import encode
from everturn_actors.journal.log.layout import Layout, SessionFiles
from everturn_actors.journal.snapshot.state_yaml import FORMAT, encode_state
from everturn_actors.state.recovery import recover
from everturn_actors.state.session_state import SessionState
from everturn_gateway.commands.installation.changelog import releases_in, since

BEFORE, OLDER, NEWER = (FORMAT[:-1] + str(int(FORMAT[-1]) + n) for n in (-1, -2, 1))
CHANGELOG = """\
# Changelog

## [Unreleased]

- not yet

## [0.2.0] - 2027-02-01

### Added

- two

## [0.1.0] - 2027-01-01

- one
"""


async def sessions_of(folder: Path, *words: str) -> list[Path]:
    """Have a session with each word; return their snapshots."""
    assert (await everturn("init", ".", "--yes", cwd=folder)).code == 0
    for word in words:
        assert (await everturn("run", word, cwd=folder)).code == 0
    return sorted((folder / ".everturn" / "sessions").glob("*/state.yaml"))


def dated(path: Path, name: str) -> bytes:
    """Have a snapshot say that it is of another format; return what it holds then."""
    path.write_bytes(path.read_bytes().replace(FORMAT.encode(), name.encode(), 1))
    return path.read_bytes()


async def test_two_versions_back_are_brought_up_to_date_and_kept(tmp_path: Path) -> None:
    """The format before is read and written anew, an older one is left out for the log."""
    before, older, current = await sessions_of(tmp_path, "first", "second", "third")
    data = {before.parent.name: dated(before, BEFORE), older.parent.name: dated(older, OLDER)}
    untouched = current.read_bytes()

    plan = await everturn("upgrade", "--dry-run", "--json", cwd=tmp_path)
    stopped = await everturn("sessions", "show", older.parent.name, cwd=tmp_path)
    done = await everturn("upgrade", "--yes", "--json", cwd=tmp_path)
    shown = await everturn("sessions", "show", older.parent.name, cwd=tmp_path)
    again = await everturn("upgrade", "--json", cwd=tmp_path)
    checked = await everturn("doctor", cwd=tmp_path)
    listed = await everturn("sessions", "list", "--json", cwd=tmp_path)

    assert {each["session_id"]: each["format"] for each in json.loads(plan.out)["changes"]} == {
        before.parent.name: BEFORE,
        older.parent.name: OLDER,
    }
    assert "everturn upgrade" in stopped.err
    report = json.loads(done.out)
    assert (done.code, report["left"]) == (0, [])
    for session_id, former in data.items():
        assert (Path(report["backup"]) / session_id / "state.yaml").read_bytes() == former
    assert FORMAT.encode() in before.read_bytes()
    assert current.read_bytes() == untouched
    assert FORMAT.encode() in older.read_bytes()
    assert "second" in shown.out
    assert {each["session_id"] for each in json.loads(listed.out)} == {
        each.parent.name for each in (before, older, current)
    }
    assert json.loads(again.out)["changes"] == []
    assert (checked.code, "problem" in checked.out) == (0, False)


async def test_what_cannot_be_made_anew_stays_as_it_is(tmp_path: Path) -> None:
    """Its log does not begin at its beginning any more: the file is all that there is of it."""
    (only,) = await sessions_of(tmp_path, "hello")
    former = dated(only, OLDER)
    (begins,) = (each for each in only.parent.glob("events*.jsonl") if each.stat().st_size)
    begins.write_bytes(begins.read_bytes().split(b"\n", 1)[1])

    done = await everturn("upgrade", "--yes", cwd=tmp_path)

    assert done.code == 1
    assert f"session {only.parent.name} is as it was" in done.err
    assert only.read_bytes() == former


def written_before(folder: Path, form: str, *, first: int) -> tuple[SessionFiles, SessionState]:
    """Write a session whose log begins at an event, and its snapshot, as of an earlier version."""
    files = Layout(workspace=folder).session(SESSION_ID)
    events = simple_log(3)
    found = recover(None, events)
    assert found is not None
    files.folder.mkdir(parents=True)
    files.log.write_bytes(encode(SESSION_ID, events[first - 1 :]))
    files.state.write_bytes(
        encode_state(found.state, None).replace(FORMAT.encode(), form.encode(), 1)
    )
    return files, found.state


@table(("form", "first"), [(BEFORE, 4), (OLDER, 1), (OLDER, 4)])
def test_cut_off_at_any_operation_nothing_is_lost(tmp_path: Path, form: str, first: int) -> None:
    """Killed, or without power: it goes on, and what cannot be made anew is still there."""
    files, state = written_before(tmp_path / "whole", form, first=first)
    former, can_be_made = files.state.read_bytes(), first == 1 or form == BEFORE
    recorder = Recorder(tmp_path / "whole")
    recorder.trace.base = picture_of(tmp_path / "whole")

    def run(files: SessionFiles) -> None:
        try:
            migrate(files, files.folder.parents[1] / "backups")
        except CorruptJournalError:
            assert not can_be_made

    with recorder.installed():
        run(files)

    count = 0
    for _, replay in recorder.trace.walk():
        for picture in (replay.disk.after_kill(), replay.disk.after_power_loss()):
            count += 1
            lay_out(tmp_path / str(count), picture)
            cut = Layout(workspace=tmp_path / str(count)).session(SESSION_ID)
            run(cut)
            if not can_be_made:
                assert cut.state.read_bytes() == former
                continue
            loaded = load_session(cut)
            found = recover(loaded[0].snapshot, loaded[0].events) if loaded else None
            assert found is not None
            assert found.state.last_seq == state.last_seq
            assert found.state.pending == state.pending
    assert count > 10


async def test_a_later_version_wrote_one_so_nothing_is_changed(tmp_path: Path) -> None:
    """Who went back to an earlier version needs the later one again, and no half of both."""
    newer, before = await sessions_of(tmp_path, "one", "two")
    data = dated(newer, NEWER), dated(before, BEFORE)

    done = await everturn("upgrade", "--yes", cwd=tmp_path)

    assert done.code == 2
    assert "a later version" in done.err
    assert (newer.read_bytes(), before.read_bytes()) == data


async def test_where_nothing_is_kept_yet(tmp_path: Path) -> None:
    """It makes no workspace, and tells what there is."""
    assert (await everturn("init", ".", "--yes", cwd=tmp_path)).code == 0

    done = await everturn("upgrade", cwd=tmp_path)

    assert done.code == 0
    assert "Nothing changes on disk" in done.out
    assert not (tmp_path / ".everturn").exists()


@table(
    ("before", "installed", "found"),
    [
        ("", "0.2.0", ["Unreleased", "0.2.0", "0.1.0"]),
        ("0.1.0", "0.2.0", ["Unreleased", "0.2.0"]),
        ("0.0.9", "0.2.0", ["Unreleased", "0.2.0", "0.1.0"]),
        ("0.2.0", "0.2.0", []),
    ],
)
def test_what_is_new_since_the_version_before(
    before: str, installed: str, found: list[str]
) -> None:
    """All that came after it; what is not named is older than all."""
    releases = releases_in(CHANGELOG)

    assert [each.version for each in since(releases, before, installed)] == found
    assert releases[1].text == "### Added\n\n- two"
