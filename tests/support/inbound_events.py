"""What arrives on a platform, as values that tests begin from."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from everturn_channels.adapter import ChatRef, Message, Person

ANN = Person(id="7", name="Ann")
GROUP = ChatRef(id="-100", type="group", title="Friends")
DM = ChatRef(id="7")

_MESSAGE = Message(id="1", chat=DM, sender=ANN, text="hello", at=datetime(2026, 11, 22, tzinfo=UTC))


def a_message(text: str = "hello", **changes: Any) -> Message:
    """Return a message of Ann's in a dm, with these fields changed."""
    return replace(_MESSAGE, text=text, **changes)
