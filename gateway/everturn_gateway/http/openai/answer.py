"""Writes chat completions as OpenAI's clients read them.

Source: https://platform.openai.com/docs/api-reference/chat/object (read 2026-11).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

import orjson
from msgspec import Struct

from everturn_actors.errors import CoreError
from everturn_actors.events import CallsHandedOver, Discarded, SessionEnded, TurnFinished
from everturn_actors.json_values import Json
from everturn_actors.model import Usage
from everturn_actors.service import Submission, TextDelta, TurnResult
from everturn_gateway.http.openai.call_ids import given_id
from everturn_gateway.http.openai.questions import (
    APPROVAL_REQUIRED,
    SILENT,
    Questions,
    as_answer,
)
from everturn_gateway.http.problems import Problem, openai_error
from everturn_gateway.http.sse import WriteNow
from everturn_gateway.http.turns import turn_problem
from everturn_gateway.http.waiting import accepted_problem, stopping_problem

_FINISH: Final = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}
_DONE: Final = b"data: [DONE]\n\n"
_BETWEEN_STEPS: Final = "\n\n"
_NO_NAME: Final = "\0"  # stands in no name of an agent


class Completion(Struct, frozen=True, kw_only=True):
    """What all parts of one completion share."""

    completion_id: str
    created: int
    "Unix time in seconds."
    model: str
    include_usage: bool = False
    has_form: bool = False
    """Whether the answer has a form that is checked. Nothing of it is shown before: what was shown
    cannot be taken back."""
    questions: Questions = SILENT
    "What is told of calls that wait to be allowed."

    def whole(self, result: TurnResult) -> Json:
        """Return the completion of a turn that is answered, or waits for its client's tools."""
        message: dict[str, object] = {"role": "assistant", "content": result.text, "refusal": None}
        if self.has_form and result.stop_reason == APPROVAL_REQUIRED:
            # It is not of the form, and clients read the content as if it were.
            message |= {"content": None, "refusal": result.text}
        if result.handed_over:
            message |= {"content": result.text or None, "tool_calls": _tool_calls(result)}
        return {
            "id": self.completion_id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "logprobs": None,
                    "finish_reason": _finish(result),
                }
            ],
            "usage": _usage(result.usage),
        }

    def chunk(self, delta: Json, finish_reason: str | None = None) -> bytes:
        """Return one piece of a streamed completion."""
        choice: dict[str, object] = {
            "index": 0,
            "delta": delta,
            "logprobs": None,
            "finish_reason": finish_reason,
        }
        return self._data([choice], None)

    def text_chunks(self) -> Callable[[str], bytes]:
        """Return what writes the chunk of a piece of text, around which nothing changes."""
        head, _, tail = self.chunk({"content": _NO_NAME}).partition(orjson.dumps(_NO_NAME))
        return lambda text: b"%b%b%b" % (head, orjson.dumps(text), tail)

    def last_chunks(self, result: TurnResult) -> bytes:
        """Return what ends a streamed completion."""
        end = b""
        if self.has_form and result.text:
            end += self.chunk({"content": result.text})
        if result.handed_over:
            calls = [{"index": i, **call} for i, call in enumerate(_tool_calls(result))]
            end += self.chunk({"tool_calls": calls})
        end += self.chunk({}, _finish(result))
        if self.include_usage:
            end += self._data([], _usage(result.usage))
        return end + _DONE

    def _data(self, choices: list[dict[str, object]], usage: dict[str, object] | None) -> bytes:
        chunk: dict[str, object] = {
            "id": self.completion_id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }
        if self.include_usage:
            chunk["usage"] = usage
        return b"data: %b\n\n" % orjson.dumps(chunk)


def _finish(result: TurnResult) -> str:
    return "tool_calls" if result.handed_over else _FINISH.get(result.stop_reason, "stop")


def _tool_calls(result: TurnResult) -> list[dict[str, object]]:
    """Return the calls that the client runs."""
    return [
        {
            "id": given_id(result.session_id, result.message_seq, call.call_id),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in result.handed_over
    ]


def _usage(usage: Usage) -> dict[str, object]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


async def created_at(submission: Submission) -> int:
    """Return when the message was accepted, in Unix seconds."""
    if submission.accepted_at is not None:
        return int(submission.accepted_at.timestamp())
    async with aclosing(submission.updates()) as updates:
        async for update in updates:
            if not isinstance(update, TextDelta):
                return int(update.at.timestamp())
    return 0


async def chunks(
    submission: Submission, completion: Completion, write_now: WriteNow
) -> AsyncGenerator[bytes]:
    """Yield a streamed completion; the texts of several steps follow each other as paragraphs.

    These clients can take nothing back: where a reply begins anew, so does a paragraph.
    """
    said, written = False, completion.text_chunks()

    def piece(delta: TextDelta) -> bytes:
        return written((_BETWEEN_STEPS if said and delta.offset == 0 else "") + delta.text)

    def is_left_out(delta: TextDelta) -> bool:
        return completion.has_form or completion.questions.is_shown(delta)

    def take(delta: TextDelta) -> bool:
        nonlocal said
        if is_left_out(delta):
            return True
        if delta.text and not write_now(piece(delta)):
            return False
        said = said or bool(delta.text)
        return True

    def spoken(text: str) -> bytes:
        nonlocal said
        before, said = _BETWEEN_STEPS if said else "", True
        return written(before + text)

    yield completion.chunk({"role": "assistant", "content": "", "refusal": None})
    asked = completion.questions.begin(submission.session_id)
    try:
        async with aclosing(submission.updates(final=True, take=take)) as updates:
            async for update in updates:
                if isinstance(update, TextDelta):
                    if update.text and not is_left_out(update):
                        chunk, said = piece(update), True
                        yield chunk
                elif (text := asked.read(update)) and asked.is_new(update):
                    # A form leaves no room for other words in the text.
                    has_form = completion.has_form
                    yield completion.chunk({"refusal": text}) if has_form else spoken(text)
                    if asked.ends:
                        yield completion.last_chunks(as_answer(submission))
                        return
                elif isinstance(
                    update.body, (TurnFinished, SessionEnded, Discarded, CallsHandedOver)
                ):
                    yield await _end(submission, completion)
                    return
        yield farewell(submission)
    except CoreError as error:
        yield _error(accepted_problem(error, submission))


async def _end(submission: Submission, completion: Completion) -> bytes:
    result = await submission.result()
    problem = turn_problem(result)
    return completion.last_chunks(result) if problem is None else _error(problem)


def farewell(submission: Submission) -> bytes:
    """Return what a stopping server says to a client whose turn is not done."""
    return _error(stopping_problem(submission))


def _error(problem: Problem) -> bytes:
    return b"data: %b\n\n" % orjson.dumps(openai_error(problem))
