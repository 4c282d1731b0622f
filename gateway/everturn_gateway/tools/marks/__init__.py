"""Files of a workspace that hold text from outside: their marks, and who opens them.

- `attribute`: the mark of one file: an extended attribute with the sources of its text
- `marked_files`: the marked files of a workspace: which there are, who opened them, and what came
  of it
- `open_watch`: sees which of some files are opened, by whomever: inotify, through libc
- `walk`: goes through the files of a workspace for their marks
"""

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
