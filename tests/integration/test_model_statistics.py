"""What was learnt about models, across restarts and bad days of the disk."""

from __future__ import annotations

import json
import logging
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.patience import WAIT_S
from support.stores import FullDisk
from support.tables import table

from everturn_actors.context.estimation.calibration import (
    SCALE_MAX,
    Hint,
    ModelStatistics,
    learn,
    prior_statistics,
)
from everturn_actors.context.estimation.hints import with_limit, with_window
from everturn_actors.context.estimation.prices import usual_prices
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.spec import ModelSpec
from everturn_actors.testing import START, ManualClock
from everturn_gateway import model_statistics as model_memory
from everturn_gateway.model_statistics import SAVE_EVERY_S, open_model_statistics

MODEL = ModelSpec(provider="openai", name="gpt-5")
FACTS = ModelStatistics(
    scale=1.1234,
    reports=7,
    units=90_000,
    window_tokens=400_000,
    proven_tokens=90_000,
    limit=Hint(
        tokens=128_000,
        said="too long",
        observed_at=START,
        expires_at=START + timedelta(hours=24),
    ),
    doubted_tokens=4_096,
    no_tools=Hint(
        said="no tools", observed_at=START, expires_at=START + timedelta(hours=48), times=2
    ),
)


def names(folder: Path) -> list[str]:
    """Return the files of a folder."""
    return sorted(child.name for child in folder.iterdir())


async def stored(path: Path) -> Any:
    """Return what the file holds."""
    return json.loads(await anyio.Path(path).read_text())


async def known(path: Path, model: ModelSpec = MODEL) -> ModelStatistics:
    """Return what a gateway that starts now knows."""
    async with open_model_statistics(
        FileKeyedStore(path.parent), ManualClock()
    ) as model_statistics:
        return model_statistics.of(model)


async def test_what_was_learnt_is_kept_however_the_gateway_ends(tmp_path: Path) -> None:
    """Otherwise every start begins with a guess, and with the same overflow."""
    path = tmp_path / "models.json"
    async with open_model_statistics(
        FileKeyedStore(path.parent), ManualClock()
    ) as model_statistics:
        assert model_statistics.of(MODEL) == prior_statistics("gpt-5")
        model_statistics.record(MODEL, FACTS)
        assert model_statistics.of(MODEL) == FACTS

    assert await known(path) == FACTS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == ["models.json"]

    # A stop is a cancellation, and comes in the middle of everything.
    folder = tmp_path / "stopped"
    folder.mkdir()
    path = folder / "models.json"
    with anyio.CancelScope() as scope:
        async with open_model_statistics(
            FileKeyedStore(path.parent), ManualClock()
        ) as model_statistics:
            model_statistics.record(MODEL, FACTS)
            scope.cancel()
            await anyio.sleep_forever()

    assert await known(path) == FACTS

    # A gateway that ends because of a failure has learnt as much as any other.
    folder = tmp_path / "broken"
    folder.mkdir()
    path = folder / "models.json"
    with pytest.RaisesGroup(OSError):
        async with open_model_statistics(
            FileKeyedStore(path.parent), ManualClock()
        ) as model_statistics:
            model_statistics.record(MODEL, FACTS)
            raise OSError(5, "Input/output error")

    assert await known(path) == FACTS


async def test_what_is_new_is_written_a_few_seconds_later_and_nothing_else(tmp_path: Path) -> None:
    """A gateway that is killed remembers, and an idle one lets the disk sleep."""
    # A gateway that is killed must not forget its whole life.
    path, clock = tmp_path / "models.json", ManualClock()
    async with open_model_statistics(FileKeyedStore(path.parent), clock) as model_statistics:
        model_statistics.record(MODEL, FACTS)
        with anyio.fail_after(WAIT_S):
            await clock.until_sleeping(SAVE_EVERY_S)
            before = path.exists()
            clock.advance(SAVE_EVERY_S)
            await clock.until_sleeping(SAVE_EVERY_S)
        entry = (await stored(path))["models"]["openai/gpt-5"]

    assert not before
    assert entry == {
        "scale": 1.1234,
        "reports": 7,
        "units": 90_000,
        "window_tokens": 400_000,
        "proven_tokens": 90_000,
        "limit": {
            "tokens": 128_000,
            "said": "too long",
            "learnt_at": "2026-01-02T03:04:05Z",
            "expires_at": "2026-01-03T03:04:05Z",
            "times": 1,
        },
        "doubted_tokens": 4_096,
        "no_tools": {
            "tokens": 0,
            "said": "no tools",
            "learnt_at": "2026-01-02T03:04:05Z",
            "expires_at": "2026-01-04T03:04:05Z",
            "times": 2,
        },
        "prices": list(FACTS.prices.each),
        "doubts": list(FACTS.prices.doubts),
        "learnt_at": "2026-01-02T03:04:05+00:00",
    }

    # An idle gateway must let the disk sleep.
    folder = tmp_path / "idle"
    folder.mkdir()
    path, clock = folder / "models.json", ManualClock()
    async with open_model_statistics(FileKeyedStore(path.parent), clock) as model_statistics:
        model_statistics.record(MODEL, FACTS)
    path.unlink()
    async with open_model_statistics(FileKeyedStore(path.parent), clock) as model_statistics:
        pass
    assert not path.exists()
    async with open_model_statistics(FileKeyedStore(path.parent), clock) as model_statistics:
        model_statistics.record(MODEL, FACTS)
        await model_statistics.save()
        path.unlink()
        model_statistics.record(MODEL, FACTS)
        await model_statistics.save()

    assert not path.exists()


