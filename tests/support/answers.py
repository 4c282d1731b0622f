"""What a model API on loopback answers, whichever format it speaks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from everturn_actors.model import ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one request gets."""

    text: str = ""
    "Streamed word by word."
    pieces: tuple[str, ...] = ()
    "Or in exactly these pieces."
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    "Empty = stop, or tool_calls where there are calls."
    input_tokens: int = 11
    output_tokens: int = 7
    cached_tokens: int = 3
    cache_written_tokens: int = 0
    "Anthropic's alone."
    blocks: tuple[Mapping[str, Any], ...] = ()
    "Anthropic's blocks and the items of a response, which come before those of the fields above."
    model: str = "fake-1"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    "Sent in place of everything that would be made of the fields above, in one piece."
    cut_after: int | None = None
    "After so many pieces the connection is closed."
    end_after: int | None = None
    "After so many pieces the stream ends as if it were whole, without a finish reason."
    garbage_after: int | None = None
    "After so many pieces a chunk comes that is not JSON."
    error_after: tuple[int, Mapping[str, Any]] | None = None
    "After so many pieces the stream reports this error."
    stall_after: int | None = None
    "After so many pieces nothing comes any more until the client leaves."
    hold: Mapping[int, anyio.Event] = field(default_factory=dict[int, anyio.Event])
    "Before the piece of this number (from 0) the event is awaited."
    delay_s: float = 0.0
    "Real time before the first byte: what a load test calls the model's latency."
    piece_delay_s: float = 0.0
    "Real time before each piece."

    @property
    def all_pieces(self) -> tuple[str, ...]:
        """The text in the pieces in which it is streamed."""
        return self.pieces or tuple(re.findall(r"\s*\S+(?:\s+$)?", self.text))

    @property
    def in_steps(self) -> bool:
        """Whether it cannot be sent at once."""
        return bool(self.hold or self.delay_s or self.piece_delay_s or self.stall_after is not None)


def in_pieces(
    answer: Answer,
    *,
    piece: Callable[[str], bytes],
    garbage: bytes,
    error: Callable[[Mapping[str, Any]], bytes],
) -> tuple[list[bytes], bool]:
    """Return a chunk for each piece of the text, and whether a fault ends the stream there."""
    chunks: list[bytes] = []
    for number, text in enumerate(answer.all_pieces):
        if number in {answer.cut_after, answer.end_after}:
            return chunks, True
        if number == answer.garbage_after:
            return [*chunks, garbage], True
        if answer.error_after is not None and number == answer.error_after[0]:
            return [*chunks, error(answer.error_after[1])], True
        chunks.append(piece(text))
    return chunks, False
