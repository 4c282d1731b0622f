"""Asks a gateway what the model of a session is shown, and has older turns summarised."""

from __future__ import annotations

from typing import Final

from everturn_actors.context.past.explain import Explanation
from everturn_actors.context.report import ContextReport
from everturn_actors.service import Compacted
from everturn_actors.state.reports import explanation_from, report_from
from everturn_actors.state.validation import check_focus
from everturn_gateway.client.answers import session_path, value_of
from everturn_gateway.client.api import Api

SUMMARY_S: Final = 600.0  # an agent sets how long its summaries may take; the server has its own


class ContextClient:
    """What a model sees of a session; see `Contexts`, the port of that."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def report(self, session_id: str) -> ContextReport:
        """Return what the session's next request would hold. Waits for no turn."""
        return value_of(report_from, await self._api.get(f"{session_path(session_id)}/context"))

    async def explain(self, session_id: str, seq: int) -> Explanation:
        """Return why the request that was sent at event `seq` looked as it did."""
        return value_of(
            explanation_from, await self._api.get(f"{session_path(session_id)}/context/{seq}")
        )

    async def compact(self, session_id: str, focus: str) -> Compacted:
        """Have older turns summarised; return when that is done, or found to be needless."""
        check_focus(focus)
        body = {"focus": focus}
        data = await self._api.ask(
            "POST", f"{session_path(session_id)}/compact", body=body, silence_s=SUMMARY_S
        )
        return value_of(lambda values: Compacted(**values), data)
