"""What all bodies share: no unknown fields, instants, ids, and how one is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    WithJsonSchema,
)
from starlette.responses import Response

Timestamp: TypeAlias = Annotated[
    str,
    WithJsonSchema(
        {"type": "string", "format": "date-time", "examples": ["2026-11-21T22:49:56.123456Z"]}
    ),
]
RETRY_FOR_MAX_S = 7 * 86_400  # of a wait for a model that a client asks for
NOT_BLANK = r"[^\s]"  # the pattern of a text that says something
MessageId: TypeAlias = Annotated[str, Field(pattern=r"^m[0-9]+$", examples=["m7"])]
TurnId: TypeAlias = Annotated[str, Field(pattern=r"^t[0-9]+$", examples=["t2"])]


class Body(BaseModel):
    """Base of all bodies: no unknown fields, no changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def answer(body: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return `body` as a JSON answer."""
    # As `model_dump_json` does, which decodes it, for the answer to encode it again.
    return answer_json(body.__pydantic_serializer__.to_json(body), status, headers)


def answer_json(data: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a body that is JSON already as an answer."""
    return _JsonAnswer(data, status, headers)


class _JsonAnswer(Response):
    """A body that is JSON already. Starlette looks through the headers for those it adds."""

    media_type = "application/json"

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """Set the headers, which hold neither length nor type."""
        self.raw_headers = [
            *(
                [(k.lower().encode(), v.encode("latin-1")) for k, v in headers.items()]
                if headers
                else ()
            ),
            (b"content-length", b"%d" % len(self.body)),
            (b"content-type", b"application/json"),
        ]
