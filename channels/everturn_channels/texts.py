"""The short texts that people get from the gateway itself. All of them are Markdown.

One place, so that they speak with one voice: plain, friendly, and with what to do next. They are in
the language that is spoken where they are made (`languages.speaking`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, assert_never

from msgspec import Struct

from everturn_actors.model import ConversationKey, Decision, Outcome, Resolution
from everturn_actors.ports import SessionSummary
from everturn_channels.adapter import Person
from everturn_channels.command_registry import CommandSpec
from everturn_channels.languages import marked, said, t
from everturn_channels.names import one_line, visible
from everturn_channels.prompts import OfferedPrompt

BUTTONS: Final[Mapping[Decision, str]] = {
    "allow_once": marked("Allow once"),
    "allow_always": marked("Always allow"),
    "deny": marked("Deny"),
    "answer": marked("Answer"),
}
"What the buttons of a question say; `button_label` says it to somebody."

DECISION_WORDS: Final[Mapping[str, Decision]] = {
    **dict.fromkeys(("y", "yes", "o", "once", "allow", "approve"), "allow_once"),
    **dict.fromkeys(("a", "always"), "allow_always"),
    **dict.fromkeys(("n", "no", "d", "deny"), "deny"),
}
"What people write to answer one."

_REASON_LIMIT: Final = 300
_FILES_TOLD: Final = 20
_MB: Final = 1024 * 1024
_KB: Final = 1024
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>()#~|!@])")
_LIST: Final = re.compile(r"^(\d*)([-+=.])")  # begins a list, or a line below a heading
_BACKTICKS: Final = re.compile(r"`+")


def button_label(decision: Decision) -> str:
    """Return what a button says, in the language that is spoken."""
    return said(BUTTONS[decision])


# --- people who may not, or not yet, talk to an agent ---


def no_access(code: str = "", *, sender_id: str = "") -> str:
    """Tell an unknown person in a dm that they are not admitted, and how they can be.

    `code` is their pairing code; without one they are told their id, which the owner can list.
    """
    lines = [t("Hello! I do not know you yet, so I cannot answer you.")]
    if code:
        lines += [
            t("If you know my owner, ask them to let you in with this command, within the hour:"),
            f"```\neverturn pair approve {code}\n```",
            t("Then write to me again."),
        ]
    elif sender_id:
        lines.append(
            t(
                "My owner can let you in: your id here is {id}, and it belongs into {field} of my"
                " agent.",
                id=code_span(sender_id),
                field="`spec.access.dm.allowlist`",
            )
        )
    else:
        lines.append(t("Only people whom my owner let in can talk to me."))
    return "\n\n".join(lines)


def no_private_chats() -> str:
    """Tell a person in a dm that nobody is answered there, whoever they are."""
    return t("Hello! My owner does not let me answer in private chats.")


# --- messages that were not taken ---


def queue_full(reject_message: str = "") -> str:
    """Tell somebody that too many messages wait; `reject_message` is the owner's own wording."""
    return reject_message or t(
        "Too many messages are waiting for an answer here, so I did not take this one. "
        "Please send it again in a moment."
    )


def busy() -> str:
    """Tell somebody that no message is taken while a turn runs."""
    return t(
        "I am still working on the last answer, so I did not take this message. Please send it "
        "again when I am done; /stop cancels what I am doing."
    )


def not_kept() -> str:
    """Tell somebody that their message could not be made durable."""
    return t("Something is wrong on my side, and I could not take your message. Please try later.")


def not_yet_kept() -> str:
    """Tell somebody that their message is not durable yet, and is tried again."""
    return t(
        "Something is wrong on my side, so I could not take your message yet. I keep trying; there "
        "is no need to send it again."
    )


def not_readable() -> str:
    """Tell a chat that something that was written there cannot be read."""
    return t("I could not read the last thing that was sent here. Please write it in another way.")


