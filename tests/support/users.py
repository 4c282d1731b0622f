"""Programs that run as another user, for tests that are run by root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

import pytest

OTHER = 61_234
"The number of a user that no machine has: it owns nothing but what a test gives it."
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root can run something as another user, with setpriv of util-linux",
)


def as_other(argv: Sequence[str], uid: int = OTHER) -> list[str]:
    """Return the argv that runs `argv` as another user, without any right of root's."""
    return [
        *("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"),
        *("--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs", "--"),
        *argv,
    ]


def run_as_other(argv: Sequence[str], uid: int = OTHER) -> subprocess.CompletedProcess[str]:
    """Run a program as another user to its end, and return what it said."""
    return subprocess.run(
        as_other(argv, uid), capture_output=True, text=True, check=False, timeout=30, cwd="/"
    )
