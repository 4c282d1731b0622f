"""The chats of pages that keep a history of their own, and send all of it with each message. Pure.

People edit there what they said, and have answers made anew. A session knows it by what the page
says was said before: where that is what the session holds, the session goes on; where it is a part
of it, a new one begins behind that part; and what the session never had is told to the new one.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.model import OpenTurn, Turn
from everturn_actors.service import Copied
from everturn_actors.state.session_state import SessionState
from everturn_gateway.http.openai.approvals import decision_in, is_question


class Place(Struct, frozen=True, kw_only=True):
    """Where a page is in a session."""

    goes_on: bool = False
    "It is at its end."
    copied: Copied | None = None
    "The part of it that the page has; None = none of it."
    continuation: tuple[Turn, ...] = ()
    "What came after that, as the page says."


class _Said(Struct, frozen=True, kw_only=True):
    """One message of a user, and what was answered before the next one."""

    text: str
    answers: tuple[str, ...]
    turn: int
    "The turn it is of, as a place in the list of turns."
    seq: int = 0
    is_first: bool = True
    "Whether it begins its turn."


def place_of_page(state: SessionState, before: Sequence[Turn]) -> Place:
    """Return where in a session a page is that says what was said `before` its newest message."""
    turns = (*state.held_turns, *((state.open_turn,) if state.open_turn else ()))
    ours = _said(turns)
    waiting = len(turns)
    ours += [_Said(text=u.text, answers=(), turn=waiting, seq=u.seq) for u in state.waiting]
    theirs = _said(before)
    is_whole = len(turns) == state.turns
    end = _end_of(ours, theirs, is_whole=is_whole)
    if end is None:  # what answered a question is no message of the session
        theirs = _without_words(theirs)
        end = _end_of(ours, theirs, is_whole=is_whole)
    if end == len(ours) and (end or not theirs):
        return Place(goes_on=True)
    told = len(theirs)
    if end is None:  # the page has something else: both share what they begin with, if that
        end = told = _shared(ours, theirs) if is_whole else 0
    while end and end < len(ours) and not ours[end].is_first:
        end, told = end - 1, told - 1
    copied = Copied(session_id=state.session_id, last=ours[end - 1].seq) if end else None
    left = tuple(before[theirs[told].turn :]) if told < len(theirs) else ()
    return Place(copied=copied, continuation=left)


def _end_of(ours: Sequence[_Said], theirs: Sequence[_Said], *, is_whole: bool) -> int | None:
    """Return behind how many of ours the page is; None where what it says is no part of ours."""
    if is_whole and len(theirs) <= len(ours) and _fits(ours[: len(theirs)], theirs):
        return len(theirs)
    if not theirs:
        return 0 if is_whole else None
    # A long history has no beginning any more: of ours in memory, or of theirs in the request.
    for end in range(len(ours), 0, -1):
        length = min(end, len(theirs))
        is_cut = length == len(theirs) or not is_whole
        if is_cut and _fits(ours[end - length : end], theirs[len(theirs) - length :]):
            return end
    return None


def _shared(ours: Sequence[_Said], theirs: Sequence[_Said]) -> int:
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((n for n, pair in pairs if not _is_same(*pair)), min(len(ours), len(theirs)))


def _fits(ours: Sequence[_Said], theirs: Sequence[_Said]) -> bool:
    # The newest differ first.
    return all(map(_is_same, reversed(ours), reversed(theirs)))


def _is_same(our: _Said, their: _Said) -> bool:
    return _is_same_question(our.text, their.text) and _is_same_answer(our.answers, their.answers)


def _is_same_question(our: str, their: str) -> bool:
    # A page puts what it found for a question in front of it, and shows the question alone later.
    return (
        our == their or _without_blanks(our) == _without_blanks(their) or our.endswith("\n" + their)
    )


def _is_same_answer(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether an answer is shown there: all of it, its last step, or as far as it came."""
    if not ours or not theirs or ours[-1] == theirs[-1]:
        return True
    shown = _without_blanks("".join(theirs))
    return _without_blanks(ours[-1]) in shown or _without_blanks("".join(ours)).startswith(shown)


def _without_words(said: Sequence[_Said]) -> list[_Said]:
    """Return what was said without the answers to questions; what follows one goes on before it."""
    found: list[_Said] = []
    for each in said:
        if found and decision_in(each.text) and any(map(is_question, found[-1].answers[-1:])):
            found[-1] = replace(found[-1], answers=(*found[-1].answers, *each.answers))
        else:
            found.append(each)
    return found


def _without_blanks(text: str) -> str:
    return "".join(text.split())


def _said(turns: Sequence[Turn | OpenTurn]) -> list[_Said]:
    found: list[_Said] = []
    for number, turn in enumerate(turns):
        texts: tuple[str, ...] = ()
        if isinstance(turn, Turn) and turn.outcome == "answered":  # else nobody knows what is shown
            texts = tuple(step.reply.text for step in turn.steps if step.reply.text.strip())
        last = len(turn.heard) - 1
        found += [
            _Said(
                text=each.text,
                answers=texts if n == last else (),
                turn=number,
                seq=each.seq,
                is_first=n == 0,
            )
            for n, each in enumerate(turn.heard)
        ]
    return found
