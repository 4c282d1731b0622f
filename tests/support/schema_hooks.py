"""Hooks of the schema test's generator, loaded into its process by name.

Ids that are made up are 404, and show no more than that. Most of them are replaced by the ids of
sessions and scheduled jobs that are really there: made for the one call, or for all that only read.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from functools import cache
from itertools import count
from typing import Any

import httpx2
import schemathesis
from schemathesis import Case, HookContext
from support.examples import LONG_RUN

_gateway = httpx2.Client(base_url=os.environ.get("GATEWAY_URL", ""), timeout=60)
_calls = count()
_AGENT = re.compile(r"[A-Za-z0-9-]{1,64}")
_JOB = {"agent": "test", "every": 3600, "task": "Look around."}
_FILE = f"{hashlib.sha256(b'Hello').hexdigest()}.txt"


def _make_session(path: str) -> str:
    session_id = str(_gateway.post("/api/v1/sessions", json={"agent": "test"}).json()["id"])
    messages = f"/api/v1/sessions/{session_id}/messages"
    if path.endswith("/events"):
        _gateway.post(f"/api/v1/sessions/{session_id}/reset")
    elif path.endswith("/context/{seq}"):
        _gateway.post(messages, json={"content": "hi"})
    elif path.endswith("/media/{name}"):
        file = {"media_type": "text/plain", "data": "SGVsbG8="}
        _gateway.post(messages, json={"content": "hi", "attachments": [file]})
    return session_id


def _make_job() -> str:
    return str(_gateway.post("/api/v1/schedules", json=_JOB).json()["id"])


_session_to_read, _job_to_read = cache(_make_session), cache(_make_job)
_FIRST, _STEP = 4, 4  # by day, of each route: the first ones, then each fourth
_cases: defaultdict[tuple[str, str], count[int]] = defaultdict(count)


@schemathesis.hook
def filter_case(context: HookContext, case: Case[Any]) -> bool:
    """Let by day some of what each route could be asked pass, good and bad; at night all."""
    del context
    number = next(_cases[case.operation.label, str(case.meta and case.meta.generation.mode)])
    return bool(LONG_RUN) or number < _FIRST or number % _STEP == 0


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, object]) -> None:
    """Point a call at what is there."""
    del context, kwargs
    parameters = case.path_parameters
    # The events of a session that goes on have no end to wait for.
    endless = case.path.endswith("/events")
    # In a session of another call its key may belong to another message.
    fresh = endless or "Idempotency-Key" in (case.headers or {})
    reads = case.method == "GET"
    if "session_id" in parameters and (fresh or next(_calls) % 4):
        make_session = _session_to_read if reads else _make_session
        parameters["session_id"] = make_session(case.path)
        if case.path.endswith("/context/{seq}") and next(_calls) % 2:
            parameters["seq"] = 2
        if case.path.endswith("/media/{name}"):
            parameters["name"] = _FILE
    if "schedule_id" in parameters and next(_calls) % 4:
        parameters["schedule_id"] = _job_to_read() if reads else _make_job()
    if case.path == "/api/v1/stream":
        case.query = {"watch": "nothing"}  # it has no end, so only what it refuses is asked
    asked = case.body
    if case.path == "/api/v1/schedules" and isinstance(asked, dict):
        agent = asked.get("agent")
        # What is wrong with a body stays wrong.
        if isinstance(agent, str) and _AGENT.fullmatch(agent) and next(_calls) % 4:
            asked["agent"] = "test"
    for name in ("name", "model"):
        if parameters.get(name, _FILE) != _FILE and next(_calls) % 2:
            parameters[name] = "test"
