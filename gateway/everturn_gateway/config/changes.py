"""What differs between two configurations, and what of it a running gateway takes over. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Final

from everturn_gateway.config.settings import Config

LIVE: Final = frozenset(
    (
        "logging.format",
        "openai_api.approval_wait_seconds",
        "openai_api.passed_on",
        "openai_api.side_requests",
        "owners",
        "prices",
        "routes",
        "schedules.allow_private",
        "schedules.timezone",
        "sessions.compaction",
        "sessions.keep",
        "sessions.ttl_hours",
    )
)
"""Settings that are taken over while the gateway runs; the others hold from the next start on.
`take_over` has to know each of them."""

_IN_THE_FILE: Final = {
    "form": "format",
    "results_max_bytes": "results_max_megabytes",
}
"Fields that are called otherwise in the file; of those in seconds the end differs."
_NOT_SETTINGS: Final = frozenset(("notes", "path"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Settings whose values differ, by their names in the file, sorted."""

    live: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    "These hold from the next start on."


def changes(old: Config, new: Config) -> Changes:
    """Return which settings differ."""
    found = sorted(_differences(old, new, ""))
    return Changes(
        live=tuple(name for name in found if name in LIVE),
        restart=tuple(name for name in found if name not in LIVE),
    )


def take_over(old: Config, new: Config) -> Config:
    """Return `old` with what of `new` holds while the gateway runs."""
    return replace(
        old,
        logging=new.logging,
        openai_api=new.openai_api,
        owners=new.owners,
        prices=new.prices,
        routes=new.routes,
        schedules=new.schedules,
        sessions=replace(
            old.sessions,
            ttl_hours=new.sessions.ttl_hours,
            compaction=new.sessions.compaction,
            keep=new.sessions.keep,
        ),
        notes=new.notes,
    )


def _differences(old: object, new: object, name: str) -> Iterator[str]:
    """Yield the dotted names of fields that differ; sections are looked into, lists are not."""
    if old == new:
        return
    if name in LIVE or not is_dataclass(old) or type(old) is not type(new):
        yield name
        return
    for field in fields(old):
        if field.name in _NOT_SETTINGS and not name:
            continue
        own = _IN_THE_FILE.get(field.name, field.name)
        own = f"{own.removesuffix('_s')}_seconds" if own.endswith("_s") else own
        inner = f"{name}.{own}" if name else own
        yield from _differences(getattr(old, field.name), getattr(new, field.name), inner)
