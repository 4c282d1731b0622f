"""Writes responses as OpenAI's clients read them: whole, or as events of a stream.

Source: https://platform.openai.com/docs/api-reference/responses/object and
/responses-streaming (read 2026-11).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import orjson
from msgspec import Struct

from everturn_actors.events import Event, ModelReplied, ReplyBroken
from everturn_actors.model import CallOptions, ToolCall, Usage
from everturn_actors.service import Submission, TextDelta, TurnResult
from everturn_gateway.http.openai.call_ids import given_id
from everturn_gateway.http.openai.questions import APPROVAL_REQUIRED, SILENT, Questions
from everturn_gateway.http.problems import Problem
from everturn_gateway.http.sse import WriteNow, message
from everturn_gateway.http.turns import turn_problem

Status: TypeAlias = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]

_ID: Final = re.compile(r"resp_([0-9]{8}T[0-9]{9}-[0-9a-f]{8})_([0-9]{1,15})", re.ASCII)
_INCOMPLETE: Final = {
    "length": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    APPROVAL_REQUIRED: APPROVAL_REQUIRED,
}
_BEFORE: Final = 2
"Events of an item before its text."
_AROUND: Final = _BEFORE + 3
"Events of an item beside the pieces of its text."


def response_id(session_id: str, seq: int) -> str:
    """Return the id of the response to the message at event `seq`."""
    return f"resp_{session_id}_{seq}"


def place_of(given: str) -> tuple[str, int] | None:
    """Return session and event of a response's id; None for what is none."""
    found = _ID.fullmatch(given)
    return (found[1], int(found[2])) if found else None


class About(Struct, frozen=True, kw_only=True):
    """What a response says of its request."""

    created: int
    "Unix time in seconds."
    model: str
    options: CallOptions
    previous: str = ""
    conversation: str = ""
    is_stored: bool = True
    in_background: bool = False
    metadata: dict[str, str] = {}
    questions: Questions = SILENT
    "What is told of calls that wait to be allowed."


