"""What there is to read back. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from everturn_actors.model import Conversation, Disposition, OpenTurn, Turn
from everturn_gateway.tools.recall.messages import Said, ask, heading

FILES_MAX = 20  # newest ones that the overview names
_SEQS_MAX = 20  # of messages with one disposition


def overview(
    conversation: Conversation, *, first_seq: int, last_seq: int, files: Sequence[Said]
) -> str:
    """Return what is hidden and what to ask for, in lines.

    Args:
        conversation: As it stands.
        first_seq: Number of the oldest event there is.
        last_seq: Of the newest.
        files: The newest messages whose text stands in a file, newest first.
    """
    return "\n".join(_lines(conversation, first_seq, last_seq, files)) + "\n"


def _lines(
    conversation: Conversation, first_seq: int, last_seq: int, files: Sequence[Said]
) -> Iterator[str]:
    total = conversation.left_messages + conversation.held_messages
    yield (
        f"{total} messages since this conversation began; their numbers go up to {last_seq}, with"
        " gaps."
    )
    if first_seq > 1:
        yield discarded(first_seq, conversation)
    yield from _hidden(conversation, first_seq)
    yield from _parts(conversation)
    yield "One request may show less than that; whatever it leaves out can be read here."
    yield from _files(files)
    yield 'Ask with message=NUMBER, call_id, from and to, file, or search="words".'


def _hidden(conversation: Conversation, first_seq: int) -> Iterator[str]:
    reductions = conversation.reductions
    older = [turn for turn in conversation.turns if turn.number < reductions.cut_turn]
    hidden = conversation.left_messages + sum(turn.size_messages for turn in older)
    if not hidden:
        yield "No turn is hidden for good."
        return
    shown = _first_shown(conversation)
    # What waits in line is not shown yet either, but is no part of what is hidden.
    until = shown.users[0].seq - 1 if shown is not None else 0
    where = f": {ask(**{'from': first_seq, 'to': until})}" if until >= first_seq else ""
    yield f"The oldest {hidden} are not shown{where}"
    summary = reductions.summary
    if summary is not None:
        author = "a model" if summary.source == "model" else "their beginnings"
        yield (
            f"Of these, {summary.messages} (to the end of turn {summary.last_turn}) are summarised"
            f" by {author}."
        )
        if summary.path and first_seq == 1:
            yield f"What was summarised stands in {ask(file=summary.path)}"


def _first_shown(conversation: Conversation) -> Turn | OpenTurn | None:
    cut = conversation.reductions.cut_turn
    finished = (turn for turn in conversation.turns if turn.number >= cut)
    return next(finished, conversation.current)


def _parts(conversation: Conversation) -> Iterator[str]:
    by_disposition: dict[Disposition, list[int]] = {}
    for seq, each in sorted(conversation.reductions.replaced.items()):
        by_disposition.setdefault(each.disposition, []).append(seq)
    dropped = sorted(conversation.reductions.dropped)
    if dropped:
        between = ask(**{"from": dropped[0], "to": dropped[-1]})
        yield f"Of the others, {len(dropped)} are left out: {between}"
    for disposition, seqs in by_disposition.items():
        few = ", ".join(map(str, seqs[:_SEQS_MAX]))
        more = f" and {len(seqs) - _SEQS_MAX} more" if len(seqs) > _SEQS_MAX else ""
        yield f"{disposition.capitalize()}: messages {few}{more}"


def _files(files: Sequence[Said]) -> Iterator[str]:
    for message in files:
        yield f"{ask(file=message.path)} is the {heading(message)}, message {message.seq}"
    if len(files) == FILES_MAX:
        yield "There may be older files."


def discarded(first_seq: int, conversation: Conversation) -> str:
    """Return that the log was cut, and what is left of what stood there."""
    summary = conversation.reductions.summary
    path = summary.path if summary else ""
    kept = f"; what was summarised stands in {ask(file=path)}" if path else ""
    return (
        f"Numbers below {first_seq} were discarded from the log, as this agent is set"
        f" (spec.session.compaction){kept}"
    )
