"""What a server asks a person, question by question, and what it is answered. Pure.

A form is asked one field after the other: so it fits every place where people answer, and each
answer is durable before the next question. All that is needed to go on stands in `encoded`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

import anyio
import msgspec
from msgspec import Struct

from everturn_actors.model import Approval, Inquiry
from everturn_actors.ports import InquiryToMake
from everturn_channels.names import one_line, visible
from everturn_gateway.tools.mcp.requests.fields import (
    DECLINE,
    Field,
    InvalidAnswerError,
    Value,
    read_fields,
)
from everturn_gateway.tools.mcp.requests.values import (
    RefusedError,
    Response,
    ServerQuestions,
    ServerRequest,
)

MESSAGE_CHARACTERS: Final = 2_000  # of what a server says; more is cut
URL_CHARACTERS: Final = 2_000
QUESTIONS_MOST: Final = 40  # of one call, those that are asked again after a slip included
TRIES_MOST: Final = 3  # at one field
FORMS_MOST: Final = 5  # at once
STATE_CHARACTERS: Final = 256 * 1024
_OPENED: Final = "I opened it"
_YES: Final = "Yes"

Action: TypeAlias = Literal["accept", "decline", "cancel"]


class Form(Struct, frozen=True, kw_only=True):
    """One question of a server: a form, or an address to open."""

    key: str
    "Names it among those of one round."
    message: str
    fields: tuple[Field, ...] = ()
    "In their order; none = it is only to be confirmed."
    url: str = ""


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of a form."""

    action: Action
    content: dict[str, Value] | None = None

    @property
    def response(self) -> Response:
        """As the protocol has it."""
        has_content = self.content is not None and self.action == "accept"
        content: Response = {"content": self.content} if has_content else {}
        return {"action": self.action, **content}


class Progress(Struct, kw_only=True):
    """How far an interview is; written down with each question."""

    forms: tuple[Form, ...]
    wanted: ServerQuestions | None = None
    "The round that they belong to; None = the call is open, and waits."
    rounds: int = 0
    asked: int = 0
    outcomes: dict[str, Outcome] = {}
    content: dict[str, Value] = {}
    "Of the present form."
    at: int = 0
    "The field of it that is asked."
    tries: int = 0
    complaint: str = ""
    "What is wrong with the last answer."


