"""Messages and turns: what requests and answers hold of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from everturn_actors.codec import encode
from everturn_actors.gaps import Gap, GapCause
from everturn_actors.model import (
    Outcome,
    ToolCall,
)
from everturn_actors.service import TurnResult
from everturn_gateway.http.schemas.base import (
    NOT_BLANK,
    RETRY_FOR_MAX_S,
    Body,
    MessageId,
    Timestamp,
    TurnId,
)
from everturn_gateway.http.schemas.sessions import UsageBody
from everturn_gateway.http.uploads import AttachmentBody, Attachments
from everturn_gateway.usage import NANODOLLARS


def _whole(value: object) -> object:
    """Return a whole number as an int, however it is written: to JSON, 60.0 is an integer too.

    Source: JSON Schema 2020-12, Validation, section 6.1.1 (read 2026-11-23).
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


class NewMessage(Body):
    """A message to the agent."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"properties": {"content": {"minLength": 1, "pattern": NOT_BLANK}}},
                {"properties": {"attachments": {"minItems": 1}}, "required": ["attachments"]},
            ]
        }
    )

    attachments: Attachments = ()  # before the text, which may be empty where there are some
    content: str = Field(
        description="The text; at most 1 MiB in UTF-8, and more than blanks where no file comes"
        " with it.",
        examples=["Good morning!"],
    )
    untrusted: bool = Field(
        default=False,
        strict=True,
        description="Whether it holds text from outside that nobody vouches for: calls with effects"
        " ask again then.",
    )
    retry_for_seconds: (
        Annotated[int, Field(strict=True, ge=0, le=RETRY_FOR_MAX_S), BeforeValidator(_whole)] | None
    ) = Field(
        default=None,
        description="For how long an outage of the model is waited out before the turn fails, where"
        " that should be less than the agent's `spec.model.retry_for_seconds`; 0 = not at all.",
    )

    @field_validator("content")
    @classmethod
    def _says_something(cls, content: str, info: ValidationInfo) -> str:
        if not content.strip() and not info.data.get("attachments"):
            kind, why = "blank", "must be more than blanks"
            raise PydanticCustomError(kind, why)
        if not content.isascii():
            try:
                content.encode()
            except UnicodeEncodeError as error:
                kind, why = "not_unicode", "must be valid Unicode text"
                raise PydanticCustomError(kind, why) from error
        return content


class ToolCallBody(Body):
    """A call that the model asked for."""

    id: str
    name: str
    arguments: str = Field(description="JSON text of an object, as the model wrote it.")

    @staticmethod
    def of(call: ToolCall) -> ToolCallBody:
        """Return the body of `call`."""
        return ToolCallBody(id=call.call_id, name=call.name, arguments=call.arguments)


class MessageBody(Body):
    """One message of a session's history."""

    message_id: MessageId
    turn_id: TurnId | None = Field(
        description="Null while the message waits for its turn, where it was dropped, and for what"
        " was said without a turn."
    )
    role: Literal["user", "assistant", "tool"]
    content: str
    created_at: Timestamp
    sender: str = ""
    attachments: tuple[AttachmentBody, ...] = ()
    tool_calls: tuple[ToolCallBody, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    usage: UsageBody | None = None


class GapBody(Body):
    """A run of events that the log no longer holds, and with them their messages."""

    first: int = Field(description="Number of the first missing event.")
    last: int = Field(description="Number of the last one.")
    cause: GapCause = Field(
        description="`discarded` on purpose (compaction), `lost` by damage, or not known which."
    )
    text: str = Field(description="The same in words.")

    @staticmethod
    def of(gap: Gap) -> GapBody:
        """Return the body of `gap`."""
        return GapBody(first=gap.first, last=gap.last, cause=gap.cause, text=gap.text)


class MessageList(Body):
    """A page of messages, oldest first."""

    messages: tuple[MessageBody, ...]
    next: MessageId | None = Field(description="`after` of the next page; null on the last one.")
    gaps: tuple[GapBody, ...] = Field(
        default=(), description="What is missing before, between or after these messages."
    )


class ReplyBody(Body):
    """How a turn was answered."""

    session_id: str
    message_id: MessageId
    turn_id: TurnId
    role: Literal["assistant"] = "assistant"
    content: str
    usage: UsageBody
    outcome: Outcome
    refused: tuple[str, ...] = Field(
        description="Calls that did not run, each with the reason: by the policy, by a person, or"
        " for want of one."
    )

    @staticmethod
    def of(result: TurnResult) -> ReplyBody:
        """Return the body of `result`."""
        return ReplyBody(
            session_id=result.session_id,
            message_id=f"m{result.message_seq}",
            turn_id=f"t{result.turn}",
            content=result.text,
            usage=UsageBody.of(result.usage),
            outcome=result.outcome,
            refused=result.refused,
        )

    @staticmethod
    def encoded(result: TurnResult) -> bytes:
        """Return the body of `result` as JSON, past pydantic: every turn over HTTP ends here.

        To make the models and to write them took as long as to decide a message.
        """
        usage = result.usage
        return encode(
            {
                "session_id": result.session_id,
                "message_id": f"m{result.message_seq}",
                "turn_id": f"t{result.turn}",
                "role": "assistant",
                "content": result.text,
                "usage": {
                    "input_tokens": usage.input_tokens,
                    "output_tokens": usage.output_tokens,
                    "cached_tokens": usage.cached_tokens,
                    "cache_written_tokens": usage.cache_written_tokens,
                    "cost_usd": usage.cost_nanodollars / NANODOLLARS,
                },
                "outcome": result.outcome,
                "refused": result.refused,
            }
        )


class AcceptedBody(Body):
    """A message that was accepted, and is answered later."""

    session_id: str
    message_id: MessageId
    events: str = Field(description="Path of the events that follow the message.")


class RetriedBody(Body):
    """A turn that is asked again."""

    session_id: str
    event: int = Field(description="The event that begins it.")
    events: str = Field(description="Path of the events that follow it.")


class CancelledBody(Body):
    """What a cancellation did."""

    cancelled: bool = Field(description="Whether a turn was running.")


class ResumedBody(Body):
    """What the request to go on did."""

    resumed: bool = Field(description="Whether a turn was paused.")
