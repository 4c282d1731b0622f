"""Who is behind a turn that no person began: a delegate's task, a message of another session. Pure.

What the tools of this package tell one another stands in the key of a conversation and in the
sender of a message, because both are durable and people can read them.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from everturn_actors.model import PROGRAM_SENDERS, Conversation, ConversationKey, ToolCall
from everturn_actors.outside import behind_calls
from everturn_actors.ports import ToolContext
from everturn_gateway.tools.places import DELEGATE

_TOPIC = re.compile(r"([0-9]{1,4})( untrusted)?", re.ASCII)
_LABEL = re.compile(r"session:([^:]+):([0-9]{1,4})", re.ASCII)
_DIGEST_DIGITS: Final = 12


def depth_of(key: ConversationKey) -> int:
    """Return how deep a conversation is delegated: 0 = a person's, 1 = for such a one."""
    if key.channel != DELEGATE:
        return 0
    found = _TOPIC.fullmatch(key.topic)
    return int(found[1]) if found else 1


def is_tainted(key: ConversationKey) -> bool:
    """Return whether a delegate's task was written by a turn that had read text from outside.

    A turn in such a conversation has to be judged as if it had read that text itself.
    """
    found = _TOPIC.fullmatch(key.topic)
    return key.channel == DELEGATE and (found is None or found[2] is not None)


def sources_behind(context: ToolContext) -> tuple[str, ...]:
    """Return the text from outside that may be behind the calls that are made now, by source.

    Empty where none was shown to the model when it wrote them.
    """
    if sources := behind_calls(context.conversation.current):
        return sources
    return ("a task that was given while text from outside was shown",) * is_tainted(context.key)


def delegate_key(call: ToolCall, context: ToolContext, agent: str, number: int) -> ConversationKey:
    """Return the conversation of the `number`-th try of `agent` at a call, whenever it is asked.

    What is read beside this very call was not known when it was written, and may not be known again
    after a restart: it does not count.
    """
    tainted = bool(sources_behind(context))
    topic = f"{depth_of(context.key) + 1}{' untrusted' if tainted else ''}"
    chat = f"{name_of_call(call, context)}.{number}"
    return ConversationKey(channel=DELEGATE, chat=chat, agent=agent, topic=topic)


def name_of_call(call: ToolCall, context: ToolContext) -> str:
    """Return a name that no other call of any session has; some models number calls anew."""
    current = context.conversation.current
    number, step = (current.number, len(current.steps) + 1) if current else (0, 0)
    digest = hashlib.sha256(call.call_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{context.session_id}.{number}.{step}.{digest[:_DIGEST_DIGITS]}"


def label(session_id: str, hops: int) -> str:
    """Return the sender of a message that comes from another session.

    Args:
        session_id: That session.
        hops: How many messages of this kind led to this one, itself included.
    """
    return f"session:{session_id}:{hops}"


def hops_of(conversation: Conversation) -> int:
    """Return how many messages between sessions led to the running turn."""
    current = conversation.current
    heard = current.heard if current else ()
    found = [_LABEL.fullmatch(message.sender) for message in heard]
    return max((int(each[2]) for each in found if each), default=0)


def is_asked_by_person(conversation: Conversation) -> bool:
    """Return whether a person speaks to the agent in the running turn.

    In other turns nobody does but programs of the gateway, or another session.
    """
    current = conversation.current
    heard = current.heard if current else ()
    return any(not message.ambient and is_person(message.sender) for message in heard)


def is_person(sender: str) -> bool:
    """Return whether the sender of a message is a person: no program, and no other session."""
    return sender not in PROGRAM_SENDERS and _LABEL.fullmatch(sender) is None
