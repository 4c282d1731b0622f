"""What two nodes say to each other: a frame is one value, one JSON object. Pure.

A frame is told by its `frame`, a command by its `command`: the values that a session is asked with
travel as they are. What only the actor's own tasks say has no way onto a link. A field that is not
known is refused by name, and never passed over: a command that was half understood would be another
command.

*Versions.* Each side says which versions of this protocol it speaks, and both use the newest that
is common. A release speaks its own and the one before it, so that two neighbours work side by side
while nodes are renewed one by one: what is new is said only to whoever speaks it.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Final, TypeAlias

import msgspec

from everturn_actors import errors
from everturn_actors.codec import Codec, CodecError, Count, Value, encode, snake
from everturn_actors.errors import CoreError, LinkRefusedError
from everturn_actors.events import Event, SessionStarted
from everturn_actors.model import ChosenModel, Labels, Pin
from everturn_actors.protocol.commands import (
    Accepted,
    AnswerCalls,
    Cancel,
    ChooseModel,
    ClientDisconnected,
    Compact,
    Compacted,
    Edit,
    End,
    GetStatus,
    KnownStatus,
    Label,
    OutsideCommand,
    PinMessage,
    ResolveApproval,
    Resume,
    Retry,
    Share,
    Submit,
    Tick,
    UnpinMessage,
    Withdraw,
)

SPEAKS: Final = (2, 2)
"The oldest and the newest version of the protocol that this program speaks."
FRAME_MAX_BYTES: Final = 16 * 1024 * 1024
"Of one frame. The longest command is a message, which is far below it."
EVENTS_MAX_BYTES: Final = 1024 * 1024
"Of the events that are pushed in one frame; what is larger is read from the log."
GREETING_MAX_BYTES: Final = 4096
"Of a frame before both sides have shown that they know the secret."


class Frame(Value, frozen=True, kw_only=True, tag_field="frame", tag=snake):
    """One thing that is said on a link."""


# --- the greeting ---


class Challenge(Frame, frozen=True, kw_only=True):
    """The first frame, of the node that was called."""

    nonce: str
    speaks: tuple[Count, Count]


class Hello(Frame, frozen=True, kw_only=True):
    """Of the node that calls: who it is, and that it knows the secret."""

    node: str
    nonce: str
    speaks: tuple[Count, Count]
    proof: str


class Welcome(Frame, frozen=True, kw_only=True):
    """Of the node that was called: who it is, and that it knows the secret."""

    node: str
    proof: str


class Bye(Frame, frozen=True, kw_only=True):
    """The last frame: why nothing follows."""

    why: str
    is_refusal: bool = False
    "Whether it would be the same again: a secret or a version that differs."


# --- what is asked ---


class Ask(Frame, frozen=True, kw_only=True):
    """A command for a session. `Answered`, `Failed` or `Moved` of the same number comes back."""

    number: Count
    session_id: str
    command: OutsideCommand
    begin_with: SessionStarted | None = None
    "How the session begins, where nothing is stored of it."


class Delete(Frame, frozen=True, kw_only=True):
    """A session is to be deleted. Answered like an `Ask`, with null, when that is durable."""

    number: Count
    session_id: str


class Answered(Frame, frozen=True, kw_only=True):
    """What a command gave, when it is durable."""

    number: Count
    answer: msgspec.Raw = msgspec.Raw(b"null")
    "Of the type that the command answers."
    events: tuple[Event, ...] = ()
    """Those that the session's followers are shown first: from the one that was asked for on,
    without holes; none where they are many."""


Plain: TypeAlias = str | int | float | bool | None


class Failure(Value, frozen=True, kw_only=True):
    """An error on its way to whoever asked."""

    kind: str
    "Its class; one of `everturn_actors.errors`."
    text: str
    fields: dict[str, Plain] = msgspec.field(default_factory=dict[str, Plain])
    "What the error holds besides its text, as far as that is plain."
    cause: Failure | None = None


class Failed(Frame, frozen=True, kw_only=True):
    """Why a command was not done."""

    number: Count
    failure: Failure


class Moved(Frame, frozen=True, kw_only=True):
    """The session is not with this node, or no longer: perhaps what was asked was done."""

    number: Count


# --- what is followed ---


class Follow(Frame, frozen=True, kw_only=True):
    """The events of a session above `after`, and the text of its replies, are wanted.

    `Pushed`, `Text`, and in the end `Followed` or `Moved` of the same number come back.
    """

    number: Count
    session_id: str
    after: Count
    waits: bool = False
    "Whether somebody there waits for the running turn."
    is_final: bool = False
    "Whether somebody there cannot take back what they were given of a reply."


class Followers(Frame, frozen=True, kw_only=True):
    """Who follows there has changed."""

    number: Count
    waits: bool
    is_final: bool


class Unfollow(Frame, frozen=True, kw_only=True):
    """Nobody follows there any more."""

    number: Count


class Pushed(Frame, frozen=True, kw_only=True):
    """Events that are durable, oldest first, each once."""

    number: Count
    last_seq: Count
    "The last of them."
    events: tuple[Event, ...] = ()
    "None where they are too large for a frame: the log has them."


class Text(Frame, frozen=True, kw_only=True):
    """A piece of a running reply, see `TextDelta`."""

    number: Count
    turn: Count
    step: Count
    offset: Count
    text: str


class Followed(Frame, frozen=True, kw_only=True):
    """Nothing more is pushed: the session, or the node, comes to its end."""

    number: Count
    failure: Failure | None = None
    "Why the session failed; None where it did not."


class Ping(Frame, frozen=True, kw_only=True):
    """Nothing is to be said, and the link is whole."""


AnyFrame: TypeAlias = (
    Challenge
    | Hello
    | Welcome
    | Bye
    | Ask
    | Delete
    | Answered
    | Failed
    | Moved
    | Follow
    | Followers
    | Unfollow
    | Pushed
    | Text
    | Followed
    | Ping
)


class _Head(msgspec.Struct):
    """What can be told of a frame that cannot be read."""

    frame: str = ""
    number: int | None = None


_FRAME = Codec[AnyFrame](AnyFrame)
_HEAD = Codec[_Head](_Head)
_ANSWERS: Final[dict[type[object], Codec[object]]] = {
    **dict.fromkeys((Submit, AnswerCalls, Retry), Codec[object](Accepted)),
    **dict.fromkeys((Edit, Withdraw, Resume, Cancel), Codec[object](bool)),
    **dict.fromkeys((Tick, End, ClientDisconnected, ResolveApproval), Codec[object](None)),
    GetStatus: Codec[object](KnownStatus),
    Share: Codec[object](tuple[str, ...]),
    Label: Codec[object](Labels),
    ChooseModel: Codec[object](ChosenModel | None),
    PinMessage: Codec[object](tuple[Pin, ...]),
    UnpinMessage: Codec[object](tuple[Pin, ...]),
    Compact: Codec[object](Compacted),
}
"By command: how its answer is read."


class UnreadableFrameError(CoreError):
    """A frame is none that this version knows.

    Attributes:
        number: Of what was asked; None where it does not tell.
    """

    def __init__(self, why: str, number: int | None) -> None:
        self.number = number
        super().__init__(f"another node says what this version does not understand: {why}")


def pack(frame: Frame) -> bytes:
    """Return a frame as it is sent: its length in four bytes, the highest first, and its JSON."""
    body = encode(frame)
    return len(body).to_bytes(4, "big") + body


def unpack(body: bytes) -> AnyFrame:
    """Return the frame of a body, its length taken off.

    Raises:
        UnreadableFrameError: It is none; names the field.
    """
    try:
        return _FRAME.decode(body)
    except CodecError as error:
        raise UnreadableFrameError(str(error), _number(body)) from error


def _number(body: bytes) -> int | None:
    try:
        return _HEAD.decode(body).number
    except CodecError:
        return None


def common_version(ours: tuple[int, int], theirs: tuple[int, int], node: str) -> int:
    """Return the version that two sides use: the newest that both speak.

    Raises:
        LinkRefusedError: There is none; says what to do.
    """
    newest = min(ours[1], theirs[1])
    if newest >= max(ours[0], theirs[0]):
        return newest
    side = "an earlier" if theirs[1] < ours[0] else "a later"
    msg = (
        f"node {node!r} runs {side} Everturn: its links speak versions {theirs[0]} to {theirs[1]},"
        f" this one's speak {ours[0]} to {ours[1]}. Renew nodes one release at a time"
    )
    raise LinkRefusedError(msg)


# --- answers and errors ---


def pack_answer(value: object) -> msgspec.Raw:
    """Return what a command gave as it travels."""
    return msgspec.Raw(encode(value))


def unpack_answer(command: object, answer: msgspec.Raw) -> object:
    """Return what a command gave.

    Raises:
        UnreadableFrameError: It is none of its answers.
    """
    try:
        return _ANSWERS[type(command)].decode(bytes(answer))
    except CodecError as error:
        raise UnreadableFrameError(str(error), None) from error


_KINDS: Final[dict[str, type[CoreError]]] = {
    name: kind for name in errors.__all__ if isinstance(kind := getattr(errors, name), type)
}


def failure_of(error: BaseException) -> Failure:
    """Return an error as it travels: its class, its text, and what it holds that is plain."""
    kind = next((each for each in type(error).__mro__ if _KINDS.get(each.__name__) is each), None)
    if kind is None:  # what an unforeseen error says may hold a secret
        return Failure(kind="CoreError", text=type(error).__name__)
    fields: dict[str, Plain] = {}
    cause: Failure | None = None
    for name, value in vars(error).items():
        if isinstance(value, BaseException):
            cause = failure_of(value)
        elif value is None or isinstance(value, str | int | float):
            fields[name] = value
        elif isinstance(value, PurePath):
            fields[name] = None  # of another machine
    return Failure(kind=kind.__name__, text=str(error), fields=fields, cause=cause)


def error_of(failure: Failure) -> CoreError:
    """Return the error that travelled; one that this version does not know is a `CoreError`."""
    kind = _KINDS.get(failure.kind, CoreError)
    made = kind.__new__(kind, failure.text)
    vars(made).update(failure.fields)
    if failure.cause is not None:
        vars(made)["cause"] = error_of(failure.cause)
    return made