def not_read(count: int, why: str = "") -> str:
    """Tell a chat that messages were skipped, for example because they were too old."""
    reason = f" ({_plain(why)})" if why.strip() else ""
    return t.plural(
        "I was away, and 1 message that was written here meanwhile I did not read{reason}. Please"
        " send again what still matters.",
        "I was away, and {count} messages that were written here meanwhile I did not read{reason}."
        " Please send again what still matters.",
        count,
        reason=reason,
    )


def nothing_to_read(unsupported: str) -> str:
    """Tell somebody that a message held nothing that can be read."""
    return t("I cannot read {what}. Could you put it into words?", what=_plain(said(unsupported)))


def too_large(limit_bytes: int, *, with_others: bool = False) -> str:
    """Return why a file was not taken, as a part of a sentence: `larger than 20 MB`."""
    if with_others:
        return t("with the others larger than {size}", size=_size(limit_bytes))
    return t("larger than {size}", size=_size(limit_bytes))


def refused_file(file_name: str, why: str) -> str:
    """Return that a file was not taken, for `compose` and for its sender."""
    name = one_line(file_name, 120) or t("A file without a name")
    return t("{file} was not taken: {reason}", file=name, reason=why)


# --- turns ---


def turn_ended(outcome: Outcome, error: str = "") -> str:
    """Tell why a turn has no answer; empty for one that has.

    `error` is what the turn finished with, in words without secrets.
    """
    match outcome:
        case "answered":
            return ""
        case "failed":
            if not error.strip():
                return t("I could not answer.")
            return t("I could not answer: {reason}", reason=_plain(error))
        case "cancelled":
            return t("Stopped.")
        case "interrupted":
            return t(
                "I was interrupted before I could answer. Please send your message again if it "
                "still matters."
            )
        case _:
            assert_never(outcome)


# --- questions ---


_TAKEN: Final[Mapping[Decision, str]] = {
    "allow_once": marked("Allowed, this once."),
    "allow_always": marked("Allowed from now on."),
    "deny": marked("Not allowed."),
    "answer": marked("Answered."),
}
_LATE: Final[Mapping[Resolution, str]] = {
    "allow_once": marked("Too late: it was allowed already."),
    "allow_always": marked("Too late: it was allowed already."),
    "deny": marked("Too late: it was denied already."),
    "answer": marked("Too late: it was answered already."),
    "overtaken": marked("Too late: a new message came first."),
    "withdrawn": marked("Too late: it does not have to be answered any more."),
    "expired": marked("Too late: this question has expired."),
}


def click_taken(decision: Decision) -> str:
    """Tell whoever clicked a button that their decision counts. One short line, plain text."""
    return said(_TAKEN[decision])


def click_late(resolved: Resolution | None = None) -> str:
    """Tell whoever clicked a button that it is too late. One short line, plain text."""
    return said(_LATE[resolved or "expired"])


def click_refused() -> str:
    """Tell whoever clicked a button that it is not theirs to click. One short line, plain text."""
    return t("Only the person who is asked can answer this.")


# --- commands ---


def start_text(agent: str, description: str = "") -> str:
    """Answer /start: who this is and how to begin."""
    about = f" {_plain(one_line(description, _REASON_LIMIT))}" if description.strip() else ""
    hello = t("Hello, I am {agent}.", agent=f"**{_plain(agent)}**")
    return f"{hello}{about}\n\n{t('Just write to me. /help shows what I can do.')}"


def help_text(commands: Sequence[CommandSpec]) -> str:
    """Answer /help: the commands, one a line."""
    return "\n".join(map(_command_line, commands))


def owner_help_text(commands: Sequence[CommandSpec], own: Sequence[CommandSpec]) -> str:
    """Answer an owner's /help: the commands of everybody, and those of owners."""
    lines = [
        f"- /{each.name}{f' {code_span(each.arguments_shown)}' if each.arguments else ''}"
        f" - {said(each.what)}"
        for each in own
    ]
    return "\n".join([help_text(commands), "", t("As an owner, in this private chat:"), "", *lines])


def _command_line(command: CommandSpec) -> str:
    what = said(command.what) if not command.prompt else _plain(command.what)
    also = f" ({', '.join(f'/{name}' for name in command.aliases)})" if command.aliases else ""
    return f"- /{command.name}{also} - {what}"


