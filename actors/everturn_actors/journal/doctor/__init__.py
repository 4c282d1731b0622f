"""Looks what is wrong with the files of sessions, and rebuilds them from what is good.

- `checks`: checks and repairs of sessions and of the index, as commands ask for them
- `findings`: what is wrong with the files of one session
- `formats`: snapshots of earlier versions, made into those of this one
- `repairs`: the files of one session, rebuilt from what is good in them
- `stored`: what the files of one session hold, good and bad
"""

from everturn_actors.journal.doctor.checks import (
    IndexReport,
    check,
    check_all,
    formats_of,
    migrate_session,
    rebuild_index,
    repair,
    session_ids,
)
from everturn_actors.journal.doctor.findings import Finding
from everturn_actors.journal.doctor.formats import FormatOf

__all__ = [
    "Finding",
    "FormatOf",
    "IndexReport",
    "check",
    "check_all",
    "formats_of",
    "migrate_session",
    "rebuild_index",
    "repair",
    "session_ids",
]