class ResponseWriter:
    """Makes one response, event by event."""

    def __init__(self, submission: Submission, about: About, *, after: int = -1) -> None:
        """Begin with nothing said.

        Args:
            submission: The message that is answered.
            about: What the response says of its request.
            after: The number of the last event that a client has; it is sent those behind it. An
                event has the same number whenever it is made: what is in the log counts, and of
                a text its characters, in whatever pieces it comes.
        """
        self._id = response_id(submission.session_id, submission.seq)
        self._about = about
        self.questions = about.questions
        "What is told of calls that wait to be allowed."
        self.has_form = bool(about.options.response_format)
        "Whether the answer is held against a form: nothing of it is shown before."
        self._output: list[dict[str, object]] = []
        self._said: list[str] | None = None
        "What was said of the text that is being written; None = none is."
        self._sequence, self._after = -1, after
        self._text_begin = 0
        "The number before the first piece of the text that is written; each character counts one."
        self._around = (b"", b"")
        "What stands around number and text in the event of a piece of the text that is written."

    # --- whole ---

    def whole(
        self,
        status: Status,
        *,
        usage: Usage | None = None,
        error: str = "",
        incomplete: str = "",
    ) -> dict[str, Any]:
        """Return the response with what it has so far."""
        about, options = self._about, self._about.options
        form = options.response_format
        if form.get("type") == "json_schema":
            form = {"type": "json_schema", **form["json_schema"]}
        return {
            "id": self._id,
            "object": "response",
            "created_at": about.created,
            "status": status,
            "background": about.in_background,
            "conversation": {"id": about.conversation} if about.conversation else None,
            "error": {"code": "server_error", "message": error} if error else None,
            "incomplete_details": {"reason": incomplete} if incomplete else None,
            "instructions": options.instructions or None,
            "max_output_tokens": options.max_output_tokens,
            "metadata": about.metadata,
            "model": about.model,
            "output": self._output,
            "parallel_tool_calls": options.parallel_calls is not False,
            "previous_response_id": about.previous or None,
            "reasoning": {"effort": options.reasoning_effort, "summary": None},
            "store": about.is_stored,
            "temperature": options.temperature,
            "text": {"format": form or {"type": "text"}},
            "tool_choice": _choice(options.tool_choice),
            "tools": [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                    "strict": False,
                }
                for tool in options.tools
            ],
            "top_p": options.top_p,
            "truncation": "disabled",
            "usage": _usage(usage) if usage is not None else None,
        }

    def ended(self, result: TurnResult) -> dict[str, Any]:
        """Return the response of a turn that is over, or waits for its client's tools."""
        problem = turn_problem(result)
        if problem is not None:
            ended: Status = "cancelled" if result.outcome == "cancelled" else "failed"
            return self.whole(ended, usage=result.usage, error=problem.detail)
        incomplete = _INCOMPLETE.get(result.stop_reason, "") if not result.handed_over else ""
        status: Status = "incomplete" if incomplete else "completed"
        return self.whole(status, usage=result.usage, incomplete=incomplete)

    # --- events ---

    def begin(self) -> bytes:
        """Return what begins a stream."""
        whole = self.whole("in_progress")
        return self._event("response.created", response=whole) + self._event(
            "response.in_progress", response=whole
        )

    def text(self, delta: TextDelta) -> bytes:
        """Return the events of a piece of text; one that begins anew is another item."""
        if not delta.text:
            return b""
        data = b""
        if delta.offset == 0 and self._said:
            data += self._close_text("".join(self._said), "incomplete")
        if self._said is None:
            data += self._open_text()
        return data + self._piece(delta.text)

    def take(self, delta: TextDelta, write_now: WriteNow) -> bool:
        """Write a piece of the text that is being written at once; return whether it was."""
        if self.has_form or delta.step <= self.questions.steps:
            return True  # it is not shown as it comes
        if self._said is None or not delta.offset or not delta.text or self._sequence < self._after:
            return False  # it is not only a piece, or not all of it is sent
        if write_now(self._piece(delta.text)):
            return True
        self._said.pop()
        self._sequence -= len(delta.text)
        return False

    def _piece(self, text: str) -> bytes:
        """Return the event of a piece of the text that is written."""
        assert self._said is not None
        self._said.append(text)
        before = self._sequence
        self._sequence += len(text)
        if before < self._after:  # the client has it, or a part of it
            text = text[self._after - before :]
            if not text:
                return b""
        return b"%b%d%b%b}\n\n" % (
            self._around[0],
            self._sequence,
            self._around[1],
            orjson.dumps(text),
        )

    def holds(self, event: Event, question: str, *, is_new: bool = True) -> bytes:
        """Return what an event of the log holds: a question, or the end of a text.

        Args:
            event: The event.
            question: The question that it asks; empty = none.
            is_new: Whether it is a part of this response; the one before had it otherwise.
        """
        body = event.body
        text = body.text if isinstance(body, ModelReplied | ReplyBroken) else question
        if not is_new:
            self._sequence += len(text) + _AROUND if text else 0
            return b""
        if question:
            return self.question(question)
        if isinstance(body, ModelReplied):
            return self.replied(body)
        if isinstance(body, ReplyBroken) and text and not self.has_form:
            return self._whole_text(text, "incomplete")
        return b""

    def has_begun(self, text: str | None) -> bool:
        """Whether a client has a part of the text that comes next; None = it is not complete."""
        own = self._after - self._sequence - _BEFORE
        return own > 0 and (text is None or own <= len(text))

    def replied(self, body: ModelReplied) -> bytes:
        """Return the events that end the text of a reply."""
        if self.has_form and body.calls:
            return b""
        if self._said is None and not body.text:
            return b""
        return self._whole_text(body.text)

    def question(self, text: str) -> bytes:
        """Return a question as an item of its own."""
        data = b"" if self._said is None else self._close_text("".join(self._said), "incomplete")
        return data + (self._refusal(text) if self.has_form else self._whole_text(text))

    def note(self, event: Event, question: str) -> None:
        """Take an event, and the question that it asks, where nobody is shown how it grows."""
        if question:
            self.question(question)
        elif isinstance(event.body, ModelReplied):
            self.replied(event.body)

    def end(self, result: TurnResult) -> bytes:
        """Return what ends a stream."""
        data = b""
        for call in result.handed_over:
            call_id = given_id(result.session_id, result.message_seq, call.call_id)
            item = _call_item(_item_id("fc", self._id, self._output), call_id, call)
            events = _call_events(item, len(self._output))
            self._output.append(item)
            data += b"".join(self._event(kind, **fields) for kind, fields in events)
        whole = self.ended(result)
        return data + self._end(_NAMES[whole["status"]], whole)

    def failed(self, problem: Problem) -> bytes:
        """Return what ends a stream that cannot go on."""
        return self._end("failed", self.whole("failed", error=problem.detail or problem.title))

    def _open_text(self) -> bytes:
        self._said = []
        item = _text_item(_item_id("msg", self._id, self._output), "", "in_progress")
        self._output.append(item)
        kind = "response.output_text.delta"
        place = orjson.dumps({**_place(self._output), "logprobs": []})[1:-1]
        begins = b'event: %b\ndata: {"type":"%b","sequence_number":' % ((kind.encode(),) * 2)
        self._around = (begins, b',%b,"delta":' % place)
        added = self._event(
            "response.output_item.added",
            output_index=len(self._output) - 1,
            item={**item, "content": []},
        )
        added += self._event("response.content_part.added", **_place(self._output), part=_part(""))
        self._text_begin = self._sequence
        return added

    def _whole_text(self, text: str, status: str = "completed") -> bytes:
        """Return the events of a text, behind those of it that there were as it came."""
        begun = self._open_text() + self._piece(text) if self._said is None else b""
        return begun + self._close_text(text, status)

    def _close_text(self, text: str, status: str) -> bytes:
        place = _place(self._output)
        self._sequence = max(self._sequence, self._text_begin + len(text))
        item = self._output[-1] = _text_item(str(place["item_id"]), text, status)
        self._said = None
        return (
            self._event("response.output_text.done", **place, text=text, logprobs=[])
            + self._event("response.content_part.done", **place, part=_part(text))
            + self._event(
                "response.output_item.done", output_index=len(self._output) - 1, item=item
            )
        )

    def _refusal(self, text: str) -> bytes:
        """Return the events of what is not of the form; clients read each text as if it were."""
        whole = {"type": "refusal", "refusal": text}
        item: dict[str, object] = {
            **_text_item(_item_id("msg", self._id, self._output), "", "completed"),
            "content": [whole],
        }
        self._output.append(item)
        index, place = len(self._output) - 1, _place(self._output)
        begun: dict[str, object] = {**item, "status": "in_progress", "content": []}
        part = {"type": "refusal", "refusal": ""}
        data = self._event("response.output_item.added", output_index=index, item=begun)
        data += self._event("response.content_part.added", **place, part=part)
        self._sequence += len(text) - 1
        return (
            data
            + self._event("response.refusal.delta", **place, delta=text)
            + self._event("response.refusal.done", **place, refusal=text)
            + self._event("response.content_part.done", **place, part=whole)
            + self._event("response.output_item.done", output_index=index, item=item)
        )

    def _event(self, kind: str, **fields: object) -> bytes:
        self._sequence += 1
        if self._sequence <= self._after:
            return b""
        return message(kind, {"type": kind, "sequence_number": self._sequence, **fields})

    def _end(self, name: str, whole: dict[str, object]) -> bytes:
        # Also to a client that has it: a stream without an end is no answer.
        self._after = -1
        return self._event(f"response.{name}", response=whole)