def unknown_command(name: str) -> str:
    """Answer a command that is none."""
    command = code_span(f"/{one_line(name)}")
    return t("I do not know the command {command}. /help shows those I know.", command=command)


def reset_done(*, had_session: bool = True) -> str:
    """Answer /reset."""
    if not had_session:
        return t("There is nothing to forget: your next message begins a conversation.")
    return t("Done: this conversation is over, and your next message begins a new one.")


def undo_done_before() -> str:
    """Answer /undo that a platform hands in once more."""
    return t("That was taken back already.")


def prompts_text(prompts: Sequence[OfferedPrompt]) -> str:
    """Answer /prompt: what there is, one a line."""
    lines = (
        f"- {code_span(each.usage)}"
        + (f" - {_plain(each.description)}" if each.description else "")
        for each in prompts
    )
    return "\n".join(lines) or t("There is no prompt: no MCP server of this agent has one.")


def prompt_sent(text: str) -> str:
    """Answer /prompt with what was said in the name of whoever gave it."""
    return t("Sent: {text}", text=_plain(text))


def stop_done(*, was_running: bool) -> str:
    """Answer /stop."""
    return t("Stopped.") if was_running else t("I am not working on anything right now.")


def sentence(text: str) -> str:
    """Return what an error says as a sentence of its own; see `reasons`."""
    reason = said(text)
    return t("{reason}.", reason=f"{reason[:1].upper()}{reason[1:]}")


def retry_begun() -> str:
    """Answer /retry."""
    return t("I am trying again.")


def nothing_to_retry(error: str) -> str:
    """Answer /retry where no turn can be asked again; `error` says why behind a colon."""
    why = error.partition(": ")[2]
    if not why:
        return t("There is nothing to ask again.")
    return t("There is nothing to ask again: {reason}.", reason=said(why))


def undone_text(restored: Sequence[str], left: Mapping[str, str], *, not_kept: int) -> str:
    """Answer /undo.

    Args:
        restored: The files that are as they were before.
        left: Those that are not, and why.
        not_kept: How many more were changed of which nothing is kept.
    """
    lines = [
        t.plural(
            "Taken back: {done} of 1 file.",
            "Taken back: {done} of {count} files.",
            len(restored) + len(left),
            done=len(restored),
        )
    ]
    lines += (
        t("- as before: {file}", file=code_span(visible(path))) for path in restored[:_FILES_TOLD]
    )
    lines += (
        f"- {code_span(visible(path))}: {_plain(said(why))}"
        for path, why in [*left.items()][:_FILES_TOLD]
    )
    if not_kept:
        lines.append(
            t.plural(
                "1 more was changed, and is not kept.",
                "{count} more were changed, and are not kept.",
                not_kept,
            )
        )
    return "\n".join(lines)


def undo_fails(why: str) -> str:
    """Answer /undo where the files cannot be written; `why` is the system's word."""
    return t("The files cannot be taken back now: {reason}.", reason=why)


def own_sessions_text(rows: Sequence[SessionSummary], *, is_whole: bool) -> str:
    """Answer /sessions: the conversations that were had in a chat, the newest first.

    Args:
        rows: The conversations.
        is_whole: Whether those are all.
    """
    if not rows and is_whole:
        return no_session()
    lines = list[str]()
    for row in rows:
        values = {
            "time": f"{row.created_at:%Y-%m-%d %H:%M}",
            "status": said(row.status),
            "id": code_span(row.session_id),
        }
        if title := _plain(row.labels.title).strip():
            lines.append(t("- {time} UTC {title}, {status}, {id}", title=title, **values))
        else:
            lines.append(t("- {time} UTC, {status}, {id}", **values))
    if not is_whole:
        lines += ["", t("There may be older ones. /search looks into all of them.")]
    return "\n".join(lines).strip()


