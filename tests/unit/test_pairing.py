"""Pairing: codes for strangers, approvals by the owner, with nothing between them but two files."""

from __future__ import annotations

import fcntl
import json
import logging
import stat
import subprocess
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from support.inbound_events import ANN

from everturn_actors.testing import START, ManualClock
from everturn_channels.access import pairing
from everturn_channels.access.pairing import (
    ALPHABET,
    Pairing,
    PairingError,
    Request,
    approve,
    approved,
    pending,
    revoke,
)
from everturn_channels.adapter import Person
from everturn_channels.files import read_kept

BOB = Person(id="8", name="Bob")
_PERSON = (
    '{"channel": "telegram", "sender_id": "7", "name": "", "approved_at": "2026-11-22T00:00:00Z"}'
)
LATER = START + timedelta(hours=1)


async def _ask(folder: Path, person: Person = ANN, channel: str = "telegram") -> str:
    code = await Pairing(folder, ManualClock()).ask(channel, person)
    assert code is not None
    return code


def _asked(folder: Path, person: Person = ANN) -> str:
    return anyio.run(_ask, folder, person)


async def _approve(folder: Path, code: str) -> Request:
    return await to_thread.run_sync(partial(approve, folder, code, START))


async def test_a_stranger_is_let_in_by_their_code(tmp_path: Path) -> None:
    """The whole way, with a gateway that goes on running and is told of nothing."""
    gateway = Pairing(tmp_path / "pairing", ManualClock())
    before = await gateway.is_paired("telegram", "7")
    code = await gateway.ask("telegram", ANN)
    assert code is not None

    request = await _approve(tmp_path / "pairing", code)

    assert not before
    assert (request.channel, request.sender_id, request.name) == ("telegram", "7", "Ann")
    assert await gateway.is_paired("telegram", "7")
    assert not await gateway.is_paired("telegram", "8")
    assert not await gateway.is_paired("discord", "7")


async def test_an_approval_that_is_taken_back_counts_at_once(tmp_path: Path) -> None:
    """Whoever is thrown out stays out, without a restart."""
    gateway = Pairing(tmp_path, ManualClock())
    await _approve(tmp_path, await gateway.ask("telegram", ANN) or "")
    was_in = await gateway.is_paired("telegram", "7")

    was_there = await to_thread.run_sync(partial(revoke, tmp_path, "telegram", "7"))

    assert was_in
    assert was_there
    assert not await gateway.is_paired("telegram", "7")


async def test_a_code_can_be_read_aloud(tmp_path: Path) -> None:
    """It is copied from one screen to another by hand."""
    code = await _ask(tmp_path)

    assert len(code) == 8
    assert set(code) <= set(ALPHABET)
    assert not set(ALPHABET) & set("01OILUabc")


async def test_a_person_has_one_code_while_it_is_valid(tmp_path: Path) -> None:
    """Also after a restart: the owner may be typing it just now."""
    clock = ManualClock()
    gateway = Pairing(tmp_path, clock)
    first = await gateway.ask("telegram", ANN)
    clock.advance(3599)
    second = await gateway.ask("telegram", ANN)
    restarted = await Pairing(tmp_path, clock).ask("telegram", ANN)
    clock.advance(1)
    later = await gateway.ask("telegram", ANN)

    assert first == second == restarted
    assert later not in {None, first}


async def test_each_person_and_channel_has_a_code_of_its_own(tmp_path: Path) -> None:
    """A code that stood for two would let the wrong one in."""
    gateway = Pairing(tmp_path, ManualClock())

    async with anyio.create_task_group() as tasks:
        for channel in ("telegram", "discord"):
            for person in (ANN, BOB, ANN):
                tasks.start_soon(gateway.ask, channel, person)

    requests = await to_thread.run_sync(partial(pending, tmp_path, START))
    assert len({each.code for each in requests}) == 4
    assert len(requests) == 4


