"""Looks what is wrong with the files of sessions, and rebuilds them from what is good."""

from everturn_actors.journal.doctor.checks import (
    IndexReport,
    check,
    check_all,
    rebuild_index,
    repair,
    session_ids,
)
from everturn_actors.journal.doctor.findings import Finding

__all__ = ["Finding", "IndexReport", "check", "check_all", "rebuild_index", "repair", "session_ids"]
