"""Ids of calls that a client runs, by which it names the turn that waits. Pure.

What a model calls its calls says nothing of the session. So a client is given an id that does, and
whoever brings a result needs nothing else to have the turn go on.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from hashlib import blake2b
from typing import Final

from everturn_actors.state.session_state import SessionState

_PREFIX: Final = "call_"
_DIGEST_BYTES: Final = 4  # with it an id has 39 characters; some clients cut behind the 40th
_ID: Final = re.compile(rf"{_PREFIX}(\d{{8}}T\d{{9}}-[0-9a-f]{{8}})_[\w-]{{6}}", re.ASCII)


def given_id(session_id: str, reply_seq: int, call_id: str) -> str:
    """Return the id by which a client knows a call of a reply; models use theirs again."""
    own = f"{reply_seq} {call_id}".encode("utf-8", "surrogatepass")
    digest = blake2b(own, digest_size=_DIGEST_BYTES).digest()
    return f"{_PREFIX}{session_id}_{urlsafe_b64encode(digest).decode().rstrip('=')}"


def session_of(given: str) -> str:
    """Return the session that an id belongs to; empty for an id that was not given here."""
    found = _ID.fullmatch(given)
    return found[1] if found else ""


def open_calls(state: SessionState) -> dict[str, str]:
    """Return the calls that wait for their caller: the model's ids by those that it knows."""
    step = state.open_turn.step if state.open_turn else None
    if step is None or step.reply is None:
        return {}
    seq, settled = step.reply.seq, step.answers.keys() | step.results.keys()
    return {
        given_id(state.session_id, seq, call_id): call_id
        for call_id in step.handed_over
        if call_id not in settled
    }
