"""What a person asks of a conversation beside its turns, answered in text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, assert_never

from everturn_channels.keeping import (
    ForgetNote,
    KeepNote,
    ShowNotes,
    memory_how,
    memory_text,
    newest_with,
    note_forgotten,
    note_kept,
    nothing_to_pin,
    pins_text,
    read_memory_intent,
)
from everturn_channels.names import clean
from everturn_channels.prompts import OfferedPrompt, prompts_text, read_prompt
from everturn_channels.terminal.conversation import Conversation
from everturn_channels.texts import no_session

Lookup: TypeAlias = Literal["search", "memory", "pin", "unpin", "undo"]
"Commands that are answered in text."


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
