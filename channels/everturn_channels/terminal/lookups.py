"""What a person asks of a conversation beside its turns, answered in text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, assert_never

from everturn_actors.errors import InvalidInputError
from everturn_channels.keeping import (
    ForgetNote,
    KeepNote,
    ShowNotes,
    memory_how,
    memory_text,
    newest_with,
    note_forgotten,
    note_kept,
    nothing_pinned,
    nothing_to_pin,
    pins_text,
    read_memory_intent,
)
from everturn_channels.models import (
    DEFAULT,
    ModelChoice,
    SessionModels,
    described,
    model_chosen,
    read_model_intent,
)
from everturn_channels.money import dollars
from everturn_channels.names import clean, one_line
from everturn_channels.prompts import OfferedPrompt, prompts_text, read_prompt
from everturn_channels.terminal.client import LISTED_MAX, ListedSession
from everturn_channels.terminal.conversation import Conversation
from everturn_channels.texts import no_session

Lookup: TypeAlias = Literal["search", "memory", "pin", "unpin", "undo"]
"Commands that are answered in text."
_MODELS_MAX = 20  # of a list of them that is shown
_TITLE = 60  # characters of what a session is called


async def look_up(conversation: Conversation, command: Lookup, typed: str) -> str:
    """Do what a command says; return what to show.

    Args:
        conversation: Of the person who typed it.
        command: Its name.
        typed: What stands after it.
    """
    match command:
        case "search":
            return await _search(conversation, typed)
        case "memory":
            return await _memory(conversation, typed)
        case "pin" | "unpin":
            return await _pin(conversation, typed, is_off=command == "unpin")
        case "undo":
            session_id = conversation.session_id
            return await conversation.client.undo(session_id) if session_id else no_session()
        case _:
            assert_never(command)


async def filled_prompt(conversation: Conversation, typed: str) -> str:
    """Return the text of the prompt that a person names, with its places filled in.

    Raises:
        InvalidInputError: What was typed is no name with `PLACE=TEXT` behind it.
    """
    name, arguments = read_prompt(typed)
    return await conversation.client.prompts.text(await conversation.agent(), name, arguments)


async def prompts_shown(conversation: Conversation) -> str:
    """Return what MCP servers of the agent have for people to send, one a line."""
    return prompts_text(await offered_prompts(conversation))


async def offered_prompts(conversation: Conversation) -> Sequence[OfferedPrompt]:
    """Return what MCP servers of the agent have for people to send."""
    return await conversation.client.prompts.offered(await conversation.agent())


async def _memory(conversation: Conversation, typed: str) -> str:
    """Show, keep or forget a note, as a person asks."""
    intent = read_memory_intent(typed)
    if intent is None:
        return memory_how()
    if not conversation.session_id:
        return no_session()
    memory, session_id = conversation.client.memory, conversation.session_id
    match intent:
        case ShowNotes():
            return memory_text(await memory.notes(session_id))
        case KeepNote(topic=topic, text=text):
            await memory.note(session_id, topic, text)
            return note_kept(topic)
        case ForgetNote(topic=topic):
            before = await memory.notes(session_id)
            after = await memory.note(session_id, topic, "")
            return note_forgotten(topic, was_there=len(after) < len(before))


async def _pin(conversation: Conversation, words: str, *, is_off: bool) -> str:
    """Pin the newest message with these words, or take its pin off; return what is pinned then."""
    if not conversation.session_id:
        return no_session()
    client, session_id = conversation.client, conversation.session_id
    pins = await client.memory.pins(session_id)
    if words:
        pinned = [(each.seq, each.text) for each in pins]
        history = () if is_off else await client.history.messages(session_id, after=0)
        said = pinned if is_off else [(each.seq, each.text) for each in history]
        seq = newest_with(words, reversed(said))
        if is_off and all(each.seq != seq for each in pins):
            return nothing_pinned(words)
        if not seq:
            return nothing_to_pin()
        pins = await client.memory.pin(session_id, seq, is_off=is_off)
    return pins_text(pins)


async def _search(conversation: Conversation, text: str) -> str:
    """Return what fits a question or words best, a line each; in all sessions of the agent."""
    if not text.strip():
        return "(what for? write it after the command)"
    found = await conversation.client.history.search(text, agent=await conversation.agent())
    lines = (
        f"{each.at:%Y-%m-%d %H:%M} {each.session_id} {each.seq}: {clean(each.text)}"
        for each in found
    )
    return "\n".join(lines) or "(nothing that was said holds any of these words)"


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


async def obey_model(conversation: Conversation, typed: str) -> str:
    """Show which model answers and which there are, or choose one; return what to show.

    Raises:
        InvalidInputError: What was typed names none, or names it for the agent.
    """
    intent = read_model_intent(typed)
    if intent is not None and intent.scope == "agent":
        msg = "/model is for this session; `everturn model use` has the agent use another one"
        raise InvalidInputError(msg)
    if not conversation.session_id:
        await conversation.open()
    client, session_id = conversation.client, conversation.session_id
    if intent is None:
        session = await client.models.of(session_id)
        conversation.shown_models = _menu(session)
        return _models_text(session, conversation.shown_models)
    name = intent.name
    if name.isdecimal():
        shown = conversation.shown_models or _menu(await client.models.of(session_id))
        name = _numbered(name, shown)
    session = await client.models.choose(session_id, name)
    used = await conversation.context()
    is_own = session.chosen is None
    percent = used.percent if used is not None and used.window_tokens else None
    return model_chosen(session.now, is_own=is_own, used_percent=percent, mark="")


async def offered_models(conversation: Conversation) -> Sequence[tuple[str, str]]:
    """Return what may be chosen, by name, each with its window and price; asked for once."""
    if not conversation.shown_models and conversation.session_id:
        session = await conversation.client.models.of(conversation.session_id)
        conversation.shown_models = _menu(session)
    if not conversation.shown_models:
        return ()
    own, *others = conversation.shown_models
    return [
        (DEFAULT, f"the agent's own: {own.label}"),
        *((each.label, described(each, mark="").partition(", ")[2]) for each in others),
    ]


def _menu(session: SessionModels) -> Sequence[ModelChoice]:
    """Return the models to choose from, the agent's own first."""
    models, chosen = session.models, session.chosen
    is_listed = chosen is None or chosen.model in {
        each.model for each in (models.own, *models.others)
    }
    return (models.own, *(() if is_listed or chosen is None else (chosen,)), *models.others)