_NAMES: Final = {
    "completed": "completed",
    "incomplete": "incomplete",
    "failed": "failed",
    "cancelled": "failed",
}


def _item_id(kind: str, whole_id: str, output: Sequence[object]) -> str:
    """Return the id of the next item of a response."""
    return f"{kind}_{whole_id[5:]}_{len(output)}"


def _place(output: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return where the text of the newest item stands."""
    return {"item_id": output[-1]["id"], "output_index": len(output) - 1, "content_index": 0}


def _call_item(item_id: str, call_id: str, call: ToolCall) -> dict[str, object]:
    return {
        "type": "function_call",
        "id": item_id,
        "call_id": call_id,
        "name": call.name,
        "arguments": call.arguments,
        "status": "completed",
    }


def _call_events(item: Mapping[str, object], index: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the events of a call that the client is to make: it comes whole."""
    begun = {**item, "arguments": "", "status": "in_progress"}
    place, arguments = {"item_id": item["id"], "output_index": index}, item["arguments"]
    whole = {**place, "name": item["name"], "arguments": arguments}
    yield "response.output_item.added", {"output_index": index, "item": begun}
    yield "response.function_call_arguments.delta", {**place, "delta": arguments}
    yield "response.function_call_arguments.done", whole
    yield "response.output_item.done", {"output_index": index, "item": item}


def _text_item(item_id: str, text: str, status: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": item_id,
        "role": "assistant",
        "status": status,
        "content": [_part(text)],
    }


def _part(text: str) -> dict[str, object]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _choice(choice: str) -> object:
    if choice in {"", "none", "required"}:
        return choice or "auto"
    return {"type": "function", "name": choice}


def _usage(usage: Usage) -> dict[str, object]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
