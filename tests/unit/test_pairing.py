"""Pairing: codes for strangers, approvals by the owner, with nothing between them but a store."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import anyio
import pytest
from support.inbound_events import ANN
from support.stores import FullDisk
from support.tables import table

from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.ports import KeyedStore
from everturn_actors.testing import START, ManualClock
from everturn_channels.access.pairing import (
    ALPHABET,
    Pairing,
    PairingError,
)
from everturn_channels.adapter import Person

BOB = Person(id="8", name="Bob")
_PERSON = (
    '{"channel": "telegram", "sender_id": "7", "name": "", "approved_at": "2026-11-22T00:00:00Z"}'
)
LATER = START + timedelta(hours=1)


def at(store: KeyedStore, clock: ManualClock | None = None) -> Pairing:
    """Return the pairing of a gateway, or of a command beside it."""
    return Pairing(store, clock or ManualClock())


async def _ask(store: KeyedStore, person: Person = ANN, channel: str = "telegram") -> str:
    code = await at(store).ask(channel, person)
    assert code is not None
    return code


@pytest.fixture
def store() -> MemoryKeyedStore:
    """Return an empty store."""
    return MemoryKeyedStore()


async def test_a_stranger_is_let_in_by_their_code_until_that_is_taken_back(
    store: MemoryKeyedStore,
) -> None:
    """The whole way, with a gateway that goes on running and is told of nothing."""
    gateway = at(store)
    before = await gateway.is_paired("telegram", "7")
    code = await gateway.ask("telegram", ANN)
    assert code is not None

    request = await at(store).approve(code)

    assert not before
    assert (request.channel, request.sender_id, request.name) == ("telegram", "7", "Ann")
    assert await gateway.is_paired("telegram", "7")
    assert not await gateway.is_paired("telegram", "8")
    assert not await gateway.is_paired("discord", "7")
    # Whoever is thrown out stays out, without a restart.
    assert await at(store).revoke("telegram", "7")
    assert not await gateway.is_paired("telegram", "7")


async def test_a_code_can_be_read_aloud_and_is_durable_before_it_is_given(
    store: MemoryKeyedStore,
) -> None:
    """It is copied from one screen to another by hand."""
    code = await _ask(store)

    assert len(code) == 8
    assert set(code) <= set(ALPHABET)
    assert not set(ALPHABET) & set("01OILUabc")

    # A code that a crash could lose would be refused.
    code = await _ask(store)
    value = await store.get("pairing/pending.json")

    assert value is not None
    record: Any = json.loads(value.data)
    assert record["requests"][0]["code"] == code


async def test_a_person_has_one_code_while_it_is_valid(store: MemoryKeyedStore) -> None:
    """Also after a restart: the owner may be typing it just now."""
    clock = ManualClock()
    gateway = at(store, clock)
    first = await gateway.ask("telegram", ANN)
    clock.advance(3599)
    second = await gateway.ask("telegram", ANN)
    restarted = await at(store, clock).ask("telegram", ANN)
    clock.advance(1)
    later = await gateway.ask("telegram", ANN)

    assert first == second == restarted
    assert later not in {None, first}


async def test_each_person_and_channel_has_a_code_of_its_own(store: MemoryKeyedStore) -> None:
    """A code that stood for two would let the wrong one in."""
    gateway = at(store)

    async with anyio.create_task_group() as tasks:
        for channel in ("telegram", "discord"):
            for person in (ANN, BOB, ANN):
                tasks.start_soon(gateway.ask, channel, person)

    requests = await at(store).pending()
    assert len({each.code for each in requests}) == 4
    assert len(requests) == 4


async def test_only_so_many_codes_are_open(
    store: MemoryKeyedStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A crowd of strangers must not fill the disk or the owner's list; who has a code keeps it."""
    clock = ManualClock()
    gateway = at(store, clock)
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


async def test_no_code_is_given_that_cannot_be_written_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The gateway goes on, and the next try begins afresh."""
    disk = FullDisk()
    disk.is_full = True
    gateway = at(disk)

    refused = await gateway.ask("telegram", ANN)
    disk.is_full = False
    given = await gateway.ask("telegram", ANN)

    assert refused is None
    assert "cannot be written down" in caplog.text
    assert given is not None


async def test_a_name_in_the_list_is_one_plain_line(store: MemoryKeyedStore) -> None:
    """It is printed in the owner's terminal."""
    await _ask(store, Person(id="7", name="Ann\n\x1b[31m\u202eowner" + "x" * 100))

    (request,) = await at(store).pending()

    assert request.name.startswith("Ann (31mowner")
    assert len(request.name) == 64