async def test_models_of_other_providers_and_servers_are_others(tmp_path: Path) -> None:
    """The same name at two servers can have two windows."""
    path = tmp_path / "models.json"
    there = ModelSpec(provider="openai", name="q", base_url="http://gpu:8000/v1/?key=secret")
    here = ModelSpec(provider="openai", name="q", base_url="http://127.0.0.1:8000/v1")
    async with open_model_statistics(
        FileKeyedStore(path.parent), ManualClock()
    ) as model_statistics:
        model_statistics.record(there, with_window(model_statistics.of(there), 32_768))
        model_statistics.record(here, limited(model_statistics.of(here)))

    assert (await known(path, there)).window_tokens == 32_768
    assert await known(path, here) == limited(prior_statistics("q"))
    assert await known(path, ModelSpec(provider="ollama", name="q")) == prior_statistics("q")
    assert "secret" not in await anyio.Path(path).read_text()


def limited(facts: ModelStatistics) -> ModelStatistics:
    """Return what is known after a refusal."""
    return with_limit(facts, 8_192, said="too long", now=START)


async def test_what_one_refusal_taught_expires_across_restarts(tmp_path: Path) -> None:
    """A gateway that is started anew each day must not begin each day small."""
    path, clock = tmp_path / "models.json", ManualClock()
    async with open_model_statistics(FileKeyedStore(path.parent), clock) as model_statistics:
        model_statistics.record(MODEL, limited(model_statistics.of(MODEL)))
    clock.advance(24 * 3600 - 1)
    async with open_model_statistics(FileKeyedStore(path.parent), clock) as model_statistics:
        before = model_statistics.of(MODEL).limit_tokens
        clock.advance(1)
        after = model_statistics.of(MODEL)

    assert (before, after.limit_tokens) == (8_192, None)
    assert after.limit is not None  # to be believed for longer when it is said again


async def test_what_a_person_or_a_former_version_wrote_holds_within_bounds(tmp_path: Path) -> None:
    """No line of the file makes a model small for ever."""
    # It was to hold for ever, and nobody knows where it came from.
    folder = tmp_path / "former"
    folder.mkdir()
    path = folder / "models.json"
    path.write_bytes(entry(limit_tokens=8_192, calls_tools=False))

    assert await known(path) == ModelStatistics(scale=1.0, reports=1, units=1)

    # A typing error in a year must not make a model small for ever.
    folder = tmp_path / "edited"
    folder.mkdir()
    path, clock = folder / "models.json", ManualClock()
    hint = {
        "tokens": 8_192,
        "said": "",
        "learnt_at": "2026-01-02T00:00:00+00:00",
        "expires_at": "2062-01-02T00:00:00+00:00",
        "times": 1,
    }
    path.write_bytes(entry(limit=hint))
    async with open_model_statistics(FileKeyedStore(path.parent), clock) as model_statistics:
        before = model_statistics.of(MODEL).limit_tokens
        clock.advance(7 * 24 * 3600)
        after = model_statistics.of(MODEL).limit_tokens

    assert (before, after) == (8_192, None)

    # A person may edit the file; no estimate may leave its order of magnitude.
    folder = tmp_path / "scale"
    folder.mkdir()
    path = folder / "models.json"
    path.write_bytes(entry(scale=1e9, window_tokens=0))

    assert await known(path) == ModelStatistics(
        scale=SCALE_MAX, prices=usual_prices(SCALE_MAX), reports=1, units=1
    )