def _models_text(session: SessionModels, menu: Sequence[ModelChoice]) -> str:
    lines: list[str] = []
    for number, each in enumerate(menu[:_MODELS_MAX], start=1):
        mark = "*" if each.model == session.now.model else " "
        about = " (the agent's own)" if number == 1 else ""
        lines.append(f"{number:>3} {mark} {described(each, mark='')}{about}")
    if len(menu) > _MODELS_MAX:
        lines.append(f"      and {len(menu) - _MODELS_MAX} more: Tab behind /model completes them")
    how = "* answers now. /model NUMBER or NAME takes another one for this session"
    return "\n".join([*lines, f"{how}, /model {DEFAULT} the agent's own"])


def _numbered(typed: str, menu: Sequence[ModelChoice]) -> str:
    """Return what the model of this number is called; empty = it is the agent's own."""
    number = int(typed) if len(typed) <= len(str(len(menu))) else 0
    if not 1 <= number <= len(menu):
        msg = f"there is no {typed} in the list: 1 to {len(menu)}"
        raise InvalidInputError(msg)
    return "" if number == 1 else menu[number - 1].label


async def usage_text(conversation: Conversation) -> str:
    """Return what this session and its agent used, a line each."""
    status, agent = await conversation.status(), await conversation.agent()
    lines: list[str] = []
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
