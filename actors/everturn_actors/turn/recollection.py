"""What a turn is reminded of before its first call: notes, and older messages that fit.

Both are events before they are sent, so that every request can be made again byte for byte.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Final

from everturn_actors.events import Body, NotesShown, OlderQuoted
from everturn_actors.model import OpenTurn, ShownNotes
from everturn_actors.ports import Agent
from everturn_actors.scopes import loop_time, new_scope
from everturn_actors.state.session_state import SessionState
from everturn_actors.turn.model_call import TurnHost

logger = logging.getLogger(__name__)

WAIT_S: Final = 3.0  # for all of it: a turn goes on without


async def recollect(host: TurnHost, turn: OpenTurn, agent: Agent, now: datetime) -> None:
    """Record what the turn is reminded of, where something is.

    A boundary: what fails here costs the turn its reminders, and nothing else.
    """
    # Most turns end here: nothing is hidden from them that could be quoted.
    quotes_of = None if turn.quoted or not _hides(host.state) else agent.quotes
    if agent.notes is None and quotes_of is None:
        return
    context, bodies = host.tool_context, list[Body]()
    fields = {"session_id": context.session_id}
    try:
        with new_scope(loop_time() + WAIT_S) as waited:
            notes = await agent.notes(context) if agent.notes is not None else None
            if notes is not None and is_due(host.state, notes, agent.spec.model.cache_life_s, now):
                bodies.append(NotesShown(text=notes.text, outside=notes.outside))
            quotes = await quotes_of(context) if quotes_of is not None else None
            if quotes is not None:
                quoted = OlderQuoted(turn=turn.number, text=quotes.text, quoted=quotes.seqs)
                bodies.append(quoted)
        if waited.cancelled_caught:
            logger.warning("a turn goes on without what it is to be reminded of", extra=fields)
    except Exception:
        logger.exception("a turn cannot be reminded of anything", extra=fields)
    if bodies:
        await host.record(*bodies)


def is_due(state: SessionState, notes: ShownNotes, cache_life_s: float, now: datetime) -> bool:
    """Whether the prompt is to say something else from now on. Pure.

    A prompt that changes costs the provider's cache of all that follows it. So what is only added
    waits until that costs nothing: the conversation begins, something was hidden, or the cache has
    gone cold. What was corrected or taken back counts at once.
    """
    if notes == state.notes:
        return False
    if not state.fingerprint.prefix or state.replied_at is None:
        return True
    if now - state.replied_at > timedelta(seconds=cache_life_s):
        return True
    return not _items(state.notes.text) <= _items(notes.text)


def _hides(state: SessionState) -> bool:
    """Whether whole turns of the session are not shown any more."""
    return state.reductions.cut_turn > 1 or state.logged_messages > state.held_messages


def _items(text: str) -> set[str]:
    return {line for line in text.splitlines() if not line.startswith(("<", "#"))}
