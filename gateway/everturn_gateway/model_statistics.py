"""What was learnt about models, kept as `models.json`.

Only a hint: without it, everything is learnt again. So learning never waits for the disk, a
write that fails is logged and tried again, and damaged data are quarantined.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct, convert
from msgspec.structs import fields, replace

from everturn_actors.codec import Count, Timestamp, Value
from everturn_actors.context.estimation.calibration import (
    Hint,
    ModelStatistics,
    bounded,
    prior_statistics,
)
from everturn_actors.context.estimation.hints import HINT_MAX_S, statistics_at, without_hints
from everturn_actors.context.estimation.prices import Prices, checked, usual_prices
from everturn_actors.documents import Document, Form, WriteBehind, form_of, written_behind
from everturn_actors.errors import JournalError
from everturn_actors.ports import Clock, KeyedStore
from everturn_actors.spec import ModelSpec
from everturn_actors.supervisor import Supervisor

logger = logging.getLogger(__name__)

KEY: Final = "models.json"
SAVE_EVERY_S = 10.0  # at most so much of what was learnt is lost in a crash
CLOSE_TIMEOUT_S = 2.0  # for the last save
_MODELS_MAX = 1000  # the models used longest ago go; a workspace has a handful
_WINDOW_MIN = 256  # tokens; no model has less, so a smaller number was not told by one


class _Observed(Struct, frozen=True, kw_only=True):
    """One line of the file."""

    statistics: ModelStatistics
    observed_at: str
    "UTC, ISO 8601."


_Known: TypeAlias = dict[str, _Observed]  # by label


class KnownModel(Struct, frozen=True, kw_only=True):
    """What is known of one model at one address."""

    label: str
    "`openai/gpt-5`; `openai/qwen3 at host:8000/v1` where an agent names the address."
    statistics: ModelStatistics
    observed_at: str
    "When something was learnt last; UTC, ISO 8601."

    @property
    def has_hints(self) -> bool:
        """Whether there is something that `forget` forgets."""
        return without_hints(self.statistics) != self.statistics


class StoredModelStatistics:
    """A `ModelStatisticsStore` that lasts. Made by `open_model_statistics` or `look_up`."""

    def __init__(
        self, document: Document[_Known], clock: Clock, known: Mapping[str, _Observed]
    ) -> None:
        self._clock = clock
        self._known = dict(known)
        self._asked: ModelSpec | None = None
        self._asked_key = ""
        self.writer = WriteBehind(document, self._newest, clock, pause_s=SAVE_EVERY_S)
        "Saves what is new."

    def of(self, model: ModelSpec) -> ModelStatistics:
        """Return what is known of a model; of one that was never used, what its name tells."""
        if model is not self._asked:  # each turn asks several times, for one and the same
            self._asked, self._asked_key = model, label_of(model)
        observed = self._known.get(self._asked_key)
        if observed is None:
            return prior_statistics(model.name)
        known = observed.statistics
        if known.limit is None and known.no_tools is None:
            return known  # of most models, and asked for several times in each turn
        return statistics_at(known, self._clock.now())

    def record(self, model: ModelSpec, statistics: ModelStatistics) -> None:
        """Remember it; it is on disk a few seconds later. May be called in any thread."""
        key = label_of(model)
        known = self._known.get(key)
        if known is None or known.statistics != statistics:
            self._known[key] = _Observed(
                statistics=statistics, observed_at=_stamp(self._clock.now())
            )
            self.writer.changed()

    def known(self) -> tuple[KnownModel, ...]:
        """Return what is known of all models now, by label."""
        now = self._clock.now()
        return tuple(
            KnownModel(
                label=key,
                statistics=statistics_at(each.statistics, now),
                observed_at=each.observed_at,
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
            self.writer.changed()
        return tuple(found)

    async def save(self) -> bool:
        """Write what is new now; return whether all of it is durable."""
        return await self.writer.flush()

    def _newest(self) -> _Known:
        """Return what is kept: of too many models those that were used last."""
        by_age = sorted(self._known.items(), key=lambda item: item[1].observed_at)
        return dict(by_age[-_MODELS_MAX:])


@asynccontextmanager
async def open_model_statistics(
    store: KeyedStore, clock: Clock, *, supervisor: Supervisor | None = None
) -> AsyncGenerator[StoredModelStatistics]:
    """Open what is known of models; at the end what is new is saved.

    Args:
        store: Where it is kept. Damaged data are quarantined.
        clock: Says when something was learnt, and when to save.
        supervisor: Runs the task that saves; by default one of its own.
    """
    document = Document(store, KEY, _FORM)
    known: _Known = {}
    try:
        known = await document.load("what was learnt about models is damaged and quarantined")
    except JournalError as error:
        fields = {"place": document.place, "reason": str(error)}
        logger.warning("what was learnt about models cannot be read", extra=fields)
    found = StoredModelStatistics(document, clock, known)
    runs = supervisor or Supervisor(clock)
    async with written_behind(found.writer, runs, "model memory", close_s=CLOSE_TIMEOUT_S):
        yield found


async def look_up(store: KeyedStore, clock: Clock) -> StoredModelStatistics:
    """Return what is known now, for a look. Changes nothing.

    What is missing, or cannot be read, counts as empty.
    """
    document, known = Document(store, KEY, _FORM), dict[str, _Observed]()
    with suppress(JournalError):
        known = await document.read()
    return StoredModelStatistics(document, clock, known)


def _means(label: str, model: str, endpoint: str) -> bool:
    """Return whether a person who names `model` and `endpoint` means what has this label."""
    place = _place(endpoint) if "://" in endpoint else endpoint.rstrip("/")
    for name in (label, label.partition("/")[2]):
        if place and name == (f"{model} at {place}" if model else name) and name.endswith(place):
            return True
        if not place and (not model or name == model or name.startswith(f"{model} at ")):
            return True
    return False


def label_of(model: ModelSpec) -> str:
    """Return the name of a model in the file: `openai/gpt-5`, `openai/qwen3 at host:8000/v1`."""
    key = f"{model.provider}/{model.name}"
    return f"{key} at {_place(model.base_url)}" if model.base_url else key


@lru_cache
def _place(base_url: str) -> str:
    parts = urlsplit(base_url)  # what stands after a question mark can be a key
    return f"{parts.netloc}{parts.path.rstrip('/')}"


def _stamp(now: datetime) -> str:
    return now.isoformat(timespec="seconds")


class _Said(Value, frozen=True, rename={"observed_at": "learnt_at"}):
    """A hint, as the file has it."""

    tokens: Count
    said: str
    observed_at: Timestamp
    expires_at: Timestamp
    times: Count
    refusals: Count = 1
    is_named: bool = True


class _Entry(Value, frozen=True, forbid_unknown_fields=False, rename={"observed_at": "learnt_at"}):
    """What is known of one model, as the file has it.

    Fields of other versions are passed over: what they say is learnt again.
    """

    scale: float
    reports: Count
    units: Count
    window_tokens: Count | None
    proven_tokens: Count = 0
    limit: _Said | None = None
    doubted_tokens: Count = 0
    no_tools: _Said | None = None
    prices: tuple[float, ...] = ()
    doubts: tuple[float, ...] = ()
    observed_at: str = ""


_PLAIN: Final = tuple(f.name for f in fields(ModelStatistics) if f.name != "prices")
_SHEET: Final[Form[dict[str, _Entry]]] = form_of("models", dict[str, _Entry], {})


def _encoded(known: _Known) -> bytes:
    return _SHEET.encode({key: _entry(observed) for key, observed in known.items()})


def _decoded(data: bytes) -> _Known:
    return {key: _observed(entry) for key, entry in _SHEET.decode(data).items()}


_FORM: Final = Form(encode=_encoded, decode=_decoded, empty=dict[str, _Observed]())


def _entry(observed: _Observed) -> _Entry:
    known = observed.statistics
    flat = {name: getattr(known, name) for name in _PLAIN}
    entry = convert(flat, _Entry, from_attributes=True)
    return replace(
        entry,
        scale=round(entry.scale, 4),
        prices=known.prices.each,
        doubts=known.prices.doubts,
        observed_at=observed.observed_at,
    )


def _observed(entry: _Entry) -> _Observed:
    plain = {name: getattr(entry, name) for name in _PLAIN}
    read = convert(plain, ModelStatistics, from_attributes=True)
    window, scale = read.window_tokens, bounded(read.scale)
    prices = checked(Prices(each=entry.prices, doubts=entry.doubts)) or usual_prices(scale)
    statistics = replace(
        read,
        scale=scale,
        prices=prices,
        window_tokens=window if window is None or window >= _WINDOW_MIN else None,
        limit=_within_bounds(read.limit),
        no_tools=_within_bounds(read.no_tools),
    )
    return _Observed(statistics=statistics, observed_at=entry.observed_at)


def _within_bounds(hint: Hint | None) -> Hint | None:
    """Return a hint that does not last for ever, whoever edited the file."""
    if hint is None:
        return None
    latest = hint.observed_at + timedelta(seconds=HINT_MAX_S)
    return replace(hint, expires_at=min(hint.expires_at, latest))
