"""The short texts that owners get in private. All of them are Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from everturn_actors.model import ConversationKey, Decision
from everturn_actors.ports import SessionSummary
from everturn_channels.access.pairing import Request
from everturn_channels.languages import marked, said, t
from everturn_channels.names import one_line
from everturn_channels.texts import click_taken, code_span

NO_QUESTIONS: Final = marked("No question waits for an answer.")
NO_SUCH_QUESTION: Final = marked(
    "No open question has this code; /questions shows them. "
    "Write `/approve CODE`, `/approve CODE always` or `/deny CODE`."
)
NO_SUCH_ANSWER: Final = marked("That is none of the answers. Write `/approve CODE NUMBER`.")
NO_SUCH_CODE: Final = marked("Nobody waits with this code; /pair shows who does.")
NOT_FOR_GOOD: Final = marked("This cannot be allowed for good, only this once.")
PAIRING_FAILS: Final = marked(
    "The list of paired people cannot be read or written; the log says why."
)
NO_SUCH_SESSION: Final = marked("There is no such session; /sessions shows the newest.")
IN_PRIVATE: Final = marked("Please write this to me in private.")


def undelivered_text(chat: str, why: str, *, is_lost: bool) -> str:
    """Return that what an agent said does not get there; `why` is in a platform's words."""
    where, reason = code_span(chat), code_span(one_line(why))
    if is_lost:
        return t("What was said to {chat} was not delivered: {reason}", chat=where, reason=reason)
    return t(
        "What is said to {chat} waits until they write again: {reason}", chat=where, reason=reason
    )


def questions_text(count: int, shown: int) -> str:
    """Return what stands above a list of questions."""
    waits = t.plural(
        "1 question waits for an answer.", "{count} questions wait for an answer.", count
    )
    rest = t("These are the {count} that expire first.", count=shown) if shown < count else ""
    return " ".join(filter(None, (waits, rest)))


def decided_text(decision: Decision, agent: str) -> str:
    """Return what an owner's answer to a question did."""
    return f"{click_taken(decision)} {t('{agent} goes on.', agent=code_span(agent))}"


def requests_text(waiting: Sequence[Request], count: int) -> str:
    """Return who waits to be let in. Names are what people call themselves."""
    if not waiting:
        return t("Nobody waits to be let in.")
    lines = [
        t(
            "- {command} {name}, {id} on {channel}, until {time} UTC",
            command=f"`/pair {each.code}`",
            name=code_span(each.name or "?"),
            id=code_span(each.sender_id),
            channel=each.channel,
            time=f"{each.expires_at:%H:%M}",
        )
        for each in waiting
    ]
    left = count - len(waiting)
    more = [t("- and {count} more", count=left)] if left > 0 else []
    return "\n".join([*lines, *more])


def paired_text(person: Request) -> str:
    """Return who was let in."""
    name = f", {code_span(person.name)}," if person.name else ""
    who = f"{code_span(person.sender_id)}{name}"
    return t("Done: {name} may talk to me on {channel} now.", name=who, channel=person.channel)


def sessions_text(rows: Sequence[SessionSummary]) -> str:
    """Return which conversations go on, the one that began last in front."""
    if not rows:
        return t("There is no session.")
    return "\n".join(
        t(
            "- {id} {agent} in {chat}, {status}, last at {time} UTC",
            id=f"`{row.session_id}`",
            agent=code_span(row.key.agent),
            chat=_where(row.key),
            status=said(row.status),
            time=f"{row.updated_at:%Y-%m-%d %H:%M}",
        )
        for row in rows
    )


def reset_text(key: ConversationKey) -> str:
    """Return which conversation is over."""
    agent, chat = code_span(key.agent), _where(key)
    return t("Done: the conversation of {agent} in {chat} is over.", agent=agent, chat=chat)


def _where(key: ConversationKey) -> str:
    return code_span(" ".join(filter(None, (key.channel, key.chat, key.topic))))
