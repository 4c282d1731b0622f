"""What may come with a message, and under which name it is kept."""

from __future__ import annotations

from hashlib import sha256

import pytest
from support.pictures import GIF, JPEG, WEBP, picture, png
from support.tables import table

from everturn_actors.errors import InvalidInputError
from everturn_actors.model import Attachment, IncomingMessage, Upload, UserMessage
from everturn_actors.state.validation import (
    ATTACHMENT_BYTES,
    attachment_of,
    check,
    check_uploads,
    sniffed,
    sound_seconds,
    type_of,
)


@table(
    ("data", "kind"),
    [
        (png(), "image/png"),
        (JPEG, "image/jpeg"),
        (GIF, "image/gif"),
        (WEBP, "image/webp"),
        (b"%PDF-1.7", ""),
        (b"RIFF\x24\x00\x00\x00WAVEfmt ", ""),
        (b"<svg/>", ""),
        (b"", ""),
    ],
)
def test_images_are_known_by_how_they_begin(data: bytes, kind: str) -> None:
    """A provider refuses a whole request for an image that is none."""
    assert sniffed(data) == kind


@table(
    ("upload", "why"),
    [
        (Upload(data=b"", media_type="image/png"), "is empty"),
        (Upload(data=b"x" * (ATTACHMENT_BYTES + 1)), "at most 20971520 are accepted"),
        (Upload(data=b"x", media_type="png"), "the media type 'png'"),
        (Upload(data=b"x", media_type="a/b/c"), "the media type 'a/b/c'"),
        (Upload(data=b"x", media_type="image/png\r\nX: y"), "the media type"),
        (Upload(data=JPEG, media_type="image/png"), "begin as image/jpeg"),
        (Upload(data=b"<html>", media_type="image/png"), "are no such image"),
        (Upload(data=png(), media_type="text/html"), "begin as image/png"),
        (Upload(data=b"x", file_name="../passwd"), "has a path as its name"),
        (Upload(data=b"x", file_name="a\\b"), "has a path as its name"),
        (Upload(data=b"x", file_name=".."), "has a path as its name"),
        (Upload(data=b"x", file_name="a\nb"), "control characters"),
        (Upload(data=b"x", file_name="cod\u202egpj.exe"), "control characters"),
        (Upload(data=b"x", file_name="\ud800"), "control characters"),
        (Upload(data=b"x", file_name="n" * 256), "at most 255"),
    ],
)
def test_what_cannot_come_with_a_message_is_refused(upload: Upload, why: str) -> None:
    """The error names the file and says what is wrong, before anything is written."""
    with pytest.raises(InvalidInputError, match="attachment 2") as caught:
        check_uploads([picture(), upload])

    assert why in str(caught.value)


def test_a_message_has_words_or_files_and_not_too_many_of_these() -> None:
    """A picture says something by itself; nothing at all says nothing."""
    check(IncomingMessage(text="", attachments=(picture(),)))
    with pytest.raises(InvalidInputError, match="the message is empty"):
        check(IncomingMessage(text=" "))

    # What one message may hold is bounded.
    with pytest.raises(InvalidInputError, match="11 attachments; at most 10"):
        check_uploads([picture(number) for number in range(11)])
    check_uploads([picture(number) for number in range(10)])


@table(
    ("upload", "kind", "ending"),
    [
        (picture(), "image/png", ".png"),
        (Upload(data=png()), "image/png", ".png"),
        (Upload(data=JPEG, media_type="image/jpg"), "image/jpeg", ".jpg"),
        (Upload(data=b"a", media_type="Text/Plain; charset=utf-8"), "text/plain", ".txt"),
        (Upload(data=b"a"), "application/octet-stream", ".bin"),
        (Upload(data=b"a", media_type="application/x-odd"), "application/x-odd", ".bin"),
    ],
)
def test_a_file_is_kept_under_the_hash_of_its_bytes(upload: Upload, kind: str, ending: str) -> None:
    """The same picture twice takes the room of one, and no sender chooses a name on disk."""
    kept = attachment_of(upload)

    assert kept.name == sha256(upload.data).hexdigest() + ending
    assert (kept.media_type, kept.size_bytes) == (kind, len(upload.data))
    assert type_of(kept.name) in {kind, "application/octet-stream"}


def test_words_stand_for_files_where_nobody_sees_them() -> None:
    """Summaries, transcripts and models without eyes are told what came."""
    large = Attachment(name="x.bin", media_type="video/mp4", size_bytes=3 * 1024 * 1024)
    small = Attachment(name="y.txt", media_type="text/plain", file_name="a.txt", size_bytes=7)

    assert UserMessage(text="see", attachments=(large, small)).as_text == (
        "see\n[attached: x.bin, video/mp4, 3.0 MB]\n[attached: a.txt, text/plain, 7 bytes]"
    )
    assert UserMessage(text="", attachments=(small,)).as_text.startswith("[attached")
    assert UserMessage(text=" as it is ").as_text == " as it is "


@table(
    ("told", "seconds"),
    [
        (2.5, 2.5),
        (3, 3.0),
        (86_401, 86_400.0),
        (10**400, 86_400.0),
        *((each, 0.0) for each in (0, -1, float("nan"), float("inf"), True, "2", None)),
    ],
)
def test_a_sound_lasts_a_day_at_most_whatever_anybody_says(told: object, seconds: float) -> None:
    """What is written down is a number of JSON, and no claim makes a sum overflow."""
    assert repr(sound_seconds(told)) == repr(seconds)
