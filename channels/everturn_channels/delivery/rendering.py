"""What an outbox item looks like as messages of a platform. Pure.

A chunk's payload is what the adapter rendered, or, behind a mark that no text begins with, which
file is sent in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final

from everturn_actors.model import Attachment, OutboxItem
from everturn_channels.adapter import Adapter, Button, Capabilities
from everturn_channels.delivery.approvals import approval_token, button_data, choice_data
from everturn_channels.delivery.questions import Question
from everturn_channels.delivery.words import end_text, question_text
from everturn_channels.names import one_line
from everturn_channels.settings import ChannelSettings
from everturn_channels.texts import button_label

REPLY_FILE: Final = "reply.md"
_FILE_MARK: Final = "\x1d"  # a control character: nobody's text begins with it, see `_texts`
_WHOLE: Final = "reply"
_NONCE_HEX_DIGITS: Final = 24  # a nonce has at most 25 characters


def render(
    item: OutboxItem,
    question: Question,
    session_id: str,
    adapter: Adapter,
    settings: ChannelSettings,
) -> tuple[str, ...]:
    """Return the payloads of an outbox item, in the order in which they are sent."""
    match item.kind:
        case "reply":
            if item.attachments:  # what stands behind a whole reply is sent only in its place
                return (*_texts(adapter, item.text), *_files(item, adapter))
            return _reply(item.text, adapter, settings)
        case "file":
            return (*_texts(adapter, item.text), *_files(item, adapter))
        case "notice" | "undelivered":
            return _texts(adapter, item.text, is_plain=True)
        case "end":
            return _texts(adapter, end_text(item))
        case "approval":
            if question.approval is None:
                return ()
            text = question_text(
                question.call,
                question.approval,
                session_id,
                has_buttons=adapter.capabilities.buttons,
            )
            return _texts(adapter, text, is_plain=True)


def _files(item: OutboxItem, adapter: Adapter) -> Iterator[str]:
    """Yield the payloads of the files of an item."""
    # An answer's sound stands beside its text: where no files go, nobody misses it.
    takes_files = adapter.capabilities.files_max_bytes > 0
    files = [
        (number, file)
        for number, file in enumerate(item.attachments)
        if takes_files or not file.is_voice
    ]
    for each in _albums(files, adapter.capabilities):
        yield f"{_FILE_MARK}{','.join(map(str, each))}"


def line(adapter: Adapter, text: str) -> str:
    """Return one payload for a short plain text; empty where nothing of it can be shown."""
    return next(iter(adapter.render(text, is_plain=True)), "")


def is_whole_reply(payload: str) -> bool:
    """Whether the chunk is the reply as a file; the chunks after it are the same as messages."""
    return payload == f"{_FILE_MARK}{_WHOLE}"


def attachments_of(item: OutboxItem, payload: str) -> tuple[Attachment, ...]:
    """Return the files that the chunk is, as one message; none where it is something else."""
    numbers = payload.removeprefix(_FILE_MARK)
    if numbers in {payload, _WHOLE}:
        return ()
    return tuple(item.attachments[int(number)] for number in numbers.split(","))


def _albums(
    files: Iterable[tuple[int, Attachment]], able: Capabilities
) -> Iterator[tuple[int, ...]]:
    """Yield the numbers of files that go as one message: in order, of a kind, within its bounds."""
    album: list[tuple[int, Attachment]] = []
    for number, file in files:
        size_bytes = sum(each.size_bytes for _, each in album) + file.size_bytes
        has_room = len(album) < able.files_at_once and size_bytes <= able.files_max_bytes
        if album and not (has_room and _kind(file) == _kind(album[0][1]) and not file.is_voice):
            yield tuple(each for each, _ in album)
            album = []
        album.append((number, file))
    if album:
        yield tuple(each for each, _ in album)


def _kind(file: Attachment) -> str:
    return "voice" if file.is_voice else "picture" if file.is_image else "file"


def buttons_of(question: Question, session_id: str) -> tuple[Button, ...]:
    """Return the buttons below a question."""
    approval = question.approval
    if approval is None:
        return ()
    token = approval_token(session_id, approval)
    if approval.inquiry is not None:
        return tuple(
            Button(label=one_line(choice), data=choice_data(number, token))
            for number, choice in enumerate(approval.inquiry.choices, 1)
        )
    always = (
        (Button(label=button_label("allow_always"), data=button_data("allow_always", token)),)
        if approval.pattern
        else ()
    )
    return (
        Button(label=button_label("allow_once"), data=button_data("allow_once", token)),
        *always,
        Button(label=button_label("deny"), data=button_data("deny", token)),
    )


def nonce(session_id: str, *parts: str | int) -> str:
    """Return what names one message of one session, the same whenever it is sent."""
    text = "\n".join((session_id, *map(str, parts)))
    return sha256(text.encode()).hexdigest()[:_NONCE_HEX_DIGITS]


def preview_nonce(session_id: str, turn: int, step: int) -> str:
    """Return what names the message that shows the reply of a step as it comes."""
    return nonce(session_id, "preview", turn, step)


def _reply(text: str, adapter: Adapter, settings: ChannelSettings) -> tuple[str, ...]:
    """Return a reply as messages; a long one, by setting, as its beginning and a file.

    Behind the file stand the other messages: where the file is refused, they are sent.
    """
    payloads = _texts(adapter, text)
    if settings.long_replies == "split" or len(payloads) <= max(settings.file_after_chunks, 1):
        return payloads
    if len(text.encode()) > adapter.capabilities.files_max_bytes:
        return payloads
    return (payloads[0], f"{_FILE_MARK}{_WHOLE}", *payloads[1:])


def _texts(adapter: Adapter, text: str, *, is_plain: bool = False) -> tuple[str, ...]:
    return adapter.render(text.replace(_FILE_MARK, " "), is_plain=is_plain) if text else ()
