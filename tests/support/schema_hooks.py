"""Hooks of the schema test's generator, loaded into its process by name.

Ids that are made up are 404, and show no more than that. Most of them are replaced by the ids of
sessions that are really there, made for the one call.
"""

from __future__ import annotations

import os
from itertools import count
from typing import Any

import httpx2
import schemathesis
from schemathesis import Case, HookContext

_gateway = httpx2.Client(base_url=os.environ.get("GATEWAY_URL", ""))
_calls = count()


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, object]) -> None:
    """Point a call at what is there."""
    del context, kwargs
    parameters = case.path_parameters
    # The events of a session that goes on have no end to wait for.
    endless = case.path.endswith("/events")
    if "session_id" in parameters and (endless or next(_calls) % 4):
        session_id = _gateway.post("/api/v1/sessions", json={"agent": "test"}).json()["id"]
        if endless:
            _gateway.post(f"/api/v1/sessions/{session_id}/reset")
        if case.path.endswith("/context/{seq}") and next(_calls) % 2:
            _gateway.post(f"/api/v1/sessions/{session_id}/messages", json={"content": "hi"})
            parameters["seq"] = 2
        parameters["session_id"] = session_id
    for name in ("name", "model"):
        if name in parameters and next(_calls) % 2:
            parameters[name] = "test"
