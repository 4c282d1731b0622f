"""What binds a button below a question to one call of one session. Pure.

A button may be clicked long after its question was settled, or after a restart: what it carries
names the session, the call, the arguments that were shown and when it was asked, and nothing else
fits it. A choice is named by its number: the choices are arguments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from everturn_actors.model import Approval, Decision
from everturn_actors.state.serialization import utc_text
from everturn_actors.state.session_state import SessionState

_LETTERS: Final[Mapping[Decision, str]] = MappingProxyType(
    {"allow_once": "o", "allow_always": "a", "deny": "d"}
)
_DECISIONS: Final[Mapping[str, Decision]] = MappingProxyType(
    {letter: decision for decision, letter in _LETTERS.items()}
)
_DATA: Final = re.compile(r"ap:([oad]|[0-9]{1,2}):([0-9a-f]{16})")


class ButtonDecision(Struct, frozen=True, kw_only=True):
    """What a button of a question says."""

    token: str
    "Of the question."
    decision: Decision
    answer: str = ""
    "answer: the number of the choice."


def approval_token(session_id: str, approval: Approval) -> str:
    """Return the name of a question, sixteen hex digits: of this call with these arguments.

    A call that is asked about anew, because what it would meet has changed, is another question:
    that one expires at another instant.
    """
    expires_at = utc_text(approval.expires_at)
    text = f"{session_id}\n{approval.call_id}\n{approval.arguments_hash}\n{expires_at}"
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def button_data(decision: Decision, token: str) -> str:
    """Return what the button of one answer carries: `ap:o:`, `ap:a:` or `ap:d:` and the token."""
    return f"ap:{_LETTERS[decision]}:{token}"


def choice_data(number: int, token: str) -> str:
    """Return what the button of a choice carries: `ap:`, its number from 1, and the token."""
    return f"ap:{number}:{token}"


def read_button(data: str) -> ButtonDecision | None:
    """Return what a button says; None where it is no button of a question."""
    found = _DATA.fullmatch(data)
    if found is None:
        return None
    if found[1].isdecimal():
        return ButtonDecision(token=found[2], decision="answer", answer=found[1])
    return ButtonDecision(token=found[2], decision=_DECISIONS[found[1]])


def find_question(state: SessionState, token: str) -> Approval | None:
    """Return the question with this token, settled or not; None where it is no longer open.

    A question is open as long as the step whose call it asks about.
    """
    step = state.open_turn.step if state.open_turn else None
    asked = step.approvals.values() if step else ()
    named = (each for each in asked if approval_token(state.session_id, each) == token)
    return next(named, None)
