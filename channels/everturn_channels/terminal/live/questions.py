"""Calls that wait for the person at this terminal, answered by one key or by a line. Pure."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from everturn_actors.events import ApprovalAsked, ApprovalDecided, TurnFinished
from everturn_actors.model import Decision, Inquiry
from everturn_actors.service import TextDelta, Update
from everturn_channels.names import visible
from everturn_channels.terminal.live.prompt import Asked

_KEYS: Final[dict[str, Decision]] = {"y": "allow_once", "a": "allow_always", "n": "deny"}
_CHOICES_MAX: Final = 9  # that one key can name


class Answered(Struct, frozen=True, kw_only=True):
    """What somebody decided about a call."""

    call_id: str
    arguments_hash: str
    "Of what was shown."
    decision: Decision
    answer: str = ""


class OpenQuestions:
    """The calls that wait, oldest first: the first one is asked about."""

    def __init__(self) -> None:
        self._open: list[ApprovalAsked] = []
        self._since_s = 0.0

    def read(self, update: Update, now_s: float) -> None:
        """Take an update: something is asked, or was answered."""
        if isinstance(update, TextDelta):
            return
        before = self._first
        match update.body:
            case ApprovalAsked() as asked:
                self._open.append(asked)
            case ApprovalDecided(call_id=call_id):
                self._open = [each for each in self._open if each.call_id != call_id]
            case TurnFinished():
                self._open.clear()
            case _:
                pass
        if self._first is not before:
            self._since_s = now_s  # each question has its own moment in which no key counts

    def clear(self) -> None:
        """Forget them: another session is shown."""
        self._open.clear()

    @property
    def asked(self) -> Asked | None:
        """What to show at the prompt, and which keys answer it."""
        first = self._first
        if first is None:
            return None
        if first.inquiry is not None:
            return Asked(
                text=f"  {_inquired(first.inquiry)}",
                keys="".join(map(str, range(1, _numbered(first.inquiry) + 1))),
                since_s=self._since_s,
            )
        always = f", [a]lways {visible(first.pattern)}" if first.pattern else ""
        return Asked(
            text=f"  allow it? [y]es, once{always}, [n]o",
            keys="yan" if first.pattern else "yn",
            since_s=self._since_s,
        )

    def pressed(self, key: str) -> Answered | None:
        """Return what a key decides; None where it decides nothing."""
        first = self._first
        if first is None:
            return None
        if first.inquiry is not None:
            is_choice = key.isdecimal() and 1 <= int(key) <= _numbered(first.inquiry)
            return _answered(first, "answer", key) if is_choice else None
        decision = _KEYS.get(key)
        return None if decision is None else self.decided(decision)

    def decided(self, decision: Decision) -> Answered | None:
        """Return what a decision in a word is about; None where no call waits to be allowed."""
        first = self._first
        if first is None or first.inquiry is not None:
            return None
        if decision == "allow_always" and not first.pattern:
            return None
        return _answered(first, decision)

    def typed(self, text: str) -> Answered | None:
        """Return the answer that a line is to what the agent asks; None where it is a message."""
        first = self._first
        if first is None or first.inquiry is None or first.inquiry.read(text) is None:
            return None
        return _answered(first, "answer", text.strip())

    @property
    def hint(self) -> str:
        """What to say of a line that is no answer; empty = a message may stand in its place."""
        inquiry = self._first.inquiry if self._first is not None else None
        if inquiry is None or inquiry.takes_text:
            return ""
        return f"(answer 1-{len(inquiry.choices)}; /deny: none; /stop ends the turn)"

    @property
    def _first(self) -> ApprovalAsked | None:
        return self._open[0] if self._open else None


def _answered(asked: ApprovalAsked, decision: Decision, answer: str = "") -> Answered:
    return Answered(
        call_id=asked.call_id,
        arguments_hash=asked.arguments_hash,
        decision=decision,
        answer=answer,
    )


def _numbered(inquiry: Inquiry) -> int:
    """Return how many choices a key names: none where there are more than keys."""
    count = len(inquiry.choices)
    return count if count <= _CHOICES_MAX else 0


def _inquired(inquiry: Inquiry) -> str:
    how = [f"1-{len(inquiry.choices)}"] if inquiry.choices else []
    how += ["a text and Enter"] if inquiry.takes_text else []
    return f"your answer: {' or '.join(how)}; /deny: none"
