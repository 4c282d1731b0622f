"""What comes in: whether it is a message, and a conversation that took place elsewhere. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import inf
from types import MappingProxyType
from typing import Final, cast

from everturn_actors.codec import encode
from everturn_actors.context.summaries import FOCUS_CHARACTERS
from everturn_actors.errors import InvalidInputError
from everturn_actors.events import (
    Body,
    CallFinished,
    ModelReplied,
    Received,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import (
    IMAGE_TYPES,
    Attachment,
    CallAnswer,
    CallOptions,
    IncomingMessage,
    Turn,
    Upload,
)

TEXT_BYTES = 1024 * 1024  # the longest message: no person types it, a program should send a file
KEY_CHARS = 255  # the longest idempotency key
ATTACHMENTS_MAX = 10  # files of one message
ATTACHMENT_BYTES = 20 * 1024 * 1024  # of one file: what providers take of an image at most
FILE_NAME_CHARS = 255
DURATION_MAX_S = 86_400.0  # of a sound, whatever anybody says
OPTIONS_BYTES = 512 * 1024  # tools that a caller brings, and the schema of the answer
OPTIONS_NESTING = 100  # levels of them: more than any schema has, fewer than what reads them bears
TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TITLE_CHARS = 255  # the longest title of an announcement
SESSION_TITLE_CHARS = 120  # a list shows some 60 of it

_ANY_TYPE: Final = "application/octet-stream"
# Source: RFC 6838, section 4.2, the names of media types.
_NAME = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
_MEDIA_TYPE: Final = re.compile(rf"{_NAME}/{_NAME}")
_SAME_TYPE: Final = MappingProxyType({"image/jpg": "image/jpeg", "": _ANY_TYPE})
# Of what is kept, so that a person who opens the folder can tell what is what.
_ENDINGS: Final = MappingProxyType(
    {
        "image/png": ".png",
        "image/jpeg": ".jpg",
        "image/gif": ".gif",
        "image/webp": ".webp",
        "application/pdf": ".pdf",
        "application/json": ".json",
        "text/plain": ".txt",
        "text/csv": ".csv",
        "text/markdown": ".md",
        "audio/ogg": ".ogg",
        "audio/mpeg": ".mp3",
        "audio/mp4": ".m4a",
        "audio/wav": ".wav",
        "audio/webm": ".webm",
        "audio/flac": ".flac",
    }
)
_TYPES: Final = MappingProxyType({ending: kind for kind, ending in _ENDINGS.items()})
# Categories of Unicode that a file name has no use for: controls, halves of characters, line ends.
_NOT_IN_NAMES: Final = frozenset(("Cc", "Cs", "Zl", "Zp"))
# They turn the direction of what follows: `cod.exe` is shown as another name.
_TURNS: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def check(message: IncomingMessage) -> None:
    """Refuse what is not a message of its kind.

    Raises:
        InvalidInputError: With the reason.
    """
    name = "announcement" if message.kind == "announcement" else "message"
    check_uploads(message.attachments)
    if message.attachments and not message.waits:
        msg = f"the {name} comes with files, and no turn reads it as a message; leave them out"
        raise InvalidInputError(msg)
    if not message.text.strip() and not message.attachments:
        msg = f"the {name} is empty"
        raise InvalidInputError(msg)
    title = message.title
    if len(title) > TITLE_CHARS:
        msg = f"the title has {len(title)} characters; at most {TITLE_CHARS} are accepted"
        raise InvalidInputError(msg)
    check_text(message.text, message.idempotency_key, message.sender + title)
    if message.options is not None:
        check_options(message.options)


def check_options(options: CallOptions) -> None:
    """Refuse what no model can be asked for.

    Raises:
        InvalidInputError: With the reason.
    """
    try:
        written = encode(options)
    except (OverflowError, RecursionError) as error:
        msg = f"its tools or its schema cannot be written down: {error}"
        raise InvalidInputError(msg) from error
    size_bytes = len(written)
    # So few opening brackets cannot be nested more deeply.
    if written.count(b"{") + written.count(b"[") > OPTIONS_NESTING and _is_too_deep(
        [*(tool.parameters for tool in options.tools), options.response_format]
    ):
        msg = f"its tools or its schema are nested more than {OPTIONS_NESTING} levels deep"
        raise InvalidInputError(msg)
    if size_bytes > OPTIONS_BYTES:
        msg = f"its tools and schema have {size_bytes} bytes; at most {OPTIONS_BYTES} are accepted"
        raise InvalidInputError(msg)
    names = [tool.name for tool in options.tools]
    for name in names:
        if not TOOL_NAME.fullmatch(name):
            msg = f"{name[:80]!r} is no name of a tool: letters, digits, _ and -, 64 at most"
            raise InvalidInputError(msg)
    if twice := next((name for name in names if names.count(name) > 1), None):
        msg = f"two tools have the name {twice!r}"
        raise InvalidInputError(msg)


def _is_too_deep(level: list[object]) -> bool:
    """Whether JSON values hold more levels than are accepted."""
    for _ in range(OPTIONS_NESTING):
        level = [
            child
            for each in level
            for child in (
                cast("Mapping[str, object]", each).values()
                if isinstance(each, Mapping)
                else cast("list[object]", each)
                if isinstance(each, list)
                else ()
            )
        ]
        if not level:
            return False
    return True


def check_text(text: str, idempotency_key: str, sender: str) -> None:
    """Refuse what is not text, or too much of it.

    Raises:
        InvalidInputError: With the reason.
    """
    if len(idempotency_key) > KEY_CHARS:
        msg = f"the idempotency key is longer than {KEY_CHARS} characters"
        raise InvalidInputError(msg)
    try:
        size_bytes = len(text.encode())
        (idempotency_key + sender).encode()
    except UnicodeEncodeError as error:
        msg = f"the message is not valid Unicode text at character {error.start}"
        raise InvalidInputError(msg) from error
    if size_bytes > TEXT_BYTES:
        msg = f"the message has {size_bytes} bytes; at most {TEXT_BYTES} are accepted"
        raise InvalidInputError(msg)


def check_answers(answers: Sequence[CallAnswer]) -> None:
    """Refuse what no tool can have given.

    Raises:
        InvalidInputError: With the call and the reason.
    """
    if not answers:
        msg = "there is no result of a call"
        raise InvalidInputError(msg)
    for answer in answers:
        try:
            check_text(answer.text, "", "")
        except InvalidInputError as error:
            msg = f"the result of call {answer.call_id!r}: {error}"
            raise InvalidInputError(msg) from error


def check_uploads(uploads: Sequence[Upload]) -> None:
    """Refuse files that cannot come with a message.

    Raises:
        InvalidInputError: With the number and the name of the first that cannot, and the reason.
    """
    if len(uploads) > ATTACHMENTS_MAX:
        msg = f"the message has {len(uploads)} attachments; at most {ATTACHMENTS_MAX} are accepted"
        raise InvalidInputError(msg)
    for number, upload in enumerate(uploads, 1):
        why = _why_not_name(upload.file_name) or _why_not(upload)
        if why:
            name = upload.file_name[:80].encode("utf-8", "replace").decode()
            which = f"attachment {number}{f' ({name!r})' if name else ''}"
            msg = f"{which} {why}"
            raise InvalidInputError(msg)


def check_images(images: Sequence[Upload]) -> None:
    """Refuse what no model can be shown with a result.

    Raises:
        InvalidInputError: Names the file and the reason.
    """
    check_uploads(images)
    for number, each in enumerate(images, 1):
        if sniffed(each.data) not in IMAGE_TYPES:
            which = f"image {number}{f' ({each.file_name!r})' if each.file_name else ''}"
            msg = f"{which} is none of {', '.join(sorted(IMAGE_TYPES))}"
            raise InvalidInputError(msg)


def attachment_of(upload: Upload) -> Attachment:
    """Return what a message keeps of a file that was checked. Hashes all of its bytes.

    The same bytes of the same type have the same name.
    """
    kind = _told_type(upload)
    kind = (sniffed(upload.data) or kind) if kind == _ANY_TYPE else kind
    return Attachment(
        name=sha256(upload.data).hexdigest() + _ENDINGS.get(kind, ".bin"),
        media_type=kind,
        file_name=upload.file_name,
        size_bytes=len(upload.data),
        is_voice=upload.is_voice,
        duration_s=sound_seconds(upload.duration_s),
    )


def sound_seconds(told: object) -> float:
    """Return how long a sound is, in seconds, as whoever sent or heard it says; 0 for nonsense.

    Never more than `DURATION_MAX_S`, and no number that JSON has not.
    """
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 < told < inf:
        return 0.0
    return float(min(told, DURATION_MAX_S))


def type_of(name: str) -> str:
    """Return the media type of an attachment by its name alone, where that tells it."""
    return _TYPES.get(f".{name.rpartition('.')[2]}", _ANY_TYPE)


def sniffed(data: bytes) -> str:
    """Return which of `IMAGE_TYPES` these bytes begin as; empty for none.

    Source: the signatures of https://mimesniff.spec.whatwg.org/, section 6.1 (read 2026-11).
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:14] == b"WEBPVP" else ""


