"""The parts of one reply while they arrive. Pure: no IO.

What is common to the streams of all APIs: text that is handed on at once, thoughts, calls whose
arguments come in fragments, and limits.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct, field

from everturn_actors.errors import ModelTransientError, TruncatedStreamError
from everturn_actors.model import Reply, ToolCall
from everturn_gateway.providers.transport.encoding import dumps, loads, mend
from everturn_gateway.providers.transport.images import ReplyImages
from everturn_gateway.providers.transport.sse import EVENT_LIMIT_BYTES

REPLY_LIMIT_CHARS = 4 * 1024 * 1024  # all that one reply holds; no model writes that much
VALUES_MOST: Final = 250_000  # in a chunk that is so large for its images
PART_CHARS = (
    64  # what a call or a block counts for beside its texts, so that empty ones end as well
)
COUNT_MAX = 10**8  # tokens of one reply; sums of it fit everywhere
TOOL_NAME_CHARS = 1_000  # no API takes more than 128
NAME_CHARS = 200  # of a model's name, or of why it stopped, which are kept with the reply

UNKNOWN_FORM: Final = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    RecursionError,  # lists in lists, deeper than what is kept can be written
)
"""What goes wrong where a chunk is JSON and makes no sense.

Not one of them may leave a reader: the turn would fail as if the gateway were at fault, and again
with each start.
"""

_HIGH_SURROGATES: Final = ("\ud800", "\udbff")


class CallParts(Struct):
    """A call whose pieces still arrive."""

    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    extra: object = None
    "What the provider wants back with the call."


class ReplyParts:
    """Collects the parts of one reply; hands each piece of its text on at once.

    Errors it raises carry a text that is not masked yet and begins with `where`.
    """

    def __init__(self, *, where: str, on_text: Callable[[str], None]) -> None:
        self.where = where
        self._on_text = on_text
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._half = ""
        "The first half of a surrogate pair whose second half comes with the next chunk."
        self._size_chars = 0
        self.images = ReplyImages(where)
        "What the model made so far."
        self.text_chars = 0
        "How much of the text was handed on."

    @property
    def begun(self) -> bool:
        """Whether any text or thought has arrived."""
        return bool(self._text or self._reasoning or self.images.chars)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The thoughts so far."""
        return "".join(self._reasoning)

    def say(self, text: str) -> None:
        """Take a piece of the text."""
        if self._half:
            text, self._half = self._half + text, ""
        try:
            text.encode()
        except UnicodeEncodeError:
            if _HIGH_SURROGATES[0] <= text[-1] <= _HIGH_SURROGATES[1]:
                text, self._half = text[:-1], text[-1]
            text = mend(text)
        if text:
            self.count(len(text))
            self._text.append(text)
            self.text_chars += len(text)
            self._on_text(text)

    def end_text(self) -> None:
        """Hand on what was held back in the hope of its other half."""
        if self._half:
            self._half, torn = "", self._half
            self.say(mend(torn))

    def think(self, text: str) -> None:
        """Take a piece of the thoughts."""
        self.count(len(text))
        self._reasoning.append(mend(text))

    def count(self, size_chars: int) -> None:
        """Count what arrived.

        Raises:
            ModelTransientError: It is more than any reply may have.
        """
        self._size_chars += size_chars
        if self._size_chars > REPLY_LIMIT_CHARS:
            msg = f"{self.where}: the reply is longer than {REPLY_LIMIT_CHARS} characters"
            raise ModelTransientError(msg)

    def count_part(self, part: object) -> None:
        """Count something that is kept as it came: a call, a block, what goes back to its giver.

        Raises:
            ModelTransientError: With it the reply is more than any may be.
        """
        self.count(PART_CHARS + len(dumps(part)))

    def tool_name(self, name: str) -> str:
        """Return the name of the tool of a call, if it can be one.

        Raises:
            ModelTransientError: It is far too long.
        """
        if len(name) > TOOL_NAME_CHARS:
            msg = f"{self.where}: the model called a tool whose name does not end"
            raise ModelTransientError(msg)
        return name

    def parsed(self, data: bytes) -> Any:  # JSON
        """Return a chunk, parsed.

        Raises:
            ModelTransientError: It is not JSON, or would take far more memory than it has bytes.
        """
        if len(data) > EVENT_LIMIT_BYTES and _values_most(data) > VALUES_MOST:
            msg = f"{self.where}: a chunk of the reply is large, and no image"
            raise ModelTransientError(msg)
        try:
            return loads(data)
        except ValueError as error:
            msg = f"{self.where}: a chunk of the reply did not parse: {_excerpt(data)}"
            raise ModelTransientError(msg) from error

    def unknown(self, data: bytes) -> ModelTransientError:
        """Return the error for a chunk that is JSON and makes no sense."""
        msg = f"{self.where}: a chunk of the reply has an unknown form: {_excerpt(data)}"
        return ModelTransientError(msg)

    def broken_off(self) -> TruncatedStreamError:
        """Return the error for a stream that merely stopped."""
        msg = f"{self.where}: the reply broke off: the stream ended without a finish reason"
        return TruncatedStreamError(msg)

    def calls(self, calls: Iterable[CallParts]) -> tuple[ToolCall, ...]:
        """Return the calls with the arguments as the model wrote them, each with an id of its own.

        Whether the arguments are what a tool can take is for the turn to judge.

        Raises:
            ModelTransientError: A call names no tool.
        """
        finished: list[ToolCall] = []
        taken: set[str] = set()
        for number, call in enumerate(calls, start=1):
            if not call.name:
                msg = f"{self.where}: the model made a call that names no tool"
                raise ModelTransientError(msg)
            call_id = call.call_id or new_call_id()
            while call_id in taken:
                call_id += f"_{number}"
            taken.add(call_id)
            arguments = mend("".join(call.arguments)) or "{}"
            finished.append(ToolCall(call_id=call_id, name=call.name, arguments=arguments))
        return tuple(finished)


