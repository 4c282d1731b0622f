"""Finding a place in a log."""

from __future__ import annotations

from io import BytesIO

from everturn.testing._histories import SESSION_ID, simple_log
from everturn_actors.journal.log.codec import encode
from everturn_actors.journal.log.files import find_offset


def test_every_event_of_a_long_log_is_found_exactly() -> None:
    """One line too far, and compaction would archive an event that is not in the snapshot yet."""
    log = simple_log(300)
    lines = encode(SESSION_ID, log).splitlines(keepends=True)
    data = b"".join(lines)
    assert len(data) > 4 * 32 * 1024  # several bisections deep

    offset = 0
    for after, line in enumerate((*lines, b"")):
        assert find_offset(BytesIO(data), after=after, end_bytes=len(data)) == offset
        offset += len(line)


def test_a_search_ends_where_it_is_told_to() -> None:
    """What is being appended at the moment is not looked at."""
    lines = encode(SESSION_ID, simple_log(300)).splitlines(keepends=True)
    data, end = b"".join(lines), len(b"".join(lines[:100]))

    for after in (0, 50, 99, 100, 101, 9999):
        expected = min(len(b"".join(lines[:after])), end)
        assert find_offset(BytesIO(data), after=after, end_bytes=end) == expected
