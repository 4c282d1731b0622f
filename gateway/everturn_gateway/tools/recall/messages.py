"""What was said, from the events of a log, and how it is quoted. Pure.

Quotes stand between two lines that nobody who took part could foresee; in a transcript only the
first line of a message begins at the margin. So nothing that was said can pass for something else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from everturn_actors.context.projection.markers import RECALL_TOOL
from everturn_actors.events import (
    Announced,
    CallFinished,
    Event,
    ModelReplied,
    Received,
    Summarised,
    Transcribed,
    TurnFinished,
)
from everturn_actors.model import ToolCall, UserMessage
from everturn_actors.outside import one_source, plain_line, source_of
from everturn_gateway.search.texts import QUOTED_LINE, readable
from everturn_gateway.tools.recall.pages import Page, character_start

NAME: Final = RECALL_TOOL
Kind: TypeAlias = Literal["user", "assistant", "result", "summary", "turn"]

_SHOWN_CHARACTERS = 1_000  # of a result or of arguments in a transcript; `message` gives the rest
_NAME_CHARACTERS = 80
_BOUNDARY_DIGITS = 10


class Said(Struct, frozen=True, kw_only=True):
    """One message of a log, or what else it tells of the conversation."""

    seq: int
    at: datetime
    kind: Kind
    text: str
    name: str = ""
    "Who wrote it, for what it was said, or which tool gave it; empty where that is not known."
    calls: tuple[ToolCall, ...] = ()
    call: ToolCall | None = None
    "Of a result: the call that it answers, where that is known."
    call_id: str = ""
    is_error: bool = False
    path: str = ""
    "The file that holds its whole text."
    sources: tuple[str, ...] = ()
    "The text from outside that stands in it, or was shown to the model that wrote it."


def said(events: Iterable[Event], calls: Sequence[ToolCall] = ()) -> Iterator[Said]:
    """Yield what `events` tell of the conversation, oldest first.

    `calls` are those of the step in which the first event stands.
    """
    open_calls = {call.call_id: call for call in calls}
    for event in events:
        if isinstance(event.body, ModelReplied):
            open_calls = {call.call_id: call for call in event.body.calls}
        found = _said(event, open_calls)
        if found is not None:
            yield found


def _said(event: Event, calls: dict[str, ToolCall]) -> Said | None:
    seq, at = event.seq, event.at
    match event.body:
        case Received(text=text, sender=sender, attachments=attached, untrusted=untrusted):
            message = UserMessage(text=text, sender=sender, attachments=attached)
            sources = (source_of(message),) * untrusted
            return Said(
                seq=seq, at=at, kind="user", text=message.as_text, name=sender, sources=sources
            )
        case Transcribed(heard=heard, sender=sender, untrusted=untrusted):
            sources = (source_of(UserMessage(text=heard, sender=sender)),) * untrusted
            return Said(seq=seq, at=at, kind="user", text=heard, name=sender, sources=sources)
        case ModelReplied(text=text, calls=made, outside=sources, retells=retells):
            shown = () if retells else sources
            return Said(seq=seq, at=at, kind="assistant", text=text, calls=made, sources=shown)
        case Announced(text=text, title=title, untrusted=untrusted):
            name = f"for {title}" if title else ""
            sources = ("what a scheduled job said",) * untrusted
            return Said(seq=seq, at=at, kind="assistant", text=text, name=name, sources=sources)
        case CallFinished(call_id=call_id, text=text, is_error=is_error, path=path) as body:
            call = calls.get(call_id)
            source = body.source or one_source(f"what {call.name if call else 'a call'} gave")
            return Said(
                seq=seq,
                at=at,
                kind="result",
                text=text,
                name=call.name if call else "",
                call=call,
                call_id=call_id,
                is_error=is_error,
                path=path,
                sources=(source,) * body.untrusted,
            )
        case Summarised(text=text, last_turn=last_turn, path=path, outside=sources):
            name = f"turn {last_turn}"
            return Said(
                seq=seq, at=at, kind="summary", text=text, name=name, path=path, sources=sources
            )
        case TurnFinished(outcome=outcome, error=error) if outcome != "answered":
            text = f"{outcome}: {error}" if error else outcome
            return Said(seq=seq, at=at, kind="turn", text=text)
        case _:
            return None


def heading(message: Said) -> str:
    """Return whose message it is, in a few words: `result of bash (call c1)`."""
    name = one_line(message.name)
    match message.kind:
        case "user" | "assistant":
            return f"{message.kind} {name}".strip()
        case "result":
            kind = "failed result" if message.is_error else "result"
            return f"{kind} of {name or 'a call'} (call {one_line(message.call_id)})"
        case "summary":
            return f"summary up to {name}"
        case "turn":
            return "the turn ended without an answer"


def whole(message: Said, text: str, *, arguments: bool = False) -> str:
    """Return all there is of a message.

    Args:
        message: The message.
        text: Its whole text, which may have stood in a file.
        arguments: Whether the arguments of the call stand before a result, however long they are.
    """
    if message.call is not None:
        limit = None if arguments else _SHOWN_CHARACTERS
        return f"{_call(message.call, limit)}\n\n{text}"
    calls = "\n".join(_call(call, None) for call in message.calls)
    return "\n\n".join(part for part in (text, calls) if part)


def transcript(messages: Iterable[Said]) -> str:
    """Return messages as lines for a reader: whose each is, and its number.

    Long results, arguments and summaries are shortened and name what to ask for; what this very
    tool returned is not repeated.
    """
    return "".join(_entry(message) for message in messages)


def _entry(message: Said) -> str:
    text, more = message.text, ask(message=message.seq)
    if message.kind == "result" and message.name == NAME:
        text = f"[{len(text):,} characters quoted from elsewhere: {more}]"
    elif message.kind in {"result", "summary"}:
        text = _shortened(text, _SHOWN_CHARACTERS, more)
    calls = [_call(call, _SHOWN_CHARACTERS, more) for call in message.calls]
    lines = "\n".join([*([text] if text or not calls else []), *calls]).splitlines() or [""]
    below = "".join(f"\n  {line}" for line in lines[1:])
    return f"[{message.seq}] {heading(message)}: {lines[0]}{below}\n"


def ask(**arguments: int | str) -> str:
    """Return how to ask for something: `recall_context(message=12)`."""
    return f"{NAME}({', '.join(f'{name}={_argument(value)}' for name, value in arguments.items())})"


def _argument(value: int | str) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _call(call: ToolCall, limit: int | None, more: str = "") -> str:
    arguments = readable(call.arguments)
    if limit is not None:
        arguments = _shortened(arguments, limit, more)
    return f"-> {one_line(call.name)} {arguments} ({one_line(call.call_id)})"


def _shortened(text: str, limit: int, more: str) -> str:
    if len(text) <= limit:
        return text
    kept = text[: character_start(text, limit)]
    rest = f"{len(text) - len(kept):,} more characters"
    return f"{kept} [... {rest}{f': {more}' if more else ''}]"


_NO_BRACKETS: Final = str.maketrans("[]", "  ")


def one_line(text: str, limit: int = _NAME_CHARACTERS) -> str:
    """Return a text that came from outside as a part of a line of ours."""
    line = plain_line(text[: 4 * limit].translate(_NO_BRACKETS))
    return line if len(line) <= limit else f"{line[: character_start(line, limit)]}…"


def framed(label: str, page: Page, notes: Sequence[str] = ()) -> str:
    """Return one page of a quote, between lines that say where it comes from and what to ask next.

    Args:
        label: What is quoted.
        page: The page.
        notes: What a reader has to know about it, in our words.
    """
    place = f", page {page.number} of {page.total}" if page.total > 1 else ""
    further = f"; ask with page={page.number + 1} for the next" if page.number < page.total else ""
    mark = _boundary(page.text)
    head = [f"[{label}{place}{further}]", *notes, QUOTED_LINE]
    return "\n".join([*head, f"<quote-{mark}>", page.text, f"</quote-{mark}>"])


def _boundary(text: str) -> str:
    """Return a name that stands nowhere in `text`, and is the same for the same text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    while (name := digest.hexdigest()[:_BOUNDARY_DIGITS]) in text:
        digest.update(b"\n")
    return name
