"""Files of a workspace that hold text from outside: their marks, and who opens them."""

from everturn_gateway.tools.marks.attribute import (
    ATTRIBUTE,
    INBOX,
    file_source,
    keeps_marks,
    read_mark,
)
from everturn_gateway.tools.marks.marked_files import MarkedFiles, MarkedWorkspaces, Run, now_ns
from everturn_gateway.tools.marks.walk import Marked, marked_below, trust_files

__all__ = (
    "ATTRIBUTE",
    "INBOX",
    "Marked",
    "MarkedFiles",
    "MarkedWorkspaces",
    "Run",
    "file_source",
    "keeps_marks",
    "marked_below",
    "now_ns",
    "read_mark",
    "trust_files",
)
