"""What people read besides replies: ends of turns, questions, files that cannot be sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from everturn_actors.model import (
    OWNER_PREFIX,
    Approval,
    Attachment,
    FileDigest,
    Inquiry,
    OutboxItem,
    Resolution,
    ToolCall,
)
from everturn_channels.languages import t
from everturn_channels.names import one_line, visible
from everturn_channels.texts import button_label, turn_ended

_NAMES_MAX: Final = 6  # tools in a line; more tell nobody anything
_ARGUMENTS_INDENT: Final = 2
_FILES_NAMED: Final = 10  # files in a question; a number tells of the rest
_ANSWER_CHARACTERS: Final = 500
_FILE_CHARACTERS: Final = 120  # of one of their paths


def end_text(item: OutboxItem) -> str:
    """Return why a turn was not answered, as Markdown."""
    return turn_ended(item.outcome, item.text)


def missing_file(attachment: Attachment) -> str:
    """Return the line in place of a file that is gone."""
    return t("The file {file} cannot be sent: it is no longer there.", file=_named(attachment))


def large_file(attachment: Attachment, size_bytes: int, limit_bytes: int) -> str:
    """Return the line in place of a file that the platform does not take; 0 = it takes none."""
    if not limit_bytes:
        return t(
            "The file {file} cannot be sent: no files can be sent here.", file=_named(attachment)
        )
    return t(
        "The file {file} cannot be sent: it has {size} bytes, and {limit} can be sent here.",
        file=_named(attachment),
        size=size_bytes,
        limit=limit_bytes,
    )


def refused_file(attachment: Attachment) -> str:
    """Return the line in place of a file that the platform refused."""
    return t("The file {file} could not be sent: it was refused here.", file=_named(attachment))


def question_text(
    call: ToolCall | None, approval: Approval, session_id: str, *, has_buttons: bool
) -> str:
    """Return the question whether a call may run, with all its arguments, as plain text.

    Args:
        call: What is asked about.
        approval: The question.
        session_id: The session, for whoever answers on the command line.
        has_buttons: Whether buttons stand below it.
    """
    inquiry = approval.inquiry
    parts = [inquiry_text(inquiry) if inquiry is not None else call_text(call)]
    if approval.reason.strip():
        parts.append(visible(approval.reason.strip()))
    if held := files_text(approval.files):
        parts.append(held)
    always = visible(approval.pattern)
    if always and has_buttons:
        parts.append(always_text(always))
    parts.append(_who_may(approval.approvers, f"{approval.expires_at:%Y-%m-%d %H:%M}"))
    if inquiry is not None:
        parts += _how_to_answer(inquiry, approval, session_id, has_buttons=has_buttons)
    elif not has_buttons:
        parts.append(
            "\n".join(
                (
                    t("There are no buttons here. Whoever runs the gateway answers with:"),
                    f"everturn approve {session_id} {approval.call_id}",
                    t("(with {option}: it does not run)", option="--deny"),
                )
            )
        )
        if always:
            parts.append(
                t(
                    "(with {option}: from now on every call that fits {pattern})",
                    option="--always",
                    pattern=always,
                )
            )
    return "\n\n".join(parts)


def inquiry_text(inquiry: Inquiry) -> str:
    """Return what an agent wants to know, with the choices by their numbers, as plain text."""
    lines = (f"{n}. {one_line(each)}" for n, each in enumerate(inquiry.choices, 1))
    return "\n".join((visible(inquiry.text), *lines))


def default_text(inquiry: Inquiry) -> str:
    """Return what holds where nobody answers in time; empty where nothing does."""
    if not inquiry.default:
        return ""
    return t("Without an answer: {text}.", text=one_line(inquiry.default))


def _how_to_answer(
    inquiry: Inquiry, approval: Approval, session_id: str, *, has_buttons: bool
) -> Iterator[str]:
    if inquiry.default:
        yield default_text(inquiry)
    if not has_buttons or not inquiry.choices:
        # Whatever is written closes the question, and the agent reads it next.
        yield t("Write the answer here.")
    elif inquiry.takes_text:
        yield t("Or write another answer here.")
    if not has_buttons:
        command = f"everturn approve {session_id} {approval.call_id} --answer ..."
        yield f"{t('Whoever runs the gateway may also answer with:')}\n{command}"


def files_text(files: Sequence[FileDigest]) -> str:
    """Return which files an answer is bound to, in one line; empty where there are none."""
    names = [
        visible(each.path).replace("\n", " ")[:_FILE_CHARACTERS] for each in files if each.is_there
    ]
    if not names:
        return ""
    more = len(names) - _FILES_NAMED
    shown = ", ".join(names[:_FILES_NAMED]) + (_and_more(more) if more > 0 else "")
    return t("An answer holds only while this stays as it is: {files}.", files=shown)


def always_text(pattern: str) -> str:
    """Return what the button does that allows for good."""
    button = button_label("allow_always")
    return t("{button}: every call that fits {pattern}", button=button, pattern=pattern)


def _who_may(approvers: Sequence[str], time: str) -> str:
    named = ", ".join(filter(None, approvers))
    if named:
        return t("Only {names} may answer, until {time} UTC.", names=named, time=time)
    if approvers:
        return t("Only whoever runs the gateway may answer, until {time} UTC.", time=time)
    return t("Whoever may talk here may answer, until {time} UTC.", time=time)


def _and_more(count: int) -> str:
    return " " + t("and {count} more", count=count)


def call_text(call: ToolCall | None) -> str:
    """Return a call as people judge it: what it is, and every argument as it stands."""
    if call is None:
        return t("May a tool run?")
    asked = t("May {name} run?", name=visible(call.name))
    return f"{asked}\n\n{_arguments(call.arguments)}"


def resolved_text(resolved: Resolution | None, by: str, answer: str = "") -> str:
    """Return what became of a question; None = it is over, and nobody knows any more how.

    Which owner answered stands in the log: a group need not learn who is one.
    """
    name = t("an owner") if by.startswith(OWNER_PREFIX) else visible(by)
    match resolved:
        case "allow_once":
            return t("Allowed once by {name}.", name=name) if by else t("Allowed once.")
        case "allow_always":
            if by:
                return t("Allowed by {name}, from now on always.", name=name)
            return t("Allowed, from now on always.")
        case "deny":
            return t("Denied by {name}.", name=name) if by else t("Denied.")
        case "answer":
            text = one_line(answer, _ANSWER_CHARACTERS)
            if by:
                return t("Answered by {name}: {text}", name=name, text=text)
            return t("Answered: {text}", text=text)
        case "expired":
            return t("Nobody answered in time: it did not run.")
        case "overtaken":
            return t("A message came first: it did not run.")
        case "withdrawn":
            return t("It does not have to be answered any more.")
        case None:
            return t("This question is closed.")


def running_text(names: Sequence[str]) -> str:
    """Return which tools run just now."""
    return t("running {names}...", names=_listed(names))


def ran_text(names: Sequence[str]) -> str:
    """Return which tools ran."""
    return t("ran {names}", names=_listed(names))


def with_todo(todo: str, told: str) -> str:
    """Return a to-do list with what is told of tools below it; either may be empty."""
    return "\n\n".join(part for part in (todo, told) if part)


def _arguments(arguments: str) -> str:
    try:
        value: object = json.loads(arguments)
    except (ValueError, RecursionError):
        return visible(arguments)
    return visible(json.dumps(value, ensure_ascii=False, indent=_ARGUMENTS_INDENT))


def _named(attachment: Attachment) -> str:
    return visible(attachment.file_name or attachment.name)[:200]


def _listed(names: Sequence[str]) -> str:
    once = [*dict.fromkeys(map(visible, names))]
    more = _and_more(len(once) - _NAMES_MAX) if len(once) > _NAMES_MAX else ""
    return ", ".join(once[:_NAMES_MAX]) + more
