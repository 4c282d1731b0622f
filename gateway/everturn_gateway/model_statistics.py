"""What was learnt about models, kept in the workspace: `models.json`.

Only a hint: without the file, everything is learnt again. So learning never waits for the disk, a
write that fails is logged and tried again, and a file that cannot be read is put aside.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import orjson

from everturn_actors.context.estimation.calibration import (
    HINT_MAX_S,
    Hint,
    ModelStatistics,
    bounded,
    prior_statistics,
    statistics_at,
    without_hints,
)
from everturn_actors.ports import Clock
from everturn_actors.spec import ModelSpec
from everturn_actors.supervisor import Supervisor
from everturn_channels.files import quarantine, read_kept, replace_kept

logger = logging.getLogger(__name__)

VERSION: Final = 1
SAVE_EVERY_S = 10.0  # at most so much of what was learnt is lost in a crash
CLOSE_TIMEOUT_S = 2.0  # for the last save
_DAMAGED: Final = (ValueError, TypeError, KeyError, AttributeError)  # what reading it then raises
_MODELS_MAX = 1000  # the models used longest ago go; a workspace has a handful
_WINDOW_MIN = 256  # tokens; no model has less, so a smaller number was not told by one


@dataclass(frozen=True, slots=True, kw_only=True)
class _Learnt:
    """One line of the file."""

    statistics: ModelStatistics
    learnt_at: str
    "UTC, ISO 8601."


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """What is known of one model at one address."""

    label: str
    "`openai/gpt-5`; `openai/qwen3 at host:8000/v1` where an agent names the address."
    statistics: ModelStatistics
    learnt_at: str
    "When something was learnt last; UTC, ISO 8601."

    @property
    def has_hints(self) -> bool:
        """Whether there is something that `forget` forgets."""
        return without_hints(self.statistics) != self.statistics


class FileModelStatistics:
    """A `ModelStatisticsStore` in a file. Made by `open_model_statistics`."""

    def __init__(self, path: Path, clock: Clock, known: Mapping[str, _Learnt]) -> None:
        self._path = path
        self._clock = clock
        self._known = dict(known)
        self._changes = self._saved = 0

    def of(self, model: ModelSpec) -> ModelStatistics:
        """Return what is known of a model; of one that was never used, what its name tells."""
        learnt = self._known.get(_key(model))
        if learnt is None:
            return prior_statistics(model.name)
        return statistics_at(learnt.statistics, self._clock.now())

    def record(self, model: ModelSpec, statistics: ModelStatistics) -> None:
        """Remember it; it is on disk a few seconds later. May be called in any thread."""
        key = _key(model)
        known = self._known.get(key)
        if known is None or known.statistics != statistics:
            self._known[key] = _Learnt(statistics=statistics, learnt_at=_stamp(self._clock.now()))
            self._changes += 1

    def known(self) -> tuple[KnownModel, ...]:
        """Return what is known of all models now, by label."""
        now = self._clock.now()
        return tuple(
            KnownModel(
                label=key, statistics=statistics_at(each.statistics, now), learnt_at=each.learnt_at
            )
            for key, each in sorted(self._known.items())
        )

    def forget(self, model: str = "", endpoint: str = "") -> tuple[KnownModel, ...]:
        """Forget what refusals taught of models; what was measured and told is kept.

        Args:
            model: `openai/gpt-5`, or `gpt-5` of whichever provider; empty = all.
            endpoint: The address, where the agent names one: `host:8000/v1`; empty = at all.

        Returns:
            The models of which something was forgotten, as they were known.
        """
        found = [
            each for each in self.known() if each.has_hints and _means(each.label, model, endpoint)
        ]
        for each in found:
            known = self._known[each.label]
            self._known[each.label] = replace(known, statistics=without_hints(known.statistics))
            self._changes += 1
        return tuple(found)

    async def save_for_ever(self) -> None:
        """Save what is new every few seconds."""
        while True:
            await self._clock.sleep(SAVE_EVERY_S)
            await self.save()

    async def save(self, *, last: bool = False) -> bool:
        """Write the file, if anything is new. Where that fails, the next time may succeed.

        Only the last time a write may be left to itself: two at once would spoil each other.

        Returns:
            Whether all of it is on disk.
        """
        changes = self._changes
        if changes == self._saved:
            return True
        by_age = sorted(self._known.items(), key=lambda item: item[1].learnt_at)
        data = _encoded(dict(by_age[-_MODELS_MAX:]))
        try:
            await anyio.to_thread.run_sync(replace_kept, self._path, data, abandon_on_cancel=last)
        except OSError as error:
            logger.warning(
                "what was learnt about models is not saved",
                extra={"path": str(self._path), "reason": error.strerror or str(error)},
            )
            return False
        self._saved = changes
        return True


@asynccontextmanager
async def open_model_statistics(
    path: Path, clock: Clock, *, supervisor: Supervisor | None = None
) -> AsyncGenerator[FileModelStatistics]:
    """Open the memory of a workspace; at the end what is new is saved.

    Args:
        path: The file, in a directory that exists. One that is damaged is put aside, beside it.
        clock: Says when something was learnt, and when to save.
        supervisor: Runs the task that saves; by default one of its own.
    """
    supervisor = supervisor or Supervisor(clock)
    model_statistics = FileModelStatistics(path, clock, await anyio.to_thread.run_sync(_read, path))
    try:
        async with anyio.create_task_group() as tasks:
            supervisor.start(tasks, "model memory", model_statistics.save_for_ever)
            yield model_statistics
            tasks.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            await model_statistics.save(last=True)


def look_up(path: Path, clock: Clock) -> FileModelStatistics:
    """Return what a workspace knows now, for a look. Changes nothing; blocking.

    A file that is missing, or cannot be read, counts as empty.
    """
    try:
        known = _decoded(path.read_bytes())
    except (OSError, *_DAMAGED):
        known = {}
    return FileModelStatistics(path, clock, known)


def _means(label: str, model: str, endpoint: str) -> bool:
    """Return whether a person who names `model` and `endpoint` means what has this label."""
    place = _place(endpoint) if "://" in endpoint else endpoint.rstrip("/")
    for name in (label, label.partition("/")[2]):
        if place and name == (f"{model} at {place}" if model else name) and name.endswith(place):
            return True
        if not place and (not model or name == model or name.startswith(f"{model} at ")):
            return True
    return False


def _key(model: ModelSpec) -> str:
    """Return the name of a model in the file: `openai/gpt-5`, `openai/qwen3 at host:8000/v1`."""
    key = f"{model.provider}/{model.name}"
    return f"{key} at {_place(model.base_url)}" if model.base_url else key


@lru_cache
def _place(base_url: str) -> str:
    parts = urlsplit(base_url)  # what stands after a question mark can be a key
    return f"{parts.netloc}{parts.path.rstrip('/')}"


def _stamp(now: datetime) -> str:
    return now.isoformat(timespec="seconds")


def _encoded(known: Mapping[str, _Learnt]) -> bytes:
    models = {
        key: {
            "scale": round(learnt.statistics.scale, 4),
            "reports": learnt.statistics.reports,
            "units": learnt.statistics.units,
            "window_tokens": learnt.statistics.window_tokens,
            "proven_tokens": learnt.statistics.proven_tokens,
            "limit": _hint_record(learnt.statistics.limit),
            "doubted_tokens": learnt.statistics.doubted_tokens,
            "no_tools": _hint_record(learnt.statistics.no_tools),
            "learnt_at": learnt.learnt_at,
        }
        for key, learnt in known.items()
    }
    return orjson.dumps({"version": VERSION, "models": models}, option=orjson.OPT_INDENT_2) + b"\n"


def _read(path: Path) -> dict[str, _Learnt]:
    """Return what the file holds; nothing where there is none or it is damaged."""
    try:
        data = read_kept(path)
    except (OSError, ValueError) as error:
        logger.warning(
            "what was learnt about models cannot be read",
            extra={"path": str(path), "reason": str(error)},
        )
        return {}
    try:
        return {} if data is None else _decoded(data)
    except _DAMAGED as error:
        aside = quarantine(path)
        logger.warning(
            "what was learnt about models is damaged and put aside",
            extra={"path": str(aside), "reason": f"{type(error).__name__}: {error}"},
        )
        return {}


def _decoded(data: bytes) -> dict[str, _Learnt]:
    held: Any = orjson.loads(data)
    if held["version"] != VERSION:
        msg = f"version {held['version']!r} is unknown to this version of Everturn"
        raise ValueError(msg)
    return {
        key: _Learnt(
            statistics=ModelStatistics(
                scale=bounded(float(entry["scale"])),
                reports=_count(entry["reports"]),
                units=_count(entry["units"]),
                window_tokens=_window(entry["window_tokens"]),
                proven_tokens=_count(entry.get("proven_tokens", 0)),
                limit=_hint(entry.get("limit")),
                doubted_tokens=_count(entry.get("doubted_tokens", 0)),
                no_tools=_hint(entry.get("no_tools")),
            ),
            learnt_at=str(entry["learnt_at"]),
        )
        for key, entry in held["models"].items()
    }


def _hint_record(hint: Hint | None) -> dict[str, Any] | None:
    if hint is None:
        return None
    return {
        "tokens": hint.tokens,
        "said": hint.said,
        "learnt_at": _stamp(hint.learnt_at),
        "expires_at": _stamp(hint.expires_at),
        "times": hint.times,
    }


def _hint(record: Any) -> Hint | None:  # noqa: ANN401 - JSON
    if record is None:
        return None
    learnt_at, expires_at = map(_instant, (record["learnt_at"], record["expires_at"]))
    return Hint(
        tokens=_count(record["tokens"]),
        said=str(record["said"]),
        learnt_at=learnt_at,
        # Whoever edits the file cannot make a hint last for ever.
        expires_at=min(expires_at, learnt_at + timedelta(seconds=HINT_MAX_S)),
        times=_count(record["times"]),
    )


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        msg = f"{text!r} has no time zone"
        raise ValueError(msg)
    return instant


def _count(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        msg = f"{value!r} is not a count"
        raise ValueError(msg)
    return value


def _window(value: object) -> int | None:
    if value is None:
        return None
    tokens = _count(value)
    return tokens if tokens >= _WINDOW_MIN else None