async def test_only_so_many_codes_are_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A crowd of strangers must not fill the disk or the owner's list; who has a code keeps it."""
    clock = ManualClock()
    gateway = Pairing(tmp_path, clock)
    codes = [await gateway.ask("telegram", Person(id=str(n))) for n in range(100)]

    one_more = await gateway.ask("telegram", Person(id="stranger"))
    again = await gateway.ask("telegram", Person(id="5"))
    elsewhere = await gateway.ask("discord", Person(id="stranger"))
    clock.advance(3600)
    later = await gateway.ask("telegram", Person(id="stranger"))

    assert None not in codes
    assert one_more is None
    assert "too many are open" in caplog.text
    assert again == codes[5]
    assert elsewhere is not None, "a crowd on one channel closes no other"
    assert later is not None


async def test_a_code_is_written_down_for_the_owner_alone_before_it_is_given(
    tmp_path: Path,
) -> None:
    """A code that a crash could lose would be refused; one that others can read is theirs."""
    folder = tmp_path / "deep" / "pairing"
    code = await _ask(folder)
    path = folder / "pending.json"

    found = await anyio.Path(path).stat()
    record: Any = json.loads(await anyio.Path(path).read_text())
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert stat.S_IMODE((await anyio.Path(folder).stat()).st_mode) == 0o700
    assert record["requests"][0]["code"] == code


async def test_no_code_is_given_that_cannot_be_written_down(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The gateway goes on, and the next try begins afresh."""
    folder = tmp_path / "pairing"
    await anyio.Path(folder).write_text("a file where the folder should be")
    gateway = Pairing(folder, ManualClock())

    refused = await gateway.ask("telegram", ANN)
    await anyio.Path(folder).unlink()
    given = await gateway.ask("telegram", ANN)

    assert refused is None
    assert "cannot be written down" in caplog.text
    assert given is not None


def test_a_name_in_the_list_is_one_plain_line(tmp_path: Path) -> None:
    """It is printed in the owner's terminal."""
    _asked(tmp_path, Person(id="7", name="Ann\n\x1b[31m\u202eowner" + "x" * 100))

    (request,) = pending(tmp_path, START)

    assert request.name.startswith("Ann (31mowner")
    assert len(request.name) == 64


def test_how_a_code_is_typed_does_not_matter(tmp_path: Path) -> None:
    """People type codes as they read them; the same code twice does no harm."""
    code = _asked(tmp_path)
    parts = code[:4], code[4:]
    typed = [code, code.lower(), f" {code}\n", "-".join(parts), " ".join(parts).lower()]

    found = [approve(tmp_path, text, START).sender_id for text in typed]

    assert found == ["7"] * 5
    assert len(approved(tmp_path)) == 1


def test_a_code_is_worth_nothing_after_its_hour(tmp_path: Path) -> None:
    """An old code on an old screenshot lets nobody in."""
    code = _asked(tmp_path)

    with pytest.raises(PairingError, match=f"the code {code} expired at .* UTC; a new message"):
        approve(tmp_path, code, LATER)

    assert approved(tmp_path) == ()
    assert pending(tmp_path, LATER) == ()


@pytest.mark.parametrize("code", ["", "  ", "ABCDEFGH", "../../etc"])
def test_an_unknown_code_lets_nobody_in(tmp_path: Path, code: str) -> None:
    """The words say where to find those that are known."""
    _asked(tmp_path)

    with pytest.raises(PairingError, match=r"no request has the code .*everturn pair list"):
        approve(tmp_path, code, START)

    assert approved(tmp_path) == ()


def test_who_was_approved_waits_no_longer(tmp_path: Path) -> None:
    """The list shows what is left to do."""
    codes = [_asked(tmp_path), _asked(tmp_path, BOB)]

    approve(tmp_path, codes[0], START)

    assert [each.sender_id for each in pending(tmp_path, START)] == ["8"]
    assert [(each.sender_id, each.approved_at) for each in approved(tmp_path)] == [("7", START)]


def test_nothing_is_there_before_anybody_asked(tmp_path: Path) -> None:
    """The commands work in a fresh workspace, and leave nothing in it."""
    folder = tmp_path / "pairing"

    assert pending(folder, START) == ()
    assert approved(folder) == ()
    assert not revoke(folder, "telegram", "7")
    assert not folder.exists()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        '{"version": 2, "people": []}',
        '{"version": 1}',
        '{"version": 1, "people": [{"channel": "x"}]}',
        '{"version": 1, "people": [7]}',
        '{"version": 1, "people": [' + _PERSON.replace('"7"', "7") + "]}",
        '{"version": 1, "people": [' + _PERSON.replace("Z", "") + "]}",
        "[" * 100_000,
        "\xff",
    ],
)
def test_a_damaged_list_is_named_and_left_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    """The owner has to set it right; until then nobody is let in because of it, or thrown out."""
    code = _asked(tmp_path)
    path = tmp_path / "approved.json"
    path.write_bytes(text.encode("latin-1"))

    for act in (
        partial(approved, tmp_path),
        partial(approve, tmp_path, code, START),
        partial(revoke, tmp_path, "telegram", "7"),
        partial(pending, tmp_path, START),
    ):
        with pytest.raises(PairingError, match=r"approved\.json is damaged"):
            act()

    async def twice() -> list[bool]:
        gateway = Pairing(tmp_path, ManualClock())
        return [await gateway.is_paired("telegram", "7") for _ in range(2)]

    caplog.set_level(logging.ERROR)
    assert anyio.run(twice) == [False, False]
    assert caplog.text.count("nobody counts as paired") == 1
    assert path.read_bytes() == text.encode("latin-1")


