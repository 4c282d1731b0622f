"""Whether a request begins with the one before it, byte for byte. Pure.

A provider's cache holds the beginning of the last request. A short hash of what was sent, kept with
the reply to it, tells the next request, also after a restart, whether it goes on from there.
"""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct, field

from everturn_actors.context.estimation.tokens import tools_json
from everturn_actors.model import (
    AnyMessage,
    ModelRequest,
    Notice,
    Reply,
    ToolDefinition,
    ToolResult,
    UserMessage,
)

_SIZE_BYTES = 8  # nobody forges these; they only have to differ where requests do
_AT_ONCE = 250  # messages that are hashed
_ROLES = {UserMessage: "u", Notice: "n", Reply: "a", ToolResult: "t"}


class _Hashed(Struct, kw_only=True):
    """The hash of a request's beginning."""

    head: tuple[str, str, tuple[ToolDefinition, ...]]
    hasher: blake2b
    messages: int = 0


class Fingerprints(Struct):
    """Hashes the requests of one session; what does not change is hashed once."""

    _kept: _Hashed | None = field(default=None)

    def of(self, request: ModelRequest, finished: int, at: int) -> tuple[str, str]:
        """Return the fingerprints of the request's first `at` messages, and of all of it.

        Args:
            request: The request.
            finished: How many of its first messages are the same in every request from now on, but
                for more that follow them; 0 = none is known to be.
            at: 0 where nobody wants to know; the fingerprint is empty then, and where the request
                is shorter.
        """
        messages = request.messages
        # The next request is compared at a place that this one may not have reached: see `at`.
        finished = min(finished, at) if at else finished
        head = (request.model, request.system, request.tools)
        kept = self._kept
        if kept is None or kept.head != head or finished < kept.messages or not finished:
            kept = _Hashed(head=head, hasher=_begin(request))
        hasher, known, begin = kept.hasher, "", kept.messages
        for end in sorted({at, finished, len(messages)}):
            if not begin <= end <= len(messages):
                continue
            # Some hundred messages at once: one by one takes half as long again.
            for start in range(begin, end, _AT_ONCE):
                part = messages[start : min(start + _AT_ONCE, end)]
                text = "".join([_text(message) for message in part])
                hasher.update(text.encode("utf-8", "surrogatepass"))
            begin = end
            if end == at < len(messages):
                known = hasher.copy().hexdigest()
            if end == finished < len(messages):
                kept.messages, hasher = finished, hasher.copy()
        if len(messages) == finished:
            kept.messages = finished
        self._kept = kept if finished else None
        whole = hasher.hexdigest()
        return (whole if at == len(messages) else known) if at else "", whole


def _begin(request: ModelRequest) -> blake2b:
    hasher = blake2b(digest_size=_SIZE_BYTES)
    for part in (request.model, request.system, tools_json(request.tools)):
        hasher.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return hasher


def _text(message: AnyMessage) -> str:
    """Return all of a message that goes to the model, between what no other one has there."""
    text, kind = message.text, type(message)
    match message:
        case Reply(calls=calls):
            if calls:
                asked = (f"{call.call_id}\0{call.name}\0{call.arguments}" for call in calls)
                text = "\0".join((text, *asked))
        case UserMessage(attachments=attached):
            if attached:
                text = "\0".join((text, *(each.name for each in attached)))
        case ToolResult(call_id=call_id, attachments=attached):
            text = "\0".join((call_id, text, *(each.name for each in attached)))
        case Notice(opaque=opaque):
            if opaque:
                text = f"{text}\0{opaque}"
    return f"{_ROLES[kind]}{text}\0"