async def test_how_a_code_is_typed_does_not_matter(store: MemoryKeyedStore) -> None:
    """People type codes as they read them; the same code twice does no harm."""
    code = await _ask(store)
    parts = code[:4], code[4:]
    typed = [code, code.lower(), f" {code}\n", "-".join(parts), " ".join(parts).lower()]

    found = [(await at(store).approve(text)).sender_id for text in typed]

    assert found == ["7"] * 5
    assert len(await at(store).approved()) == 1


async def test_a_code_that_is_unknown_or_old_lets_nobody_in(store: MemoryKeyedStore) -> None:
    """The words say where to find those that are known."""
    known = await _ask(store)
    for code in ("", "  ", "ABCDEFGH", "../../etc"):
        with pytest.raises(PairingError, match=r"no request has the code .*everturn pair list"):
            await at(store).approve(code)

    assert await at(store).approved() == ()

    # An old code on an old screenshot is worth nothing.
    later = at(store, ManualClock(LATER))
    with pytest.raises(PairingError, match=f"the code {known} expired at .* UTC; a new message"):
        await later.approve(known)

    assert await later.approved() == ()
    assert await later.pending() == ()


async def test_who_was_approved_waits_no_longer(store: MemoryKeyedStore) -> None:
    """The list shows what is left to do."""
    codes = [await _ask(store), await _ask(store, BOB)]

    await at(store).approve(codes[0])

    assert [each.sender_id for each in await at(store).pending()] == ["8"]
    approved = await at(store).approved()
    assert [(each.sender_id, each.approved_at) for each in approved] == [("7", START)]


async def test_nothing_is_there_before_anybody_asked(store: MemoryKeyedStore) -> None:
    """The commands work in a fresh workspace, and leave nothing in it."""
    assert await at(store).pending() == ()
    assert await at(store).approved() == ()
    assert not await at(store).revoke("telegram", "7")
    assert await store.list("pairing/") == ()


@table(
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
async def test_a_damaged_list_is_named_and_left_as_it_is(
    caplog: pytest.LogCaptureFixture, text: str
) -> None:
    """The owner has to set it right; until then nobody is let in because of it, or thrown out."""
    caplog.clear()
    store = MemoryKeyedStore()
    code = await _ask(store)
    await store.put("pairing/approved.json", text.encode("latin-1"))
    gateway = at(store)

    for act in (
        gateway.approved(),
        gateway.approve(code),
        gateway.revoke("telegram", "7"),
        gateway.pending(),
    ):
        with pytest.raises(PairingError, match=r"approved\.json is damaged"):
            await act

    caplog.set_level(logging.ERROR)
    assert [await gateway.is_paired("telegram", "7") for _ in range(2)] == [False, False]
    assert caplog.text.count("nobody counts as paired") == 1
    value = await store.get("pairing/approved.json")
    assert value is not None
    assert value.data == text.encode("latin-1")


async def test_a_damaged_list_of_groups_lets_none_in_and_is_kept(
    store: MemoryKeyedStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is told that a group is shut while the list may say otherwise once it is mended."""
    await store.put("pairing/groups.json", b"{")
    await store.put("pairing/pending.json", b"{")
    gateway = at(store)
    caplog.set_level(logging.ERROR)

    assert not any([await gateway.is_allowed("telegram", ["-1"], "test") for _ in range(2)])
    assert caplog.text.count("no group counts as allowed") == 1
    for act in (
        gateway.allow("telegram", ["-1"], "test", by="owner:ada"),
        gateway.disallow("telegram", ["-1"], "test"),
    ):
        with pytest.raises(PairingError, match=r"groups\.json is damaged"):
            await act

    # Damaged codes live for an hour: nobody should have to repair them.
    caplog.set_level(logging.WARNING)
    assert await _ask(store)
    assert "people get new ones" in caplog.text


async def test_two_owners_at_once_lose_no_approval(store: MemoryKeyedStore) -> None:
    """Each reads the list, adds a line and writes it: one line would be lost."""
    gateway = at(store)
    codes = [await gateway.ask("telegram", Person(id=str(n))) or "" for n in range(20)]

    async with anyio.create_task_group() as tasks:
        for code in codes:
            tasks.start_soon(at(store).approve, code)

    approved = await gateway.approved()
    assert {each.sender_id for each in approved} == {str(n) for n in range(20)}
