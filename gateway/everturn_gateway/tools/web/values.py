"""What a fetch gives: values, and the error that is told to the model. Pure."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from msgspec import Struct

LIMIT_BYTES: Final = 5 * 1024 * 1024  # of a page, as it is sent and when it is unpacked

_TEXTS: Final = frozenset(
    (
        *("json", "xml", "yaml", "toml", "javascript", "ecmascript", "ndjson", "jsonl", "json-seq"),
        *("graphql", "httpd-php", "latex", "python", "sh", "sql", "subrip", "tex", "typescript"),
    )
)
"Names of media types that are text although they do not begin with `text/`."


class FetchError(Exception):
    """A page cannot be fetched; the text is for the model.

    Attributes:
        heard: Whether somebody out there had a say in the text.
    """

    def __init__(self, message: str, *, heard: bool = False) -> None:
        self.heard = heard
        super().__init__(message)


class Fetched(Struct, frozen=True, kw_only=True):
    """What a server answered."""

    address: str
    "Where it was found in the end."
    status: int
    media_type: str
    "In lower case, without parameters; empty where the server does not say."
    charset: str
    encoding: str
    "Of the body: gzip, deflate or empty."
    body: bytes
    "At most `LIMIT_BYTES`; empty where it is no text."
    size_bytes: int | None
    "As the server says; None where it does not."
    retry_after: str
    notes: tuple[str, ...] = ()
    "What a reader has to know, in words."

    @property
    def is_error(self) -> bool:
        """Whether the server says that this is not what was asked for."""
        return self.status >= 400

    @property
    def reason(self) -> str:
        """The status in words, as the standard calls it."""
        try:
            return HTTPStatus(self.status).phrase
        except ValueError:
            return "unknown status"


def is_text(media_type: str) -> bool:
    """Return whether a body of this type can be read as text; one without a type may be."""
    kind, _, name = media_type.partition("/")
    return (
        not media_type
        or kind == "text"
        or name.endswith(("+json", "+xml", "+yaml"))
        or name.removeprefix("x-") in _TEXTS
    )
