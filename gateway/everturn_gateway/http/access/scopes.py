"""Which scope each route asks for: one table, and what is not in it is closed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from everturn_gateway.config.channels import WEBHOOK_PATH
from everturn_gateway.http.access.cookies import LOGIN_PATH
from everturn_gateway.principals import Scope

Need: TypeAlias = Scope | Literal["open"]
"""open: answers anybody, and says nothing about anyone; a webhook asks for a secret of its own."""


class Rule(Struct, frozen=True, kw_only=True):
    """What one route asks of whoever calls it."""

    need: Need
    session: str = ""
    "The parameter of its path that names a session: whoever may not see that is told of none."
    agent: str = ""
    "The parameter of its path that names an agent."
    job: str = ""
    "The parameter of its path that names a scheduled job."
    is_act: bool = False
    "Whether the log of the gateway says who did it: what changes more than a conversation."
    is_whole: bool = False
    "Whether it tells of all agents, or changes all: closed to whoever is limited to some."
    spends: bool = False
    "Whether it begins something that costs money."


def _of_session(need: Scope, *, is_act: bool = False, spends: bool = False) -> Rule:
    return Rule(need=need, session="session_id", is_act=is_act, spends=spends)


def _of_job(*, is_act: bool = False) -> Rule:
    return Rule(need="operate", job="schedule_id", is_act=is_act)


_SESSIONS: Final = "/api/v1/sessions"
_SESSION: Final = f"{_SESSIONS}/{{session_id}}"
_SCHEDULES: Final = "/api/v1/schedules"
_SCHEDULE: Final = f"{_SCHEDULES}/{{schedule_id}}"
_ADMIN: Final = "/api/v1/admin"
_AUDIO: Final = ("speech", "transcriptions", "translations")

RULES: Final[Mapping[tuple[str, str], Rule]] = {
    # For whoever watches the process.
    ("GET", "/livez"): Rule(need="open"),
    ("GET", "/readyz"): Rule(need="read"),
    ("GET", "/version"): Rule(need="read"),
    ("GET", "/metrics"): Rule(need="operate", is_whole=True),
    ("GET", "/docs"): Rule(need="open"),
    ("GET", "/openapi.json"): Rule(need="read"),
    # Agents.
    ("GET", "/api/v1/agents"): Rule(need="read"),
    ("GET", "/api/v1/agents/{name}"): Rule(need="read", agent="name"),
    ("GET", "/api/v1/agents/{name}/prompts"): Rule(need="talk", agent="name"),
    ("POST", "/api/v1/agents/{name}/prompts"): Rule(need="talk", agent="name"),
    ("GET", "/api/v1/agents/{name}/spec"): Rule(need="operate", agent="name"),
    ("GET", "/api/v1/agents/{name}/memory"): Rule(need="operate", agent="name"),
    ("GET", "/api/v1/agents/{name}/skills"): Rule(need="operate", agent="name"),
    ("GET", "/api/v1/agents/{name}/checkpoints"): Rule(need="operate", agent="name"),
    ("GET", "/api/v1/agents/{name}/checkpoints/{number}"): Rule(need="operate", agent="name"),
    ("POST", "/api/v1/agents/{name}/checkpoints/{number}/undo"): Rule(
        need="operate", agent="name", is_act=True
    ),
    # Sessions.
    ("GET", _SESSIONS): Rule(need="read"),
    ("POST", _SESSIONS): Rule(need="talk"),
    ("GET", _SESSION): _of_session("read"),
    ("PATCH", _SESSION): _of_session("talk", is_act=True),
    ("DELETE", _SESSION): _of_session("operate", is_act=True),
    ("POST", f"{_SESSION}/fork"): _of_session("talk", is_act=True),
    ("POST", f"{_SESSION}/reset"): _of_session("operate", is_act=True),
    ("PUT", f"{_SESSION}/shares/{{principal}}"): _of_session("talk", is_act=True),
    ("DELETE", f"{_SESSION}/shares/{{principal}}"): _of_session("talk", is_act=True),
    ("GET", f"{_SESSION}/export"): _of_session("read"),
    ("GET", f"{_SESSION}/log"): _of_session("read"),
    ("GET", f"{_SESSION}/messages"): _of_session("read"),
    ("POST", f"{_SESSION}/messages"): _of_session("talk", spends=True),
    ("POST", f"{_SESSION}/stream"): _of_session("talk", spends=True),
    ("GET", f"{_SESSION}/events"): _of_session("read"),
    ("GET", f"{_SESSION}/media/{{name}}"): _of_session("read"),
    ("GET", f"{_SESSION}/results/{{name}}"): _of_session("read"),
    ("GET", f"{_SESSION}/requests"): _of_session("read"),
    ("POST", f"{_SESSION}/cancel"): _of_session("talk", is_act=True),
    ("POST", f"{_SESSION}/resume"): _of_session("talk", spends=True),
    ("POST", f"{_SESSION}/retry"): _of_session("operate", is_act=True, spends=True),
    ("POST", f"{_SESSION}/undo"): _of_session("talk", is_act=True),
    ("POST", f"{_SESSION}/approve"): _of_session("approve", is_act=True),
    ("GET", f"{_SESSION}/context"): _of_session("read"),
    ("GET", f"{_SESSION}/context/{{seq}}"): _of_session("read"),
    ("POST", f"{_SESSION}/compact"): _of_session("talk", is_act=True, spends=True),
    ("GET", f"{_SESSION}/model"): _of_session("read"),
    ("PUT", f"{_SESSION}/model"): _of_session("operate", is_act=True),
    ("GET", f"{_SESSION}/pins"): _of_session("read"),
    ("PUT", f"{_SESSION}/pins/{{seq}}"): _of_session("talk", is_act=True),
    ("DELETE", f"{_SESSION}/pins/{{seq}}"): _of_session("talk", is_act=True),
    ("GET", f"{_SESSION}/memory"): _of_session("talk"),
    ("PUT", f"{_SESSION}/memory/{{topic}}"): _of_session("talk", is_act=True),
    ("DELETE", f"{_SESSION}/memory/{{topic}}"): _of_session("talk", is_act=True),
    # What goes on in all of them.
    ("GET", "/api/v1/stream"): Rule(need="read"),
    ("GET", "/api/v1/approvals"): Rule(need="read"),
    ("GET", "/api/v1/search"): Rule(need="read"),
    # What is used, and what runs beside conversations.
    ("GET", "/api/v1/usage"): Rule(need="read"),
    ("GET", "/api/v1/channels"): Rule(need="operate", is_whole=True),
    ("GET", "/api/v1/pairing"): Rule(need="operate", is_whole=True),
    ("GET", WEBHOOK_PATH): Rule(need="open"),
    ("POST", WEBHOOK_PATH): Rule(need="open"),
    ("GET", _SCHEDULES): Rule(need="operate"),
    ("POST", _SCHEDULES): Rule(need="operate", is_act=True),
    ("POST", f"{_SCHEDULES}/preview"): Rule(need="operate"),
    ("GET", _SCHEDULE): _of_job(),
    ("DELETE", _SCHEDULE): _of_job(is_act=True),
    ("POST", f"{_SCHEDULE}/pause"): _of_job(is_act=True),
    ("POST", f"{_SCHEDULE}/resume"): _of_job(is_act=True),
    ("POST", f"{_SCHEDULE}/run"): _of_job(is_act=True),
    ("GET", f"{_SCHEDULE}/runs"): _of_job(),
    ("GET", f"{_SCHEDULE}/next"): _of_job(),
    # Administration.
    ("POST", f"{_ADMIN}/reload"): Rule(need="admin", is_act=True, is_whole=True),
    ("GET", f"{_ADMIN}/agents"): Rule(need="admin", is_whole=True),
    ("GET", f"{_ADMIN}/starts"): Rule(need="admin", is_whole=True),
    ("GET", f"{_ADMIN}/nodes"): Rule(need="admin", is_whole=True),
    ("POST", f"{_ADMIN}/agents/{{name}}/validate"): Rule(need="admin", agent="name"),
    ("GET", f"{_ADMIN}/agents/{{name}}/files"): Rule(need="admin", agent="name"),
    ("GET", f"{_ADMIN}/agents/{{name}}/files/{{path:path}}"): Rule(need="admin", agent="name"),
    ("PUT", f"{_ADMIN}/agents/{{name}}/files/{{path:path}}"): Rule(
        need="admin", agent="name", is_act=True
    ),
    ("GET", f"{_ADMIN}/models"): Rule(need="admin", is_whole=True),
    ("DELETE", f"{_ADMIN}/models"): Rule(need="admin", is_act=True, is_whole=True),
    ("POST", f"{_ADMIN}/doctor"): Rule(need="admin", is_act=True, is_whole=True),
    ("GET", f"{_ADMIN}/log"): Rule(need="admin", is_whole=True),
    ("GET", f"{_ADMIN}/clean"): Rule(need="admin", is_whole=True),
    ("POST", f"{_ADMIN}/clean"): Rule(need="admin", is_act=True, is_whole=True),
    ("POST", f"{_ADMIN}/erase"): Rule(need="admin", is_act=True, is_whole=True),
    ("POST", f"{_ADMIN}/channels/{{name}}/check"): Rule(need="admin", is_act=True, is_whole=True),
    ("POST", f"{_ADMIN}/pairing/approve"): Rule(need="admin", is_act=True, is_whole=True),
    ("POST", f"{_ADMIN}/pairing/deny"): Rule(need="admin", is_act=True, is_whole=True),
    ("DELETE", f"{_ADMIN}/pairing/{{channel}}/{{sender}}"): Rule(
        need="admin", is_act=True, is_whole=True
    ),
    # The console; what its page asks, it asks of the routes above.
    ("GET", LOGIN_PATH): Rule(need="read"),
    ("POST", LOGIN_PATH): Rule(need="read"),
    ("DELETE", LOGIN_PATH): Rule(need="read"),
    # Clients of OpenAI.
    ("GET", "/v1/models"): Rule(need="read"),
    ("GET", "/v1/models/{model}"): Rule(need="read", agent="model"),
    ("POST", "/v1/chat/completions"): Rule(need="talk", spends=True),
    ("POST", "/v1/responses"): Rule(need="talk", spends=True),
    ("GET", "/v1/responses/{response_id}"): Rule(need="read"),
    ("GET", "/v1/responses/{response_id}/input_items"): Rule(need="read"),
    ("POST", "/v1/responses/{response_id}/cancel"): Rule(need="talk", is_act=True),
    # What they ask for and no agent does; it costs money.
    **{
        ("POST", f"/v1/{route}"): Rule(need="talk", is_whole=True, spends=True)
        for route in ("embeddings", *map("audio/{}".format, _AUDIO))
    },
    # Clients of MCP: what they ask is asked of the routes above, with the rules of those.
    ("GET", "/mcp"): Rule(need="read"),
    ("POST", "/mcp"): Rule(need="read"),
    ("DELETE", "/mcp"): Rule(need="read"),
}


def rule_of(method: str, path: str) -> Rule | None:
    """Return what a route asks for; None = it is closed.

    Args:
        method: In upper case.
        path: Its template: `/api/v1/sessions/{session_id}`.
    """
    return RULES.get((method, path))
