"""Errors, as they are described in OpenAPI."""

from __future__ import annotations

from pydantic import (
    BaseModel,
    Field,
)


class FieldErrorBody(BaseModel):
    """One fault of the input."""

    detail: str
    pointer: str | None = Field(default=None, description="Place in the body: `#/content`.")
    parameter: str | None = Field(
        default=None, description="Or the parameter, with its place: `query.limit`."
    )


class ProblemBody(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str = Field(examples=["urn:everturn:problem:unknown-session"])
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldErrorBody] | None = None


class OpenAIErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIErrorBody(BaseModel):
    """An error, as OpenAI's clients read it."""

    error: OpenAIErrorDetail
