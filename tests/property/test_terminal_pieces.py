"""However a reply arrives, each of its characters is shown once."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from everturn_actors.events import Event, ModelReplied
from everturn_actors.service import TextDelta
from everturn_channels.terminal.reply import ReplyReader
from everturn_channels.terminal.screen import Screen

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1)


@given(TEXT, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10))))
def test_any_cut_and_any_replay_shows_the_reply_once(
    text: str, pieces: list[tuple[int, int]]
) -> None:
    """Connections break at any place and give the text so far again, in pieces of any size."""
    written: list[str] = []
    reader, screen = ReplyReader(), Screen(written.append, colour=False)
    known = 0
    for start, length in pieces:
        offset = min(start, known)  # never beyond what came before
        piece = text[offset : offset + length]
        known = offset + len(piece)
        screen.show(reader.read(TextDelta(turn=1, step=1, offset=offset, text=piece)))
    end = Event(seq=1, at=datetime(2026, 1, 2, tzinfo=UTC), body=ModelReplied(text=text))
    screen.show(reader.read(end))

    assert "".join(written) == text + "\n"
