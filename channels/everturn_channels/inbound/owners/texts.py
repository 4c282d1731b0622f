"""The short texts that owners get in private. Pure; all of them are Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from everturn_actors.model import ConversationKey, Decision
from everturn_actors.ports import SessionSummary
from everturn_channels.access.pairing import Request
from everturn_channels.menu import OWNER_COMMANDS
from everturn_channels.texts import code_span, help_text

NO_QUESTIONS: Final = "No question waits for an answer."
NO_SUCH_QUESTION: Final = (
    "No open question has this code; /questions shows them. "
    "Write `/approve CODE`, `/approve CODE always` or `/deny CODE`."
)
NO_SUCH_ANSWER: Final = "That is none of the answers. Write `/approve CODE NUMBER`."
NO_SUCH_CODE: Final = "Nobody waits with this code; /pair shows who does."
NOT_FOR_GOOD: Final = "This cannot be allowed for good, only this once."
PAIRING_FAILS: Final = "The list of paired people cannot be read or written; the log says why."
NO_SUCH_SESSION: Final = "There is no such session; /sessions shows the newest."
IN_PRIVATE: Final = "Please write this to me in private."


def owner_help_text() -> str:
    """Answer an owner's /help: the commands of everybody, and those of owners."""
    own = [
        f"- /{name}{f' {code_span(use)}' if use else ''} - {what}"
        for name, use, what in OWNER_COMMANDS
    ]
    return "\n".join([help_text(), "", "As an owner, in this private chat:", "", *own])


def questions_text(count: int, shown: int) -> str:
    """Return what stands above a list of questions."""
    waits = "1 question waits" if count == 1 else f"{count} questions wait"
    rest = f" These are the {shown} that expire first." if shown < count else ""
    return f"{waits} for an answer.{rest}"


def decided_text(decision: Decision, agent: str) -> str:
    """Return what an owner's answer to a question did."""
    done = {
        "allow_once": "Allowed, this once",
        "allow_always": "Allowed from now on",
        "deny": "Not allowed",
        "answer": "Answered",
    }
    return f"{done[decision]}: {code_span(agent)} goes on."


def requests_text(waiting: Sequence[Request], count: int) -> str:
    """Return who waits to be let in. Names are what people call themselves."""
    if not waiting:
        return "Nobody waits to be let in."
    lines = [
        f"- `/pair {each.code}` {code_span(each.name or '?')}, {code_span(each.sender_id)} on "
        f"{each.channel}, until {each.expires_at:%H:%M} UTC"
        for each in waiting
    ]
    more = [f"- and {count - len(waiting)} more"] if count > len(waiting) else []
    return "\n".join([*lines, *more])


def paired_text(person: Request) -> str:
    """Return who was let in."""
    name = f", {code_span(person.name)}," if person.name else ""
    return f"Done: {code_span(person.sender_id)}{name} may talk to me on {person.channel} now."


def sessions_text(rows: Sequence[SessionSummary]) -> str:
    """Return which conversations go on, the one that began last in front."""
    if not rows:
        return "There is no session."
    return "\n".join(
        f"- `{row.session_id}` {code_span(row.key.agent)} in {_where(row.key)}, "
        f"{row.status}, last at {row.updated_at:%Y-%m-%d %H:%M} UTC"
        for row in rows
    )


def reset_text(key: ConversationKey) -> str:
    """Return which conversation is over."""
    return f"Done: the conversation of {code_span(key.agent)} in {_where(key)} is over."


def _where(key: ConversationKey) -> str:
    return code_span(" ".join(filter(None, (key.channel, key.chat, key.topic))))