def whoami_text(sender: Person, key: ConversationKey, *, is_owner: bool) -> str:
    """Answer /whoami: the ids by which somebody and their chat are known, and who answers."""
    who = code_span(sender.id or "?")
    name = f" ({_plain(sender.name)})" if sender.name.strip() else ""
    lines = [
        t("You are {id} on {channel}.", id=f"{who}{name}", channel=code_span(key.channel)),
        t("This chat is {chat}.", chat=code_span(key.chat)),
        *([t("The topic is {topic}.", topic=code_span(key.topic))] if key.topic else []),
        t("{agent} answers here.", agent=code_span(key.agent)),
        *([t("You are one of its owners.")] if is_owner else []),
    ]
    return "\n".join(f"- {line}" for line in lines)


def reminder_how() -> str:
    """Answer /remind that cannot be read."""
    return t(
        "Write when and of what: /remind 20m TEXT, /remind 18:30 TEXT or"
        " /remind 2026-12-24 09:00 TEXT"
    )


def reminder_past(at: str, now: str, zone: str) -> str:
    """Answer /remind with a time that is not to come."""
    return t(
        "I cannot remind you at {time}: it is {now} already, {zone}.", time=at, now=now, zone=zone
    )


def reminder_set(text: str, at: str, zone: str) -> str:
    """Answer /remind."""
    return t("I will remind you at {time}, {zone}: {text}", time=at, zone=zone, text=_plain(text))


def group_allowed(*, is_allowed: bool) -> str:
    """Answer /allow and /disallow: whether the agent takes part in this group from now on."""
    if is_allowed:
        return t("Done: I take part in this group.")
    return t("Done: I take no part in this group, unless it is listed.")


def group_closed(reason: Literal["no route", "not yours", "disabled"]) -> str:
    """Tell an owner why a group cannot be allowed."""
    match reason:
        case "no route":
            return t("No agent answers here: set a route for this chat.")
        case "not yours":
            return t("The agent that answers here is not yours.")
        case "disabled":
            return t("This agent takes part in no group: {field}.", field="`spec.access.groups`")


class FoundLine(Struct, frozen=True, kw_only=True):
    """A message that was found."""

    at: datetime
    who: str
    "Empty = nobody knows."
    text: str
    "What was said, or the part around what was found."


def found_text(lines: Sequence[FoundLine], *, is_whole: bool) -> str:
    """Answer /search: the best match first.

    Args:
        lines: What was found.
        is_whole: Whether everything was searched.
    """
    told = [
        f"- {line.at:%Y-%m-%d %H:%M} {_plain(line.who or t('somebody'))}: {_plain(line.text)}"
        for line in lines
    ]
    if not told:
        told = [t("Nothing that was said here holds any of these words.")]
    if not is_whole:
        told += ["", t("Not everything was searched yet. Ask again in a minute.")]
    return "\n".join(told)


def search_what() -> str:
    """Answer /search that says not what for."""
    return t("What shall I look for? Write it after the command: /search the name of the hotel")


def no_session() -> str:
    """Answer a command that needs a conversation where there is none."""
    return t("There is no conversation here yet. Just write to me.")


# --- parts ---


def _plain(text: str) -> str:
    """Return text whose characters mean nothing in Markdown, in one paragraph."""
    line = _SPECIAL.sub(r"\\\1", " ".join(_shortened(text, _REASON_LIMIT).split()))
    return _LIST.sub(r"\1\\\2", line)


def code_span(text: str) -> str:
    """Return text as inline code, in one line: nothing in it means anything in Markdown."""
    line = " ".join(_shortened(text, _REASON_LIMIT).split())
    fence = "`" * (_longest_run(line) + 1)
    space = " " if "`" in line else ""
    return f"{fence}{space}{line}{space}{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    more = t.plural("{count} more character", "{count} more characters", len(text) - limit + 1)
    return f"{text[: limit - 1].rstrip()}… ({more})"


def _size(size_bytes: int) -> str:
    if size_bytes >= _MB:
        return f"{size_bytes / _MB:.3g} MB"
    return f"{size_bytes / _KB:.3g} KB" if size_bytes >= _KB else f"{size_bytes} bytes"