class Interview:
    """Implements `Questions`."""

    def __init__(
        self, progress: Progress, *, server: str, tool: str, withdrawn: anyio.Event | None = None
    ) -> None:
        """Begin, or go on.

        Args:
            progress: How far it is.
            server: Who asks, as the agent's owner calls it.
            tool: What it was called for.
            withdrawn: Set when the server waits no more.
        """
        self.progress = progress
        self.withdrawn = withdrawn
        self._server, self._tool = server, tool

    @property
    def outcomes(self) -> Mapping[str, Outcome]:
        """What became of each form, by its key; one that is not over is dismissed."""
        cancelled = Outcome(action="cancel")
        found = self.progress.outcomes
        return {form.key: found.get(form.key, cancelled) for form in self.progress.forms}

    @property
    def _form(self) -> Form | None:
        done = self.progress.outcomes
        return next((form for form in self.progress.forms if form.key not in done), None)

    def current(self) -> InquiryToMake | None:
        """Return the question that is to be asked now; None = there is none left."""
        form, progress = self._form, self.progress
        if form is None:
            return None
        if progress.asked >= QUESTIONS_MOST:
            self._end_all("cancel")
            return None
        field = form.fields[progress.at] if form.fields else None
        choices = field.buttons if field else (_OPENED if form.url else _YES, DECLINE)
        inquiry = Inquiry(
            text=self._text(form, field),
            choices=choices,
            takes_text=not choices,
            by_message=True,
        )
        state = "" if progress.wanted is None else msgspec.json.encode(progress).decode()
        if len(state) > STATE_CHARACTERS:
            msg = "it asks for more than can be written down"
            raise RefusedError(msg)
        return InquiryToMake(inquiry=inquiry, state=state)

    def take(self, answer: Approval) -> None:
        """Take what became of the present question."""
        self.progress.asked += 1
        match answer.resolution:
            case "answer":
                self._answer(answer.answer)
            case "deny":
                self._end("decline")
            case _:  # nobody is there, or says something else: so it is with the others, too
                self._end_all("cancel")

    def decline(self) -> None:
        """Say that nobody answers: there is nobody."""
        self._end_all("decline")

    def _answer(self, typed: str) -> None:
        form, progress = self._form, self.progress
        if form is None:
            return
        if not form.fields:
            self._end("decline" if typed == DECLINE else "accept")
            return
        field = form.fields[progress.at]
        if field.declines(typed):
            self._end("decline")
            return
        try:
            if not field.skips(typed):
                progress.content[field.name] = field.read(typed)
            elif field.default is not None:
                progress.content[field.name] = field.default
        except InvalidAnswerError as error:
            progress.complaint = str(error)
            progress.tries += 1
            if progress.tries >= TRIES_MOST:
                self._end("cancel")
            return
        progress.at += 1
        progress.tries, progress.complaint = 0, ""
        if progress.at >= len(form.fields):
            self._end("accept")

    def _end(self, action: Action) -> None:
        form, progress = self._form, self.progress
        assert form is not None, "the caller has looked"
        content = progress.content if form.url == "" else None
        progress.outcomes[form.key] = Outcome(action=action, content=content)
        progress.content, progress.complaint = {}, ""
        progress.at = progress.tries = 0

    def _end_all(self, action: Action) -> None:
        while self._form is not None:
            self._end(action)

    def _text(self, form: Form, field: Field | None) -> str:
        """Return the question, in which nothing of the server's passes for a word of ours."""
        number = self.progress.at + 1
        place = f" ({number} of {len(form.fields)})" if len(form.fields) > 1 else ""
        asks = "asks you to open a page" if form.url else f"asks{place}"
        lines = [f"The MCP server “{one_line(self._server)}” {asks}, for {one_line(self._tool)}:"]
        lines += _quoted(form.message)
        if form.url:
            host = urlsplit(form.url).hostname or ""
            lines += [f"The page is at {host}:", form.url, "Nothing opens it for you."]
        elif field is not None:
            about = f": {field.description}" if field.description else ""
            lines += _quoted(f"{field.title}{about}")
            lines += [f"| {each}" for each in field.listed]
            lines += [each for each in (field.hint, field.ways) if each]
        if self.progress.complaint:
            lines.append(f"Your last answer did not fit. {self.progress.complaint}")
        if not form.url:
            lines.append("The server gets your answer; give it no password.")
        return "\n".join(lines)


def _quoted(text: str) -> list[str]:
    cut = text[:MESSAGE_CHARACTERS] + ("…" if len(text) > MESSAGE_CHARACTERS else "")
    return [f"| {line}" for line in visible(cut).split("\n") if line.strip()]


def read_form(key: str, request: ServerRequest) -> Form:
    """Return what a server asks a person.

    Raises:
        RefusedError: It is nothing that a person is asked.
    """
    params = request.params
    message = params.get("message")
    said = message if isinstance(message, str) else ""
    # Cut here, so that what is written down stays small; one more, so that the cut is seen.
    said = said[: MESSAGE_CHARACTERS + 1]
    if params.get("mode") == "url":
        return Form(key=key, message=said, url=_url(params.get("url")))
    return Form(key=key, message=said, fields=read_fields(params.get("requestedSchema")))


def _url(said: object) -> str:
    try:
        parts = urlsplit(said if isinstance(said, str) else "")
        host, has_user = parts.hostname, "@" in parts.netloc
        is_page = parts.scheme in {"https", "http"}
    except ValueError:
        host, has_user, is_page = None, False, False
    fits = isinstance(said, str) and len(said) <= URL_CHARACTERS and said.isascii()
    # An address with a name before the host is made to look like another's.
    if not fits or not host or has_user or not is_page:
        msg = "the address that it wants to be opened is no plain address of a page"
        raise RefusedError(msg)
    if not str(said).isprintable() or " " in str(said):
        msg = "the address that it wants to be opened holds characters that nobody sees"
        raise RefusedError(msg)
    return str(said)


def read_progress(state: str) -> Progress | None:
    """Return how far an interview was; None where that cannot be read."""
    try:
        return msgspec.json.decode(state, type=Progress)
    except msgspec.DecodeError:
        return None
