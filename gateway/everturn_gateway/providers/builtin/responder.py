"""The responder itself: calls a tool, tells what came of it, or answers from the conversation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Final

import anyio.lowlevel

from everturn_actors.model import (
    AnyMessage,
    ModelRequest,
    Notice,
    Reply,
    ToolCall,
    ToolResult,
    UserMessage,
)
from everturn_gateway.providers.builtin.results import told
from everturn_gateway.providers.builtin.talk import answer, wish_of
from everturn_gateway.providers.builtin.wishes import Wanted, wished

MODEL_NAME: Final = "builtin"


class BuiltinResponder:
    """A `ModelProvider` without a model."""

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the reply; hand it on word by word, as a model would."""
        reply = reply_to(request)
        for word in words(reply.text):
            # Others get their turn between two words: this costs time only where they need it.
            await anyio.lowlevel.checkpoint()
            on_text(word)
        return reply


def words(text: str) -> list[str]:
    """Cut a text into pieces of one word each, the blanks kept."""
    return re.findall(r"\s*\S+(?:\s+$)?", text)


def reply_to(request: ModelRequest) -> Reply:
    """Return the reply to `request`; the same one every time.

    A wish is fulfilled in as many steps as its plan has, at most two: each reply with calls in the
    present turn is one of them. An error ends it. So no turn goes on for ever.
    """
    user, since = _present(request.messages)
    if user is None:
        return _said(answer(request))
    plan = wished(wish_of(user.text), request)
    if plan.answer:
        return _said(plan.answer)
    steps = [message for message in since if isinstance(message, Reply) and message.calls]
    results = [message for message in since if isinstance(message, ToolResult)]
    failed = any(result.is_error for result in results)
    if len(steps) < len(plan.steps) and not failed:
        return _calling(plan.steps[len(steps)], user, len(steps), request)
    return _said(told(results, plan) if results else answer(request))


def _present(messages: Sequence[AnyMessage]) -> tuple[UserMessage | None, list[AnyMessage]]:
    """Return the newest user message, and what came after it."""
    since: list[AnyMessage] = []
    for message in reversed(messages):
        match message:
            case UserMessage():
                return message, since[::-1]
            case Notice():
                pass
            case _:
                since.append(message)
    return None, since[::-1]


def _calling(
    wanted: Sequence[Wanted], user: UserMessage, step: int, request: ModelRequest
) -> Reply:
    # The number of the message in the log, where it has one, so that no other turn has these ids.
    place = user.seq or len(request.messages)
    calls = tuple(
        ToolCall(
            call_id=f"builtin_{place}_{step + 1}_{number}",
            name=each.tool,
            arguments=json.dumps(each.arguments, ensure_ascii=False),
        )
        for number, each in enumerate(wanted, start=1)
    )
    return Reply(calls=calls, stop_reason="tool_calls", model=MODEL_NAME)


def _said(text: str) -> Reply:
    return Reply(text=text, model=MODEL_NAME)
