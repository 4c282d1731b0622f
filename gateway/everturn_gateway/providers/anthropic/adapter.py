"""Streaming replies of Claude, by Anthropic's Messages API, and of whoever speaks it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from everturn_actors.errors import ModelRefusedError
from everturn_actors.model import ModelRequest, Notice
from everturn_gateway.providers.adaptive import AdaptiveProvider
from everturn_gateway.providers.anthropic.capabilities import Manner, Thinking, manner_of
from everturn_gateway.providers.anthropic.reading import ReplyReader
from everturn_gateway.providers.anthropic.wire import BodyWriter, may_think
from everturn_gateway.providers.counting.question import CountQuestion
from everturn_gateway.providers.transport.sse import EventParser
from everturn_gateway.providers.transport.streaming import (
    Connection,
    RefusedRequestError,
    Transport,
)

# How thoughts that are sent back are refused: signed by another model or account, or changed on
# the way. It says in which message they stand.
_THOUGHTS_REFUSED: Final = re.compile(
    r"signature.{0,20}thinking|thinking.{0,60}cannot be modified|expected `?thinking"
    r"|^messages\.\d+\.content\.\d+.{0,40}thinking",
    re.IGNORECASE,
)
# What the route that counts takes beside what is counted.
# Source: https://platform.claude.com/docs/en/api/messages/count_tokens (read 2026-11-26)
_COUNTED: Final = ("thinking", "output_config")
# Source: https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand: it goes with
# the request for a summary, and with each one that brings it back.
COMPACTION_BETA: Final = "compact-2026-09-04"
_MOST_TOKENS: Final = re.compile(r"max_tokens: [\d,]+ > ([\d,]+)", re.IGNORECASE)
_NEXT_THINKING: Final[dict[Thinking, tuple[Thinking, ...]]] = {
    "adaptive": ("budget", "none"),
    "budget": ("adaptive", "none"),
    "none": ("none",),
}


class Anthropic(AdaptiveProvider[Manner]):
    """One model behind the Messages API."""

    def __init__(self, connection: Connection, *, model: str) -> None:
        endpoint, transport = connection.endpoint, Transport(connection, parser=EventParser)
        super().__init__(transport, model=model, manner=manner_of(model))
        self._endpoint, self._origin = endpoint, endpoint.address
        self._writer = BodyWriter(origin=endpoint.address)

    def _reader(self, request: ModelRequest, on_text: Callable[[str], None]) -> ReplyReader:
        where = self._transport.where(request.model)
        return ReplyReader(where=where, model=request.model, on_text=on_text, origin=self._origin)

    def _body(self, manner: Manner, request: ModelRequest) -> bytes:
        budgeted = manner.thinking == "budget" and request.reasoning_effort is not None
        thinks = not budgeted or may_think(request, self._origin if manner.replays else "")
        return self._writer.body(
            request,
            manner.options(request, may_think=thinks),
            replays=manner.replays,
            marks=manner.marks,
        )

    def _headers(self, manner: Manner, request: ModelRequest) -> Mapping[str, str]:
        is_asked = request.compacts or (manner.replays and self._writer.block(request) is not None)
        return {"anthropic-beta": COMPACTION_BETA} if is_asked else {}

    def _question(self, manner: Manner, request: ModelRequest) -> CountQuestion | None:
        options = manner.options(request, may_think=may_think(request, self._origin))
        counted: dict[str, object] = {n: options[n] for n in _COUNTED if n in options}
        body = self._writer.body(
            request, counted, replays=manner.replays, marks=False, streams=False
        )
        return CountQuestion(
            path=f"{self._endpoint.base}/v1/messages/count_tokens",
            body=body,
            headers=self._headers(manner, request),
        )

    def _observed(
        self, request: ModelRequest, manner: Manner, refused: RefusedRequestError
    ) -> Manner | None:
        if type(refused.error) is not ModelRefusedError:
            return None
        return _observed(refused.refusal.message, request, manner)


def _observed(said: str, request: ModelRequest, manner: Manner) -> Manner | None:
    """Return the manner that a refusal asks for; None where it is about something else."""
    words = said.lower()
    if manner.replays and (_THOUGHTS_REFUSED.search(said) or _refuses_block(said, request)):
        return replace(manner, replays=False)
    if manner.takes_temperature and request.temperature is not None and "temperature" in words:
        return replace(manner, takes_temperature=False)
    if most := _MOST_TOKENS.search(said):
        tokens = int(most[1].replace(",", "") or 0)
        if tokens and (manner.most_tokens is None or tokens < manner.most_tokens):
            return replace(manner, most_tokens=tokens)
        return None
    if request.reasoning_effort is not None:
        if manner.thinking != "none" and ("thinking" in words or "budget_tokens" in words):
            tried = manner.tried | {manner.thinking}
            left = (each for each in _NEXT_THINKING[manner.thinking] if each not in tried)
            return replace(manner, thinking=next(left, "none"), tried=tried)
        if manner.takes_effort and ("effort" in words or "output_config" in words):
            return replace(manner, takes_effort=False)
    if manner.marks and "cache_control" in words:
        return replace(manner, marks=False)
    return None


def _refuses_block(said: str, request: ModelRequest) -> bool:
    """Whether a summary is not taken back, as one that was signed for another account.

    Then it is read as text.
    """
    first = request.messages[0] if request.messages else None
    has_block = isinstance(first, Notice) and bool(first.opaque)
    return has_block and not request.compacts and "compaction" in said.lower()
