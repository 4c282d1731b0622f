"""Never run: the type checkers read it, so that the public types stay what callers rely on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import assert_type

from everturn_actors.events import Event
from everturn_actors.model import Announcement, ConversationKey, Inbound
from everturn_actors.service import (
    AnnouncementReceipt,
    Submission,
    TextDelta,
    TurnResult,
    TurnService,
    Update,
)
from everturn_actors.state.session_state import SessionState


async def a_caller(service: TurnService) -> None:
    """What an adapter does with the client."""
    key = ConversationKey(channel="test", chat="1", agent="assistant")
    submission = await service.submit(Inbound(text="hello", key=key, idempotency_key="1"))
    assert_type(submission, Submission)
    assert_type(submission.updates(), AsyncGenerator[Update])
    assert_type(await submission.result(), TurnResult)
    assert_type(await service.announce(Announcement(text="hello", key=key)), AnnouncementReceipt)
    assert_type(await service.create(key), str)
    assert_type(await service.view(submission.session_id), SessionState)
    assert_type(await service.cancel(submission.session_id), bool)
    async for update in service.watch(submission.session_id, after=0):
        if isinstance(update, TextDelta):
            assert_type(update.text, str)
        else:
            assert_type(update, Event)
