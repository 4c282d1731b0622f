"""Writes responses as OpenAI's clients read them: whole, or as events of a stream.

Source: https://platform.openai.com/docs/api-reference/responses/object and
/responses-streaming (read 2026-11).
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, Literal, TypeAlias

import orjson
from msgspec import Struct

from everturn_actors.errors import CoreError
from everturn_actors.events import (
    CallsHandedOver,
    Discarded,
    Event,
    ModelReplied,
    SessionEnded,
    TurnFinished,
)
from everturn_actors.model import CallOptions, ToolCall, Usage
from everturn_actors.service import Submission, TextDelta, TurnResult
from everturn_gateway.http.openai.call_ids import given_id
from everturn_gateway.http.openai.questions import (
    APPROVAL_REQUIRED,
    SILENT,
    Questions,
    answer_or_question,
    as_answer,
)
from everturn_gateway.http.problems import Problem
from everturn_gateway.http.sse import WriteNow, message
from everturn_gateway.http.turns import turn_problem
from everturn_gateway.http.waiting import accepted_problem, stopping_problem

Status: TypeAlias = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]

_ID: Final = re.compile(r"resp_([0-9]{8}T[0-9]{9}-[0-9a-f]{8})_([0-9]{1,15})", re.ASCII)
_INCOMPLETE: Final = {
    "length": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    APPROVAL_REQUIRED: APPROVAL_REQUIRED,
}
_ENDS: Final = (TurnFinished, SessionEnded, Discarded, CallsHandedOver)


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

    def __init__(self, submission: Submission, about: About) -> None:
        """Begin with nothing said."""
        self._id = response_id(submission.session_id, submission.seq)
        self._submission, self._about = submission, about
        self.questions = about.questions
        "What is told of calls that wait to be allowed."
        self.has_form = bool(about.options.response_format)
        "Whether the answer is held against a form: nothing of it is shown before."
        self._output: list[dict[str, Any]] = []
        self._said: list[str] | None = None
        "What was said of the text that is being written; None = none is."
        self._reply_seq = 0
        self._sequence = -1
        self._around = (b"", b"")
        "What stands around number and text in the event of a piece of the text that is written."

    def _leaves_out(self, delta: TextDelta) -> bool:
        """Whether a piece of text is not shown as it comes."""
        return self.has_form or delta.step <= self.questions.steps

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
        if self._leaves_out(delta):
            return True
        if self._said is None or not delta.offset or not delta.text:
            return False  # it is not only a piece
        if write_now(self._piece(delta.text)):
            return True
        self._said.pop()
        self._sequence -= 1
        return False

    def _piece(self, text: str) -> bytes:
        """Return the event of a piece of the text that is written."""
        assert self._said is not None
        self._said.append(text)
        self._sequence += 1
        return b"%b%d%b%b}\n\n" % (
            self._around[0],
            self._sequence,
            self._around[1],
            orjson.dumps(text),
        )

    def replied(self, body: ModelReplied, seq: int) -> bytes:
        """Return the events that end the text of a reply."""
        self._reply_seq = seq
        if self.has_form and body.calls:
            return b""
        if self._said is None and not body.text:
            return b""
        if self._said is None:  # nothing of it was shown as it came
            return self._whole_text(body.text)
        return self._close_text(body.text, "completed")

    def question(self, text: str) -> bytes:
        """Return a question as an item of its own."""
        data = b"" if self._said is None else self._close_text("".join(self._said), "incomplete")
        return data + self._whole_text(text)

    def note(self, event: Event, question: str) -> None:
        """Take an event, and the question that it asks, where nobody is shown how it grows."""
        if question:
            self.question(question)
        elif isinstance(event.body, ModelReplied):
            self.replied(event.body, event.seq)

    def end(self, result: TurnResult) -> bytes:
        """Return what ends a stream."""
        data = b""
        for call in result.handed_over:
            data += self._call(given_id(result.session_id, result.message_seq, call.call_id), call)
        whole = self.ended(result)
        return data + self._event(f"response.{_NAMES[whole['status']]}", response=whole)

    def failed(self, problem: Problem) -> bytes:
        """Return what ends a stream that cannot go on."""
        return self._event(
            "response.failed", response=self.whole("failed", error=problem.detail or problem.title)
        )

    def _open_text(self) -> bytes:
        self._said = []
        item = _text_item(self._item_id(), "", "in_progress")
        self._output.append(item)
        kind = "response.output_text.delta"
        place = orjson.dumps({**self._place(), "logprobs": []})[1:-1]
        begins = b'event: %b\ndata: {"type":"%b","sequence_number":' % ((kind.encode(),) * 2)
        self._around = (begins, b',%b,"delta":' % place)
        added = self._event(
            "response.output_item.added",
            output_index=len(self._output) - 1,
            item={**item, "content": []},
        )
        return added + self._event("response.content_part.added", **self._place(), part=_part(""))

    def _whole_text(self, text: str) -> bytes:
        return self._open_text() + self._piece(text) + self._close_text(text, "completed")

    def _close_text(self, text: str, status: str) -> bytes:
        place = self._place()
        item = self._output[-1] = _text_item(str(place["item_id"]), text, status)
        self._said = None
        return (
            self._event("response.output_text.done", **place, text=text, logprobs=[])
            + self._event("response.content_part.done", **place, part=_part(text))
            + self._event(
                "response.output_item.done", output_index=len(self._output) - 1, item=item
            )
        )

    def _call(self, call_id: str, call: ToolCall) -> bytes:
        item: dict[str, Any] = {
            "type": "function_call",
            "id": f"fc_{self._id[5:]}_{len(self._output)}",
            "call_id": call_id,
            "name": call.name,
            "arguments": call.arguments,
            "status": "completed",
        }
        index = len(self._output)
        self._output.append(item)
        begun = {**item, "arguments": "", "status": "in_progress"}
        place = {"item_id": item["id"], "output_index": index}
        return (
            self._event("response.output_item.added", output_index=index, item=begun)
            + self._event("response.function_call_arguments.delta", **place, delta=call.arguments)
            + self._event(
                "response.function_call_arguments.done",
                **place,
                name=call.name,
                arguments=call.arguments,
            )
            + self._event("response.output_item.done", output_index=index, item=item)
        )

    def _item_id(self) -> str:
        return f"msg_{self._id[5:]}_{len(self._output)}"

    def _place(self) -> dict[str, object]:
        item = self._output[-1]
        return {
            "item_id": item["id"],
            "output_index": len(self._output) - 1,
            "content_index": 0,
        }

    def _event(self, kind: str, **fields: object) -> bytes:
        self._sequence += 1
        return message(kind, {"type": kind, "sequence_number": self._sequence, **fields})


_NAMES: Final = {
    "completed": "completed",
    "incomplete": "incomplete",
    "failed": "failed",
    "cancelled": "failed",
}


async def events(
    submission: Submission, writer: ResponseWriter, write_now: WriteNow
) -> AsyncGenerator[bytes]:
    """Yield a streamed response, to the end of its turn or until its client is needed."""

    def take(delta: TextDelta) -> bool:
        return writer.take(delta, write_now)

    yield writer.begin()
    asked = writer.questions.begin(submission.session_id)
    try:
        async with aclosing(submission.updates(final=True, take=take)) as updates:
            async for update in updates:
                if isinstance(update, TextDelta):
                    if not writer.has_form and not writer.questions.is_shown(update):
                        yield writer.text(update)
                elif text := asked.read(update):
                    yield writer.question(text)
                    if asked.ends:
                        yield writer.end(as_answer(submission))
                        return
                elif isinstance(update.body, ModelReplied):
                    if asked.is_new(update):
                        yield writer.replied(update.body, update.seq)
                elif isinstance(update.body, _ENDS):
                    yield writer.end(await submission.result())
                    return
        yield writer.failed(stopping_problem(submission))
    except CoreError as error:
        yield writer.failed(accepted_problem(error, submission))


async def followed(submission: Submission, writer: ResponseWriter) -> TurnResult:
    """Have a writer take all of a turn, to its end or a question; return how it came out.

    Raises:
        CoreError: See `Submission.result`.
    """
    result = await answer_or_question(submission, writer.questions, writer.note)
    writer.end(result)
    return result


def _text_item(item_id: str, text: str, status: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": item_id,
        "role": "assistant",
        "status": status,
        "content": [_part(text)],
    }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _choice(choice: str) -> object:
    if choice in {"", "none", "required"}:
        return choice or "auto"
    return {"type": "function", "name": choice}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
