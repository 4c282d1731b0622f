"""`state.yaml`, written: a header in block style, then one line of JSON for each message. Pure.

JSON is a part of YAML's flow style except for a few characters that YAML 1.1 cannot hold raw or
reads as line breaks; those are escaped, so that every YAML parser reads the file as it was written,
while the lines are written at the speed of JSON.
Source: YAML 1.1, sections 5.1 (character set) and 5.4 (line breaks), https://yaml.org/spec/1.1/,
read 2026-11-21; checked against PyYAML 6.0.3, which refuses U+FEFF inside a document as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, assert_never

import orjson

from everturn_actors.journal.log.archive import ArchiveRecord, record_line
from everturn_actors.journal.snapshot.outbox import ambient_line, item_line
from everturn_actors.model import (
    Approval,
    Attachment,
    FileDigest,
    OpenTurn,
    Outage,
    PromptFingerprint,
    Reductions,
    Replaced,
    Reply,
    Step,
    Summary,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    UserMessage,
)
from everturn_actors.state.serialization import utc_text
from everturn_actors.state.session_state import SessionState

FORMAT = "everturn/state-v5"
OLDER_FORMATS = ("everturn/state-v1", "everturn/state-v2", "everturn/state-v3")
"""Formats that are read as well.

A version that does not know the format refuses the file; fields that it does not know would look to
it like a slip of an editor, and the file like a damaged one. v1 is v2 without what is hidden from
the model and without the last request; v2 is v3 without approvals, without messages that came
while a turn ran, and without some fields of messages; v3 is v4 without what is owed to the people
of a channel, and without what was said there to others.
"""
SECTIONS = (
    "seen",
    "waiting",
    "open_turn",
    "checkpointed",
    "pending",
    "summary",
    "replaced",
    "ambient",
    "outbox",
)
"What follows the header, in this order: lists of one line each."

_COMMENT = """\
# What this session knew at event `last_seq`. The log, events.jsonl, is the truth; with this file
# only what was logged later has to be replayed. Each line of the lists below is one message and
# names the turn that it belongs to; at the end, what the model sees in place of messages. While
# Everturn is stopped, the file may be edited by hand: any valid YAML of the same fields will do.
"""
_HOSTILE_BYTES = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef(?:\xbb\xbf|\xbf[\xbe\xbf])"
)
_HOSTILE_TEXT = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def encode_state(state: SessionState, archive: ArchiveRecord | None = None) -> bytes:
    """Return the bytes of `state.yaml`.

    Args:
        state: What the session knows.
        archive: What its archive has to hold; None = not known.
    """
    sections: tuple[Iterable[dict[str, Any]], ...] = (
        ({"key": key, "seq": seq} for key, seq in state.seen.items()),
        [_message(message, {}) for message in state.waiting],
        _open_turn_lines(state.open_turn),
        _lines_of(state.checkpointed),
        _lines_of(state.pending),
        () if state.reductions.summary is None else (_summary(state.reductions.summary),),
        (_replaced(each) for _, each in sorted(state.reductions.replaced.items())),
        map(ambient_line, state.ambient),
        map(item_line, state.outbox),
    )
    parts = [_COMMENT.encode(), _header(state, archive)]
    for name, lines in zip(SECTIONS, sections, strict=True):
        body = b"".join([b"- %b\n" % _json(line) for line in lines])
        parts.append(b"%b:\n%b" % (name.encode(), body) if body else b"%b: []\n" % name.encode())
    return b"".join(parts)


def _header(state: SessionState, archive: ArchiveRecord | None) -> bytes:
    key, usage = state.key, state.usage
    values: tuple[tuple[str, object], ...] = (
        ("session", state.session_id),
        (
            "conversation",
            {"channel": key.channel, "chat": key.chat, "topic": key.topic, "agent": key.agent},
        ),
        ("status", state.status),
        ("ended_reason", state.ended_reason),
        ("created", utc_text(state.created_at)),
        ("updated", utc_text(state.updated_at)),
        ("last_seq", state.last_seq),
        ("checkpoint_seq", state.checkpoint_seq),
        ("window_messages", state.window_messages),
        ("turns", state.turns),
        ("logged_messages", state.logged_messages),
        ("usage", _usage(usage)),
        ("instructions", state.instructions),
        ("reductions", _reductions(state.reductions)),
        ("fingerprint", _fields(state.fingerprint)),
        ("reported", _usage(state.reported)),
        ("cache_misses", state.cache_misses),
        ("archive", record_line(archive) if archive else None),
        ("principal", state.principal),
        ("shared_with", list(state.shared_with)),
    )
    lines = b"".join(
        b"%b: %b\n" % (name.encode(), _json(value))
        for name, value in values
        if name not in _EMPTY or value != _EMPTY[name]
    )
    return b"format: %b\n%b" % (FORMAT.encode(), lines)


def _reductions(reductions: Reductions) -> dict[str, Any]:
    """Return what is hidden for good, but for the long parts, which have lines of their own."""
    retry_at = reductions.retry_at
    return {
        "cut_turn": reductions.cut_turn,
        "dropped": sorted(reductions.dropped),
        "note": reductions.note,
        "failures": reductions.failures,
        "retry_at": "" if retry_at is None else utc_text(retry_at),
    }


def _replaced(replaced: Replaced) -> dict[str, Any]:
    line: dict[str, Any] = {
        "seq": replaced.seq,
        "disposition": replaced.disposition,
        "text": replaced.text,
    }
    if replaced.arguments:
        line["arguments"] = list(replaced.arguments)
    return line


def _lines_of(turns: Iterable[Turn]) -> list[dict[str, Any]]:
    """Return the lines of turns. A list: all that is held is written with every snapshot."""
    lines: list[dict[str, Any]] = []
    for turn in turns:
        head = {"turn": turn.number}
        for block in turn.blocks:
            if isinstance(block, Step):
                lines.append(_message(block.reply, head))
                lines += [_message(result, head) for result in block.results]
            else:
                lines.append(_message(block, head))
        if turn.outcome != "answered" or turn.error:
            outcome = {"role": "outcome", "outcome": turn.outcome, "error": turn.error}
            lines.append(head | outcome)
    return lines


def _open_turn_lines(turn: OpenTurn | None) -> Iterator[dict[str, Any]]:
    if turn is None:
        return
    head = {"turn": turn.number}
    opened: dict[str, Any] = {**head, "role": "opened", "at": utc_text(turn.started_at)}
    if turn.broken:
        opened["broken"] = list(turn.broken)
    if turn.delivers:
        opened["delivers"] = True
    if turn.retried_steps:
        opened["retried_steps"] = turn.retried_steps
    if turn.sent_files:
        opened["sent_files"] = True
    if turn.outage is not None:
        opened["outage"] = _outage(turn.outage)
    if turn.told_of_outage:
        opened["told_of_outage"] = True
    if turn.told_of_drops:
        opened["told_of_drops"] = True
    if turn.preview_step or turn.preview_id:
        opened |= {"preview_step": turn.preview_step, "preview_id": turn.preview_id}
    yield opened
    for message in _messages(turn.blocks):
        yield _message(message, head)
    step = turn.step
    if step is None:
        return
    started = {**head, "role": "step", "started": list(step.started)}
    approvals = [_approval(each) for each in step.approvals.values()]
    yield {**started, "approvals": approvals} if approvals else started
    if step.reply is not None:
        yield _message(step.reply, head)
    for result in step.results.values():
        yield _message(result, head)


def _outage(outage: Outage) -> dict[str, Any]:
    return {
        "attempts": outage.attempts,
        "since": utc_text(outage.since),
        "failed_at": utc_text(outage.failed_at),
        "retry_at": utc_text(outage.retry_at),
        "give_up_at": utc_text(outage.give_up_at),
        "error": outage.error,
    }


def _approval(approval: Approval) -> dict[str, Any]:
    line = {
        "call_id": approval.call_id,
        "arguments_hash": approval.arguments_hash,
        "expires_at": utc_text(approval.expires_at),
        "reason": approval.reason,
        "pattern": approval.pattern,
        "approvers": list(approval.approvers),
        "settled": approval.resolution or "",
        "by": approval.by,
    }
    # Left out where there are none: then a version that knows no such field reads it as well.
    return {**line, "files": [_fields(each) for each in approval.files]} if approval.files else line


def _messages(blocks: Iterable[UserMessage | Step]) -> Iterator[UserMessage | Reply | ToolResult]:
    for block in blocks:
        if isinstance(block, Step):
            yield from block.messages
        else:
            yield block


def _message(message: UserMessage | Reply | ToolResult, head: dict[str, Any]) -> dict[str, Any]:
    """Return a message as the mapping of its line; fields that hold their default are left out."""
    match message:
        case UserMessage():
            line = {**head, "role": "user", "seq": message.seq, "text": message.text}
            if message.sender:
                line["sender"] = message.sender
            if message.attachments:
                line["attachments"] = [_fields(each) for each in message.attachments]
            if message.untrusted:
                line["untrusted"] = True
            if message.reply_to:
                line["reply_to"] = message.reply_to
            if message.joins != "all":
                line["joins"] = message.joins
            if message.quiet:
                line["quiet"] = True
            if message.retry_for_s >= 0:
                line["retry_for_s"] = message.retry_for_s
        case Reply():
            line = {**head, "role": "assistant", "seq": message.seq, "text": message.text}
            if message.reasoning:
                line["reasoning"] = message.reasoning
            if message.calls:
                line["calls"] = [_call(call) for call in message.calls]
            if message.usage != _NO_USAGE:
                line["usage"] = _usage(message.usage)
            if message.stop_reason != "stop":
                line["stop_reason"] = message.stop_reason
            if message.model:
                line["model"] = message.model
            if message.opaque:
                line["opaque"] = message.opaque
            if message.fallback:
                line["fallback"] = message.fallback
            if message.outside:
                line["outside"] = list(message.outside)
            if message.retells:
                line["retells"] = True
        case ToolResult():
            line = {
                **head,
                "role": "tool",
                "seq": message.seq,
                "call_id": message.call_id,
                "name": message.name,
                "text": message.text,
            }
            if message.is_error:
                line["is_error"] = True
            if message.path:
                line["path"] = message.path
            if message.untrusted:
                line["untrusted"] = True
            if message.source:
                line["source"] = message.source
            if message.is_refused:
                line["is_refused"] = True
        case _:
            assert_never(message)
    return line


_NO_USAGE = Usage()


def _call(call: ToolCall) -> dict[str, str]:
    return {"call_id": call.call_id, "name": call.name, "arguments": call.arguments}


def _usage(usage: Usage) -> dict[str, int]:
    values = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
    }
    if usage.cache_written_tokens:
        values["cache_written_tokens"] = usage.cache_written_tokens
    if usage.cost_nanodollars:
        values["cost_nanodollars"] = usage.cost_nanodollars
    return values


def _summary(summary: Summary) -> dict[str, Any]:
    line = _fields(summary)
    outside = line.pop("outside")
    return {**line, "outside": list(outside)} if outside else line


def _fields(value: Attachment | FileDigest | PromptFingerprint | Summary) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


_EMPTY = {
    "reductions": _reductions(Reductions()),
    "fingerprint": _fields(PromptFingerprint()),
    "reported": _usage(_NO_USAGE),
    "cache_misses": 0,
    "archive": None,
    "principal": "",
    "shared_with": list[str](),
}
"What fields of the header hold in most sessions; those are then left out."


def _json(value: object) -> bytes:
    """Return `value` as JSON that is YAML too."""
    try:
        data = orjson.dumps(value)
    except TypeError:  # lone surrogates, which UTF-8 cannot hold
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return _HOSTILE_TEXT.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()
    if data.isascii() and b"\x7f" not in data:
        return data
    return _HOSTILE_BYTES.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), data)
