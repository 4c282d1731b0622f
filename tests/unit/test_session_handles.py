"""Desks: one for each session in use, none for what is no session."""

from __future__ import annotations

from pathlib import Path

import pytest

from everturn_actors.errors import UnknownSessionError
from everturn_actors.journal.handles import SessionHandles
from everturn_actors.journal.log.layout import Layout


async def test_an_id_that_is_none_is_refused_and_leaves_no_desk(tmp_path: Path) -> None:
    """No path is built from it, and who asks again and again fills no memory."""
    handles = SessionHandles(Layout(workspace=tmp_path).session)

    with pytest.raises(UnknownSessionError):
        await handles.take("../elsewhere")
    assert handles._handles == {}


async def test_the_files_of_a_session_are_named_once(tmp_path: Path) -> None:
    """Each append asks for them; to build their paths anew took longer than to write."""
    handles = SessionHandles(Layout(workspace=tmp_path).session)
    handle = await handles.take("20260101T000000000-00000000")

    assert handle.files.log is handle.files.log
    assert (
        handle.files.log == tmp_path / "sessions" / "20260101T000000000-00000000" / "events.jsonl"
    )
