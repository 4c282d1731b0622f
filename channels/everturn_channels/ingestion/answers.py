"""What an adapter sends where a command or a click is answered at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from everturn_channels.adapter import ChatRef, Outbound


def replies(chat: ChatRef, payloads: Iterable[str], reply_to: str) -> Iterator[Outbound]:
    """Yield what `render` gave as messages to a chat, the first in reply to one of it."""
    for number, payload in enumerate(payloads):
        answers = "" if number else reply_to
        yield Outbound(chat_id=chat.id, topic=chat.topic, payload=payload, reply_to=answers)
