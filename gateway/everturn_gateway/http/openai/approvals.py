"""Calls that wait for a person: asked about in an answer, and answered by a message. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from everturn_actors.events import ApprovalAsked
from everturn_actors.model import Approval, Decision, Inquiry, ToolCall
from everturn_channels.delivery.words import call_text, default_text, files_text, inquiry_text
from everturn_channels.names import visible
from everturn_channels.texts import DECISION_WORDS
from everturn_gateway.http.openai.refusals import refuse

_SIGN: Final = "answer in this chat with"
"Stands in each question, and tells it from what an agent says."
_REPLY: Final = re.compile(r"/?([a-z]{1,8})[.!]?(?:\s+(\S{1,200}))?", re.IGNORECASE)


class ApprovalReply(Struct, frozen=True):
    """What a message says to a question."""

    decision: Decision
    call_id: str
    "The call that it names; empty = it names none."


def decision_in(text: str) -> ApprovalReply | None:
    """Return the answer that a message is: `yes`, `deny call_1`; None where it is none."""
    found = _REPLY.fullmatch(text.strip())
    decision = DECISION_WORDS.get(found[1].lower()) if found else None
    return ApprovalReply(decision, found[2] or "") if found and decision else None


def is_question(text: str) -> bool:
    """Whether an answer of the gateway holds a question."""
    return _SIGN in text


def asked_about(reply: ApprovalReply, waiting: Collection[Approval]) -> Approval | None:
    """Return the approval that a reply is about; None where it is about none: `yes, please`.

    Raises:
        ProblemError: It names no call where several wait, or cannot be allowed for good (400).
    """
    fitting = [each for each in waiting if reply.call_id in {"", each.call_id}]
    if not fitting:
        return None
    if len(fitting) != 1:
        calls = ", ".join(each.call_id for each in waiting)
        refuse("messages", f"name the call that you mean, as in 'yes CALL'; what waits: {calls}")
    if reply.decision == "allow_always" and not fitting[0].pattern:
        refuse("messages", "this call can only be allowed once: answer with 'yes' or 'no'")
    return fitting[0]


def question(
    asked: ApprovalAsked, at: datetime, call: ToolCall | None, session_id: str, *, is_caller: bool
) -> str:
    """Return the question whether a call may run, as Markdown.

    Args:
        asked: What is asked.
        at: When.
        call: What it is about.
        session_id: Where.
        is_caller: Whether whoever reads it may answer.
    """
    if asked.inquiry is not None:
        return _inquiry(asked, asked.inquiry, at)
    head, _, arguments = call_text(call).partition("\n\n")
    ticks = max((len(run) for run in re.findall(r"`+", arguments)), default=0)
    fence = "`" * max(3, ticks + 1)
    parts = [f"**{head}**", f"{fence}json\n{arguments}\n{fence}" if arguments else ""]
    parts += [visible(asked.reason.strip()), files_text(asked.files)]
    until = f"{at + timedelta(seconds=asked.timeout_s):%Y-%m-%d %H:%M} UTC"
    always = (
        f", or *always* (every call that fits {visible(asked.pattern)})" if asked.pattern else ""
    )
    command = f"`everturn approve {session_id} {asked.call_id}`"
    if is_caller:
        parts.append(f"Until {until}, {_SIGN} *yes* or *no*{always}. Or run {command}.")
    else:
        parts.append(f"Until {until}, whoever may allow it answers with {command}.")
    return "\n\n".join(filter(None, parts))


def _inquiry(asked: ApprovalAsked, inquiry: Inquiry, at: datetime) -> str:
    """Return what the agent wants to know; whatever is written next is the answer."""
    until = f"{at + timedelta(seconds=asked.timeout_s):%Y-%m-%d %H:%M} UTC"
    ways = " or ".join(("a number", "words") if inquiry.choices else ("words",))
    parts = [inquiry_text(inquiry), visible(asked.reason.strip()), default_text(inquiry)]
    return "\n\n".join(filter(None, (*parts, f"Until {until}, {_SIGN} {ways}.")))
