"""How many tokens the default policy takes a text, a message or a set of tools to cost. Pure.

Counted in units, hundredths of a token of an ordinary tokenizer; a model's `scale` turns them into
its tokens (see `calibration`). What a character costs depends on what it is: a letter is a part of
a word, a digit is nearly a token, and so is a Chinese character. Units are sums, so what a
conversation costs is what its messages cost, in whatever pieces they are counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import ceil
from string import ascii_lowercase, ascii_uppercase, digits, whitespace
from typing import Final, assert_never
from zlib import adler32

from msgspec import Struct

from everturn_actors.model import (
    AnyMessage,
    Attachment,
    Notice,
    Reply,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Turn,
    UserMessage,
    remember,
)

UNITS_PER_TOKEN: Final = 100

# Units of one character, fitted on prose, code, JSON, logs and chats in eight languages, and on
# eight tokenizers; `benchmarks/tokens.py` shows how well they do.
_LETTER = 23  # a to z: about four to a token
_CAPITAL = 110  # mostly begins a token of its own
_DIGIT = 80  # one a token, or up to three
_PUNCTUATION = 60
_BLANK = 18  # mostly part of the word that follows
_TWO_BYTES = 36  # accents, Greek, Cyrillic, Arabic, Hebrew
_THREE_BYTES = 78  # Chinese, Japanese, Korean, most other scripts, box drawing
_FOUR_BYTES = 250  # emoji, rare ideographs

_MESSAGE_UNITS = 4 * UNITS_PER_TOKEN  # role and separators of one message
_CALL_UNITS = 8 * UNITS_PER_TOKEN  # what a template writes around name and arguments of a call
_TOOL_UNITS = 8 * UNITS_PER_TOKEN  # the same for a definition
# One image or file. A page or a photograph of a megapixel costs 85 to 1,100 tokens at OpenAI,
# 258 a tile at Google, and width * height / 750 at Anthropic: 1,600 before it is scaled down.
# Source: the vendors' vision guides (platform.openai.com, ai.google.dev, docs.anthropic.com).
MEDIA_UNITS = 1_600 * UNITS_PER_TOKEN
_ATTACHMENT_UNITS = 20 * UNITS_PER_TOKEN  # size and brackets of the line that tells of a file

_FORM: Final = "units"
_SHORT_CHARACTERS: Final = 1_000
_PIECE_BYTES = 512  # 511 capitals and the head of an emoji make 56,460: below Adler's 65,521


def text_units(text: str) -> int:
    """Return what `text` costs: never below 0, never less for a longer text of this beginning."""
    # A lone surrogate has no UTF-8; it is counted, not refused: that is for the entry point to do.
    weights = text.encode("utf-8", "surrogatepass").translate(_WEIGHTS)
    # The low half of Adler-32 is the sum of the bytes, as long as that stays below its modulus. It
    # takes a quarter of the time of any other sum of bytes there is in Python.
    if len(weights) <= _PIECE_BYTES:
        return adler32(weights, 0) & 0xFFFF
    pieces = range(0, len(weights), _PIECE_BYTES)
    return sum([adler32(weights[at : at + _PIECE_BYTES], 0) & 0xFFFF for at in pieces])


@lru_cache(maxsize=64)  # each request asks twice for its agent's
def prompt_units(text: str) -> int:
    """Return what a system prompt or a summary costs, which stays the same for many turns."""
    return text_units(text)


def message_units(message: AnyMessage, media: int = 0) -> int:
    """Return what a message costs with `media` images shown beside its text.

    What came with it and is told in words is part of its text; reasoning is not sent back and is
    free. What takes long to count is kept with the message: calls and long texts. Any other is
    counted in a microsecond, and to keep that takes a third of the memory of its words.
    """
    if _is_short(message):
        known = _count(message)
    else:
        known = remember(message, _FORM, lambda: _count(message))
    return known + media * MEDIA_UNITS if media else known


def turn_units(turn: Turn) -> int:
    """Return what the messages of a finished turn cost, media left out."""
    return total_units(turn.messages)


def total_units(messages: Iterable[AnyMessage]) -> int:
    """Return what messages cost together, media left out.

    The short texts are counted in one go: what is counted are sums.
    """
    parts: list[str] = []
    units = 0
    for message in messages:
        if not _is_short(message):
            units += message_units(message)
            continue
        units += _MESSAGE_UNITS
        parts.append(message.text)
        if isinstance(message, ToolResult):
            parts.append(message.name)
    return units + text_units("".join(parts))


def _is_short(message: AnyMessage) -> bool:
    """Whether a message is little more than a short text."""
    if len(message.text) > _SHORT_CHARACTERS:
        return False
    # The usual kinds first: that a message is of another class takes longer to find out.
    if isinstance(message, UserMessage):
        return not message.attachments
    if isinstance(message, Reply):
        return not message.calls
    return isinstance(message, Notice) or not message.attachments


def tools_units(tools: Sequence[ToolDefinition]) -> int:
    """Return what tool definitions cost; none cost nothing. Kept with each definition."""
    return sum([_tool_units(tool) for tool in tools])


class Estimates(Struct, frozen=True):
    """Counts tokens of one model; a `projection.Estimator`."""

    scale: float = 1.0
    "Tokens of this model for one of the estimate."

    def tokens(self, units: int) -> int:
        """Return units as tokens of this model, rounded up."""
        return ceil(units * self.scale / UNITS_PER_TOKEN)

    def text(self, text: str) -> int:
        """Return the tokens of a text on its own; 0 for none."""
        return self.tokens(prompt_units(text))

    def message(self, message: AnyMessage, media: int) -> int:
        """Return the tokens of a message with `media` images or files beside its text."""
        return self.tokens(message_units(message, media))

    def tools(self, tools: Sequence[ToolDefinition]) -> int:
        """Return the tokens of tool definitions; 0 for none."""
        return self.tokens(tools_units(tools))


def _count(message: AnyMessage) -> int:
    match message:
        case UserMessage(text=text, attachments=attached):
            return _MESSAGE_UNITS + text_units(text) + sum(map(_count_attachment, attached))
        case Reply(text=text, calls=calls):
            return _MESSAGE_UNITS + text_units(text) + sum(map(_count_call, calls))
        case ToolResult(text=text, name=name, attachments=attached):
            told = sum(map(_count_attachment, attached))
            return _MESSAGE_UNITS + text_units(name) + text_units(text) + told
        case Notice(text=text):
            return _MESSAGE_UNITS + text_units(text)
        case _:
            assert_never(message)


def _count_attachment(attached: Attachment) -> int:
    return _ATTACHMENT_UNITS + text_units(attached.file_name) + text_units(attached.media_type)


def _count_call(call: ToolCall) -> int:
    return _CALL_UNITS + text_units(call.name) + text_units(call.arguments)


def _tool_units(tool: ToolDefinition) -> int:
    known: int | None = tool.memo.get(_FORM)
    return remember(tool, _FORM, lambda: _count_tool(tool)) if known is None else known


def _count_tool(tool: ToolDefinition) -> int:
    # A schema may be any mapping, json only knows dicts.
    schema = json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"), default=dict)
    return _TOOL_UNITS + text_units(tool.name) + text_units(tool.description) + text_units(schema)


def _weights() -> bytes:
    """Return the units of each byte; a character of several bytes is paid for with its first."""
    weights = bytearray([_PUNCTUATION]) * 256
    for characters, units in (
        (ascii_lowercase, _LETTER),
        (ascii_uppercase, _CAPITAL),
        (digits, _DIGIT),
        (whitespace, _BLANK),
    ):
        for byte in characters.encode():
            weights[byte] = units
    # Source: RFC 3629, section 3: the first byte tells how many follow.
    weights[0x80:0xC0] = bytes(0x40)
    weights[0xC0:0xE0] = bytes([_TWO_BYTES]) * 0x20
    weights[0xE0:0xF0] = bytes([_THREE_BYTES]) * 0x10
    weights[0xF0:] = bytes([_FOUR_BYTES]) * 0x10
    return bytes(weights)


_WEIGHTS: Final = _weights()
