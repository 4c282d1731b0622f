"""Why a past request looked as it did: what became of each message, and what did it. Pure.

`explaining` finds the request in a session's log and makes it again; here its account is drawn up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, assert_never

from msgspec import Struct

from everturn_actors.context.rendered import Rendered
from everturn_actors.context.report import RESULT_STAGE, changes
from everturn_actors.model import (
    AnyMessage,
    Disposition,
    ModelRequest,
    Notice,
    Reply,
    ToolResult,
    Usage,
    UserMessage,
)

Role: TypeAlias = Literal["user", "assistant", "tool", "system"]
Verdict: TypeAlias = Literal["same", "differs", "unknown"]

BEGIN_CHARACTERS: Final = 120  # of a message, where a list tells of it
_THIS_REQUEST: Final = "this request"


class Past(Struct, frozen=True, kw_only=True):
    """A request that was sent, as the log tells of it."""

    turn: int
    step: int
    started_seq: int
    "The event that began its step."
    replied_seq: int
    "The event with its answer; 0 = there is none, or not yet."
    model: str
    prefix: str
    "The hash that was kept with the answer; empty where none was."
    reported: Usage


class Hidden(Struct, frozen=True):
    """What was done to one message for good."""

    disposition: Disposition
    stage: str
    by_seq: int
    "The event that did it."


class Explained(Struct, frozen=True, kw_only=True):
    """One message of the session, and what the request has of it."""

    seq: int
    role: Role
    disposition: Disposition
    stage: str
    "What did it; empty for a message that is as it was said."
    tokens_before: int
    "As the log keeps it."
    tokens_after: int
    "As the request shows it; 0 where it does not."
    by_seq: int
    "The event that did it; 0 = nothing was done, or for this request alone."
    begins: str
    "Its first words, for lists."


class Explanation(Struct, frozen=True, kw_only=True):
    """A past request, made again from the log, and how it came to be as it is."""

    turn: int
    step: int
    started_seq: int
    replied_seq: int
    "The event with its answer; 0 = there is none."
    policy: str
    model: str
    "The one that was asked then."
    verdict: Verdict
    "Whether the request made again is the one that was sent."
    why: str
    "The verdict in a sentence."
    sent_prefix: str
    "Hash of the request that was sent; empty where none was kept."
    prefix: str
    "Hash of the request made again."
    estimated_tokens: int
    "What its prompt costs by today's estimate."
    reported: Usage
    "What the provider reported for it."
    messages: tuple[Explained, ...]
    "Every message of the session up to then, oldest first."
    request: ModelRequest
    "Made again with today's agent."


def explain_request(
    past: Past,
    rendered: Rendered,
    messages: Sequence[AnyMessage],
    hidden: Mapping[int, Hidden],
) -> Explanation:
    """Return the account of a past request.

    Args:
        past: What the log tells of it.
        rendered: The same request, made again.
        messages: Every message of the session up to then, as the log keeps it, oldest first.
        hidden: What events did to messages up to then, by their seq.
    """
    shown = {message.seq: message for message in rendered.request.messages if message.seq}
    verdict, why = _verdict(past, rendered)
    return Explanation(
        turn=past.turn,
        step=past.step,
        started_seq=past.started_seq,
        replied_seq=past.replied_seq,
        policy=rendered.policy.name,
        model=past.model,
        verdict=verdict,
        why=why,
        sent_prefix=past.prefix,
        prefix=rendered.fingerprint.prefix,
        estimated_tokens=rendered.tokens,
        reported=past.reported,
        messages=tuple(
            _explained(message, shown.get(message.seq), rendered, hidden.get(message.seq))
            for message in messages
        ),
        request=rendered.request,
    )


def role_of(message: AnyMessage) -> Role:
    """Return who says a message, as a model is told."""
    match message:
        case UserMessage():
            return "user"
        case Reply():
            return "assistant"
        case ToolResult():
            return "tool"
        case Notice():
            return "system"
        case _:
            assert_never(message)


def _explained(
    message: AnyMessage, shown: AnyMessage | None, rendered: Rendered, hidden: Hidden | None
) -> Explained:
    counts = rendered.policy.estimates(rendered.limits)
    media = rendered.projection.media.get(message.seq, 0)
    found = hidden or Hidden("kept", "", 0)
    if shown is None:
        in_projection = rendered.projection.changes.get(message.seq)
        if in_projection is not None and in_projection.stage:
            found = Hidden(in_projection.disposition, in_projection.stage, 0)
        elif found.disposition not in {"summarised", "dropped"}:
            found = Hidden("dropped", _THIS_REQUEST, 0)
    else:
        now = changes(rendered, shown)
        if now.stage == RESULT_STAGE:
            found = Hidden(now.disposition, RESULT_STAGE, message.seq)
        elif now.stage:
            found = Hidden(now.disposition, now.stage, 0)
    return Explained(
        seq=message.seq,
        role=role_of(message),
        disposition=found.disposition,
        stage=found.stage,
        tokens_before=counts.message(message, media),
        tokens_after=0 if shown is None else counts.message(shown, media),
        by_seq=found.by_seq,
        begins=_first_words(message),
    )


def _first_words(message: AnyMessage) -> str:
    """Return the beginning of a message in one line; of a reply that only calls, the calls."""
    text = message.text
    if not text and isinstance(message, Reply):
        text = " ".join(
            f"{call.name} {call.arguments[:BEGIN_CHARACTERS]}" for call in message.calls
        )
    return " ".join(text[: BEGIN_CHARACTERS * 2].split())[:BEGIN_CHARACTERS]


def _verdict(past: Past, rendered: Rendered) -> tuple[Verdict, str]:
    if not past.replied_seq:
        return "unknown", (
            "no answer to this request is in the log, so that nothing says what was sent;"
            " what follows is what today's agent would send"
        )
    if not past.prefix:
        return "unknown", (
            "the log does not say what was sent, because no hash was kept with the answer;"
            " what follows is what today's agent would send"
        )
    if past.prefix == rendered.fingerprint.prefix:
        return "same", "made again from the log, the request is the one that was sent"
    now = rendered.request.model
    if past.model != now:
        return "differs", (
            f"the agent asks another model now ({now}, then {past.model});"
            " what follows is what today's agent would send, not what was sent"
        )
    return "differs", (
        "the hash differs: the agent, its tools, what is known about the model, or Everturn itself"
        " has changed since; what follows is what they would send today, not what was sent"
    )
