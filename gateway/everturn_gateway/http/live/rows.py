"""Rows of sessions as JSON, written once for all who look on."""

from __future__ import annotations

from typing import Final

import orjson

from everturn_gateway.http.schemas.sessions import OverviewRow
from everturn_gateway.session_changes import SessionOverview

_KEPT: Final = 1000  # some 700 bytes each; those beyond are written anew


class EncodedRows:
    """Keeps the newest row of each session as JSON."""

    def __init__(self) -> None:
        """Begin with none."""
        self._kept: dict[str, tuple[SessionOverview, orjson.Fragment]] = {}

    def of(self, row: SessionOverview) -> orjson.Fragment:
        """Return a row as it stands in an `OverviewRow`."""
        kept = self._kept.get(row.session_id)
        if kept is not None and kept[0] is row:
            return kept[1]
        fragment = orjson.Fragment(orjson.dumps(OverviewRow.overview(row).model_dump(mode="json")))
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        self._kept[row.session_id] = row, fragment
        return fragment