def entry(**changes: object) -> bytes:
    """Return a file with one entry."""
    fields = {
        "scale": 1.0,
        "reports": 1,
        "units": 1,
        "window_tokens": None,
        "learnt_at": "",
    }
    return json.dumps({"version": 1, "models": {"openai/gpt-5": fields | changes}}).encode()


@table(
    "damaged",
    [
        b"",
        b"{",
        b"\x00" * 100,
        b"[]",
        b"{}",
        b'{"version": 2, "models": {}}',
        b'{"version": 1, "models": []}',
        b'{"version": 1, "models": {"openai/gpt-5": 3}}',
        b'{"version": 1, "models": {"openai/gpt-5": {"scale": 1.0}}}',
        entry(scale="much"),
        entry(reports=-1),
        entry(window_tokens="large"),
        entry(limit=3),
        entry(limit={"tokens": 1, "said": "", "learnt_at": "", "expires_at": "", "times": 1}),
    ],
)
async def test_a_damaged_file_is_put_aside(
    tmp_path: Path, damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It holds only what can be learnt again: no reason not to start, nor to throw it away."""
    caplog.clear()
    path = tmp_path / "models.json"
    path.write_bytes(damaged)
    (tmp_path / "models.json.damaged").write_bytes(b"from last week")
    with caplog.at_level(logging.WARNING):
        async with open_model_statistics(
            FileKeyedStore(path.parent), ManualClock()
        ) as model_statistics:
            assert model_statistics.of(MODEL) == prior_statistics("gpt-5")
            model_statistics.record(MODEL, FACTS)

    assert (tmp_path / "models.json.damaged-2").read_bytes() == damaged
    assert (tmp_path / "models.json.damaged").read_bytes() == b"from last week"
    assert [record.__dict__["kept_as"] for record in caplog.records] == [
        str(tmp_path / "models.json.damaged-2")
    ]
    assert await known(path) == FACTS


async def test_what_cannot_be_read_does_not_keep_the_gateway_from_learning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The gateway works meanwhile, and the log says what is wrong."""
    path = tmp_path / "models.json"
    path.symlink_to(path)  # a link to itself cannot be read
    async with open_model_statistics(FileKeyedStore(tmp_path), ManualClock()) as model_statistics:
        assert model_statistics.of(MODEL) == prior_statistics("gpt-5")
        model_statistics.record(MODEL, FACTS)

    assert "what was learnt about models cannot be read" in caplog.text
    assert await known(path) == FACTS


async def test_a_save_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """A full disk is emptied some day; nothing of what was learnt is lost until then."""
    disk = FullDisk()
    disk.is_full = True
    async with open_model_statistics(disk, ManualClock()) as model_statistics:
        model_statistics.record(MODEL, FACTS)
        refused = [await model_statistics.save() for _ in range(3)]
        disk.is_full = False
        is_saved = await model_statistics.save()
    async with open_model_statistics(disk, ManualClock()) as model_statistics:
        found = model_statistics.of(MODEL)

    assert (refused, is_saved, found) == ([False] * 3, True, FACTS)
    assert [record.__dict__["error"] for record in caplog.records] == [
        "memory/models.json: the disk is full (ENOSPC)"
    ]


@table("step", ["os.fsync", "pathlib.Path.replace"])
async def test_a_write_that_breaks_off_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Half a file would be quarantined at the next start, and everything learnt again."""
    path = tmp_path / "models.json"
    async with open_model_statistics(
        FileKeyedStore(path.parent), ManualClock()
    ) as model_statistics:
        model_statistics.record(MODEL, FACTS)
    old = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(step, fail)
        async with open_model_statistics(
            FileKeyedStore(path.parent), ManualClock()
        ) as model_statistics:
            model_statistics.record(MODEL, learn(FACTS, units=100_000, tokens=2_000))

    assert path.read_bytes() == old
    assert names(tmp_path) == ["models.json"]


async def test_only_the_newest_models_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names come from agents' files; a file must not grow with every name there ever was."""
    monkeypatch.setattr(model_memory, "_MODELS_MAX", 3)
    path, clock = tmp_path / "models.json", ManualClock()
    async with open_model_statistics(FileKeyedStore(path.parent), clock) as model_statistics:
        for number in (1, 2, 3, 4, 1):
            clock.advance(1)
            name = f"m{number}"
            facts = ModelStatistics(scale=1.0, reports=model_statistics.of(model(name)).reports + 1)
            model_statistics.record(model(name), facts)

    assert set((await stored(path))["models"]) == {"openai/m3", "openai/m4", "openai/m1"}


def model(name: str) -> ModelSpec:
    """Return a model of this name."""
    return ModelSpec(provider="openai", name=name)
