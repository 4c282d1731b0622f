"""What is told of a session's context as plain dicts, for HTTP and the command line. Pure.

One shape for all: what a gateway answers is what `--json` prints, and what a client in another
process reads back.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias, assert_never

from msgspec import structs

from everturn_actors.codec import dump
from everturn_actors.context.past.comparison import dispositions_of
from everturn_actors.context.past.explain import Explained, Explanation, role_of
from everturn_actors.context.report import ContextReport, Region, SummaryReport
from everturn_actors.model import (
    AnyMessage,
    ModelRequest,
    Notice,
    Reply,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Usage,
    UserMessage,
)
from everturn_actors.state.serialization import utc_text

Json: TypeAlias = dict[str, Any]


def report_record(report: ContextReport) -> Json:
    """Return a report as JSON values; a window that is not known is null."""
    return {
        **structs.asdict(report),
        "window_tokens": report.window_tokens or None,
        "regions": {region.name: region.tokens for region in report.regions},
        "by_disposition": dict(report.by_disposition),
        "summary": structs.asdict(report.summary) if report.summary else None,
        "reported": structs.asdict(report.reported),
        "retry_at": utc_text(report.retry_at) if report.retry_at else None,
        "next": list(report.next),
        "notes": list(report.notes),
    }


def report_from(record: Mapping[str, Any]) -> ContextReport:
    """Return the report of a record; the inverse of `report_record`.

    Raises:
        KeyError, TypeError, ValueError: It is none, or one of another version.
    """
    summary, retry_at = record["summary"], record["retry_at"]
    values: Json = {
        **record,
        "window_tokens": record["window_tokens"] or 0,
        "regions": tuple(Region(name=n, tokens=tokens) for n, tokens in record["regions"].items()),
        "summary": SummaryReport(**summary) if summary else None,
        "reported": Usage(**record["reported"]),
        "retry_at": datetime.fromisoformat(retry_at) if retry_at else None,
        "next": tuple(record["next"]),
        "notes": tuple(record["notes"]),
    }
    return ContextReport(**values)


def explanation_record(explanation: Explanation) -> Json:
    """Return an explanation as JSON values. Takes as long as the session is."""
    return {
        **structs.asdict(explanation),
        "reported": structs.asdict(explanation.reported),
        "messages": [structs.asdict(message) for message in explanation.messages],
        "request": _request(explanation.request),
    }


def dispositions_record(
    explanation: Explanation, other: Explanation | None, *, since: int = 0
) -> Json:
    """Return what became of each message of a past request, as JSON values, without the request.

    Args:
        explanation: Of the request.
        other: Of one that it is compared with: messages that both have alike are left out.
        since: Messages of earlier events are left out, too.
    """
    return {
        **_head(explanation),
        "than": None if other is None else other.replied_seq or other.started_seq,
        **dump(dispositions_of(explanation, other, since=since)),
    }


def request_record(explanation: Explanation) -> Json:
    """Return a past request as JSON values, without what became of each message."""
    return {**_head(explanation), "request": _request(explanation.request)}


def _head(explanation: Explanation) -> Json:
    head = structs.asdict(explanation)
    del head["messages"], head["request"]
    return {**head, "reported": structs.asdict(explanation.reported)}


def explanation_from(record: Mapping[str, Any]) -> Explanation:
    """Return the explanation of a record: all of it, as far as the record tells.

    A request's replies come back without what is not sent with them: reasoning and usage.

    Raises:
        KeyError, TypeError, ValueError: It is none, or one of another version.
    """
    values: Json = {
        **record,
        "reported": Usage(**record["reported"]),
        "messages": tuple(Explained(**message) for message in record["messages"]),
        "request": _request_from(record["request"]),
    }
    return Explanation(**values)


def _request(request: ModelRequest) -> Json:
    return {
        "model": request.model,
        "system": request.system,
        "messages": [_message(message) for message in request.messages],
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            }
            for tool in request.tools
        ],
        "max_output_tokens": request.max_output_tokens,
        "temperature": request.temperature,
    }


def _message(message: AnyMessage) -> Json:
    """Return the JSON of what became of one message."""
    record: Json = {
        "seq": message.seq,
        "role": role_of(message),
        "content": message.text,
        "sender": "",
        "name": "",
        "tool_calls": [],
        "tool_call_id": None,
        "is_error": False,
        "opaque": "",
    }
    match message:
        case UserMessage(sender=sender):
            return record | {"sender": sender}
        case Reply(calls=calls):
            asked = [{"id": c.call_id, "name": c.name, "arguments": c.arguments} for c in calls]
            return record | {"tool_calls": asked}
        case ToolResult():
            return record | {
                "name": message.name,
                "tool_call_id": message.call_id,
                "is_error": message.is_error,
            }
        case Notice(opaque=opaque):
            return record | {"opaque": opaque}
        case _:
            assert_never(message)


def _request_from(record: Mapping[str, Any]) -> ModelRequest:
    values: Json = {
        **record,
        "messages": tuple(map(_message_from, record["messages"])),
        "tools": tuple(ToolDefinition(**tool) for tool in record["tools"]),
    }
    return ModelRequest(**values)


def _message_from(record: Mapping[str, Any]) -> AnyMessage:
    """Return what became of one message from its JSON."""
    seq, text = record["seq"], record["content"]
    match record["role"]:
        case "user":
            return UserMessage(seq=seq, text=text, sender=record.get("sender") or "")
        case "assistant":
            calls = tuple(
                ToolCall(call_id=call["id"], name=call["name"], arguments=call["arguments"])
                for call in record.get("tool_calls") or ()
            )
            return Reply(seq=seq, text=text, calls=calls)
        case "tool":
            return ToolResult(
                seq=seq,
                call_id=record["tool_call_id"],
                name=record["name"],
                text=text,
                is_error=record["is_error"],
            )
        case "system":
            return Notice(seq=seq, text=text, opaque=record.get("opaque") or "")
        case role:
            msg = f"a message has the role {role!r}"
            raise ValueError(msg)