class Reader(ABC):
    """Makes one reply out of the events of a stream; a subclass knows their format.

    Hands each piece of the text on at once. Errors carry a text that is not masked yet and begins
    with `where`. `origin` is the address that gets back what it gave with a reply.
    """

    def __init__(
        self, *, where: str, model: str, on_text: Callable[[str], None], origin: str = ""
    ) -> None:
        self._where = where
        self._asked = self._model = model
        self._origin = origin
        self._parts = ReplyParts(where=where, on_text=on_text)
        self._stop_reason = ""
        self.done = False
        "Whether the provider said that nothing more comes."

    @property
    def images(self) -> ReplyImages:
        """The images that have arrived."""
        return self._parts.images

    @property
    def complete(self) -> bool:
        """Whether the reply itself has ended; usage may still follow."""
        return bool(self._stop_reason)

    @property
    def begun(self) -> bool:
        """Whether anything of a reply has arrived."""
        return self._parts.begun or self._has_parts or self.complete

    def take(self, name: bytes, data: bytes) -> None:
        """Take one event: its name and its data.

        Raises:
            ModelError: The provider reports one, or the event is not what it should be.
        """
        try:
            text = self._take(name, data)
        except UNKNOWN_FORM as error:
            raise self._parts.unknown(data) from error
        if text:
            self._parts.say(text)

    def reply(self) -> Reply:
        """Return the reply.

        Raises:
            TruncatedStreamError: The stream ended without a reason.
            ModelError: The provider ended it with an error, or it is none that can be used.
        """
        self._parts.end_text()
        if not self.complete:
            raise self._parts.broken_off()
        return self._reply()

    @property
    @abstractmethod
    def _has_parts(self) -> bool:
        """Whether anything beside text and thoughts has arrived."""

    @abstractmethod
    def _take(self, name: bytes, data: bytes) -> str | None:
        """Take one event; return what it adds to the text. May raise `UNKNOWN_FORM`."""

    @abstractmethod
    def _reply(self) -> Reply:
        """Return the reply, which has ended."""


def new_call_id() -> str:
    """Return an id for a call whose provider gave none, unlike that of any other call."""
    return f"call_{secrets.token_hex(8)}"


def named(value: object) -> str:
    """Return a name as its server gives it, which may be anything."""
    return str(value)[:NAME_CHARS]


def piece_of(value: object) -> str:
    """Return a piece of a text that is joined later.

    Raises:
        TypeError: It is no text.
    """
    if isinstance(value, str):
        return value
    msg = f"a piece of text is {type(value).__name__}"
    raise TypeError(msg)


def count_of(value: object) -> int:
    """Return a reported number of tokens, within reason; 0 for what is none."""
    return min(value, COUNT_MAX) if type(value) is int and value > 0 else 0  # True is none


def _values_most(data: bytes) -> int:
    """Return how many values JSON has at most."""
    commas = data.count(b",")
    # No parser here goes deeper than 1,024: without a comma that is all, and one look is enough.
    at_most = (commas + 1) * 1024
    if at_most > VALUES_MOST:
        at_most = commas + data.count(b"[") + data.count(b"{") + 1
    return at_most


def _excerpt(data: bytes) -> str:
    return repr(data[:80].decode("utf-8", "replace"))
