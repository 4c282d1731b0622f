"""Sessions in a list that a person picks from, and what they used. Pure but for what is asked."""

from __future__ import annotations

from collections.abc import Sequence

from everturn_actors.errors import InvalidInputError
from everturn_channels.money import dollars
from everturn_channels.names import one_line
from everturn_channels.terminal.client import LISTED_MAX, ListedSession
from everturn_channels.terminal.conversation import Conversation

_TITLE = 60  # characters


def session_lines(sessions: Sequence[ListedSession]) -> str:
    """Return two lines for each session: its number and title, then when, what and its id."""
    lines: list[str] = []
    for number, each in enumerate(sessions, start=1):
        marks = [
            *(["pinned"] if each.is_pinned else []),
            *(["answering"] if each.is_running else []),
            *(["ended"] if each.status == "ended" else []),
            *([each.channel] if each.channel != "terminal" else []),
        ]
        about = f" ({', '.join(marks)})" if marks else ""
        when = f"{each.updated_at.astimezone():%Y-%m-%d %H:%M}"
        lines.append(f"{number:>3}  {title_of(each)}{about}")
        lines.append(f"     {when}  {each.session_id}")
    if not lines:
        return "(no session is like that)"
    return "\n".join([*lines, "/resume NUMBER goes on in one"])


async def listed(conversation: Conversation, words: str) -> Sequence[ListedSession]:
    """Return sessions of the agent, the one used last first; those with words in the title."""
    agent = await conversation.agent()
    return await conversation.client.history.listed(agent=agent, words=words, limit=LISTED_MAX)


def title_of(session: ListedSession) -> str:
    """Return what a session is called, in one line."""
    return one_line(session.title, _TITLE) or "(nothing was said)"


def picked(wanted: str, listed: Sequence[ListedSession]) -> ListedSession | None:
    """Return the session that somebody names: its number in a list, its id, or words of its title.

    Raises:
        InvalidInputError: The list has no such number.
    """
    word = wanted.strip()
    if word.isdecimal() and len(word) <= len(str(len(listed))) + 1:
        if not 1 <= int(word) <= len(listed):
            msg = f"there is no {word} in the list: 1 to {len(listed)}"
            raise InvalidInputError(msg)
        return listed[int(word) - 1]
    by_id = (each for each in listed if each.session_id == word)
    by_title = (each for each in listed if word.casefold() in each.title.casefold())
    return next(by_id, None) or next(by_title, None)


async def usage_text(conversation: Conversation) -> str:
    """Return what this session and its agent used, a line each."""
    status = await conversation.status()
    lines, agent = [], await conversation.agent()
    if status is not None:
        used = status.usage
        lines.append(_used("session", used.input_tokens, used.output_tokens, used.cost_nanodollars))
    for name, days in (("today", 1), ("7 days", 7)):
        spent = await conversation.client.history.spent(agent, days=days)
        lines.append(_used(name, spent.input_tokens, spent.output_tokens, spent.cost_nanodollars))
    return "\n".join(lines)


def _used(name: str, tokens_in: int, tokens_out: int, cost: int) -> str:
    price = dollars(cost) if cost else "no price known" if tokens_in else "nothing"
    return f"{name:<9} {tokens_in:,} tokens in, {tokens_out:,} out, {price}"
