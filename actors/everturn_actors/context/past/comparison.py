"""What became of each message of a past request, beside another request of its session. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from everturn_actors.context.past.explain import Explained, Explanation, Role
from everturn_actors.model import Disposition

_ROUNDING: Final = 2  # tokens that two counts of one text may differ by
_GROUPS_MOST: Final = 400  # of neighbouring messages; a screen shows no more pieces side by side


class MessageDisposition(Struct, frozen=True):
    """What one request had of one message."""

    disposition: Disposition
    stage: str
    tokens: int
    by_seq: int


class Compared(Struct, frozen=True, kw_only=True):
    """One message, and what two requests had of it."""

    seq: int
    role: Role
    tokens: int
    "As the log keeps it."
    begins: str
    now: MessageDisposition | None
    "None = it was said after this request."
    was: MessageDisposition | None
    "In the other request; None = it was said after that one, or there is no other."


class Stretch(Struct, frozen=True, kw_only=True):
    """Neighbouring messages of which the same became."""

    seq: int
    "Of the first one."
    disposition: Disposition
    messages: int
    tokens_before: int
    tokens_after: int


class Dispositions(Struct, frozen=True, kw_only=True):
    """What became of the messages of a request."""

    stretches: tuple[Stretch, ...]
    by_disposition: dict[Disposition, int]
    messages: tuple[Compared, ...]
    "Those that were asked for, oldest first."


def dispositions_of(
    now: Explanation, other: Explanation | None = None, *, since: int = 0
) -> Dispositions:
    """Return what became of the messages of `now`.

    Args:
        now: A past request.
        other: One that it is compared with: `messages` has those that differ alone.
        since: `messages` has none of an earlier event.
    """
    counts: dict[Disposition, int] = {}
    for each in now.messages:
        counts[each.disposition] = counts.get(each.disposition, 0) + 1
    return Dispositions(
        stretches=_stretches(now.messages),
        by_disposition=counts,
        messages=tuple(
            each
            for each in _compared(now.messages, None if other is None else other.messages)
            if each.seq >= since
        ),
    )


def _compared(now: Sequence[Explained], other: Sequence[Explained] | None) -> tuple[Compared, ...]:
    mine = {each.seq: each for each in now}
    theirs = {each.seq: each for each in other or ()}
    found: list[Compared] = []
    for seq, each in sorted({**theirs, **mine}.items()):
        shown, was = _disposition(mine.get(seq)), _disposition(theirs.get(seq))
        if other is None or not _is_same(mine.get(seq), theirs.get(seq)):
            found.append(
                Compared(
                    seq=seq,
                    role=each.role,
                    tokens=each.tokens_before,
                    begins=each.begins,
                    now=shown,
                    was=was,
                )
            )
    return tuple(found)


def _is_same(mine: Explained | None, theirs: Explained | None) -> bool:
    """Whether two requests have the same of a message.

    Between them the estimate may have learnt, and counts the same text otherwise: a message that
    both have whole, or of which both have the same share, is the same.
    """
    if mine is None or theirs is None:
        return mine is theirs
    whats = [(each.disposition, each.stage, each.by_seq) for each in (mine, theirs)]
    if whats[0] != whats[1] or mine.disposition == "kept":
        return whats[0] == whats[1]
    shares = mine.tokens_after * theirs.tokens_before, theirs.tokens_after * mine.tokens_before
    most = max(mine.tokens_before, theirs.tokens_before)
    return abs(shares[0] - shares[1]) <= _ROUNDING * most


def _disposition(message: Explained | None) -> MessageDisposition | None:
    if message is None:
        return None
    return MessageDisposition(
        message.disposition, message.stage, message.tokens_after, message.by_seq
    )


def _stretches(messages: Sequence[Explained]) -> tuple[Stretch, ...]:
    """Return neighbours joined; in a long session also those of one group that are apart."""
    size = -(-len(messages) // _GROUPS_MOST) or 1
    found: list[Stretch] = []
    for start in range(0, len(messages), size):
        group: dict[Disposition, list[Explained]] = {}
        for message in messages[start : start + size]:
            group.setdefault(message.disposition, []).append(message)
        for disposition, alike in group.items():
            new = Stretch(
                seq=alike[0].seq,
                disposition=disposition,
                messages=len(alike),
                tokens_before=sum(each.tokens_before for each in alike),
                tokens_after=sum(each.tokens_after for each in alike),
            )
            if found and found[-1].disposition == disposition:
                found[-1] = _joined(found[-1], new)
            else:
                found.append(new)
    return tuple(found)


def _joined(first: Stretch, second: Stretch) -> Stretch:
    return structs.replace(
        first,
        messages=first.messages + second.messages,
        tokens_before=first.tokens_before + second.tokens_before,
        tokens_after=first.tokens_after + second.tokens_after,
    )