def _told_type(upload: Upload) -> str:
    """Return what the sender says a file is, without parameters such as a charset."""
    told = upload.media_type.partition(";")[0].strip().lower()
    return _SAME_TYPE.get(told, told)


def _why_not(upload: Upload) -> str:
    """Return why a file is refused; empty for one that is not."""
    size_bytes, told, found = len(upload.data), _told_type(upload), sniffed(upload.data)
    if not size_bytes:
        return "is empty"
    if size_bytes > ATTACHMENT_BYTES:
        return f"has {size_bytes} bytes; at most {ATTACHMENT_BYTES} are accepted"
    if not _MEDIA_TYPE.fullmatch(told):
        return f"has the media type {upload.media_type[:80]!r}; it has to look like 'image/png'"
    if told not in {found, _ANY_TYPE} and (found or told in IMAGE_TYPES):
        really = f"begin as {found}" if found else "are no such image"
        return f"is said to be {told}, but its bytes {really}"
    return ""


def _why_not_name(name: str) -> str:
    if len(name) > FILE_NAME_CHARS:
        return f"has a name of {len(name)} characters; at most {FILE_NAME_CHARS} are accepted"
    if "/" in name or "\\" in name or name in {".", ".."}:
        return "has a path as its name; send the last part of it alone"
    if _has_controls(name):
        return "has a name with control characters"
    return ""