async def test_damaged_codes_are_put_aside_and_given_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They live for an hour: nobody should have to repair them."""
    await anyio.Path(tmp_path / "pending.json").write_text("{")

    code = await Pairing(tmp_path, ManualClock()).ask("telegram", ANN)

    assert code is not None
    assert await anyio.Path(tmp_path / "pending.json.damaged").read_text() == "{"
    assert "people get new ones" in caplog.text


async def test_the_list_is_read_again_only_when_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at with every message of a stranger."""
    reads: list[Path] = []

    def counted(path: Path) -> bytes | None:
        reads.append(path)
        return read_kept(path)

    gateway = Pairing(tmp_path, ManualClock())
    await _approve(tmp_path, await gateway.ask("telegram", ANN) or "")
    monkeypatch.setattr("everturn_channels.access.pairing.read_kept", counted)

    found = [await gateway.is_paired("telegram", "7") for _ in range(3)]

    assert found == [True] * 3
    assert len(reads) == 1


def test_an_approval_waits_for_another_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two owners at once must not overwrite each other; one that hangs must not hang the next."""
    code = _asked(tmp_path)
    monkeypatch.setattr(pairing, "LOCK_WAIT_S", 0.05)

    with (tmp_path / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(PairingError, match="another `everturn pair` has held"):
            approve(tmp_path, code, START)

    assert approve(tmp_path, code, START).sender_id == "7"


def test_two_command_lines_at_once_lose_no_approval(tmp_path: Path) -> None:
    """Each reads the list, adds a line and writes it: without the lock one line would be lost."""

    async def ask_all() -> list[str]:
        gateway = Pairing(tmp_path, ManualClock())
        return [await gateway.ask("telegram", Person(id=str(n))) or "" for n in range(40)]

    codes = anyio.run(ask_all)
    script = (
        "import sys; from datetime import datetime; from pathlib import Path\n"
        "from everturn_channels.access.pairing import approve\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "for code in sys.argv[3:]: approve(Path(sys.argv[1]), code, "
        "datetime.fromisoformat(sys.argv[2]))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path), START.isoformat()]
    both = [
        subprocess.Popen(  # noqa: S603 - our own interpreter
            [*command, *codes[half::2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for half in (0, 1)
    ]
    for each in both:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in both:
        each.communicate("go\n", timeout=60)

    assert [each.returncode for each in both] == [0, 0]
    assert {each.sender_id for each in approved(tmp_path)} == {str(n) for n in range(40)}