def _has_controls(text: str) -> bool:
    return any(unicodedata.category(c) in _NOT_IN_NAMES or c in _TURNS for c in text)


def check_title(title: str) -> None:
    """Refuse what no session can be called.

    Raises:
        InvalidInputError: With the reason.
    """
    if len(title) > SESSION_TITLE_CHARS:
        msg = f"the title has {len(title)} characters; at most {SESSION_TITLE_CHARS} are accepted"
        raise InvalidInputError(msg)
    if _has_controls(title):
        msg = "the title has control characters; it is one line of text"
        raise InvalidInputError(msg)


def check_focus(focus: str) -> None:
    """Refuse what no summary can keep above all.

    Raises:
        InvalidInputError: With the reason.
    """
    if len(focus) > FOCUS_CHARACTERS:
        msg = f"the focus has {len(focus):,} characters; at most {FOCUS_CHARACTERS:,} are accepted"
        raise InvalidInputError(msg)
    try:
        focus.encode()
    except UnicodeEncodeError as error:
        msg = f"the focus is not valid Unicode text at character {error.start}"
        raise InvalidInputError(msg) from error


def replay(
    history: Sequence[Turn], *, is_open: bool = False, after: int = 1, turns: int = 0
) -> list[Body]:
    """Return the events of a conversation that took place elsewhere.

    Args:
        history: Its turns, oldest first.
        is_open: Whether the last of them goes on: the model is called next.
        after: The event that they follow; by default the one that begins a session.
        turns: How many turns came before them.
    """
    bodies: list[Body] = []
    for number, turn in enumerate(history, turns + 1):
        goes_on = is_open and number == turns + len(history)
        first = after + len(bodies) + 1
        bodies += [
            Received(
                text=user.text,
                sender=user.sender,
                attachments=user.attachments,
                retry_for_s=user.retry_for_s,
                options=user.options,
            )
            for user in turn.users
        ]
        received = tuple(range(first, first + len(turn.users)))
        bodies.append(TurnStarted(turn=number, received=received, window_messages=2000))
        for index, step in enumerate(turn.steps, 1):
            reply = step.reply
            bodies.append(StepStarted(turn=number, step=index, model=""))
            bodies.append(ModelReplied(text=reply.text, calls=reply.calls))
            bodies += [
                CallFinished(
                    call_id=r.call_id,
                    text=r.text,
                    untrusted=r.untrusted,
                    source=r.source,
                    images=r.attachments,
                )
                for r in step.results
            ]
        if not goes_on:
            bodies.append(TurnFinished(turn=number, outcome="answered"))
    return bodies
