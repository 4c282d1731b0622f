"""Workers of the tests are forked from a process that has read all tests: what that must tell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).parents[1]
_READ_TWICE = """
import sys
import pytest
sys.path.insert(0, sys.argv[1])
from support.forked_workers import BrokenFiles
wanted = [sys.argv[2], "-c", sys.argv[3], "--import-mode=importlib", "--collect-only", "-q"]
wanted.append("-pno:cacheprovider")
print([int(pytest.main(wanted, plugins=more)) for more in ([BrokenFiles()], [])])
"""


def test_a_file_that_cannot_be_read_is_told_by_the_worker_too(tmp_path: Path) -> None:
    """Its tests would be missing from a run that passes: a worker finds the module half made."""
    broken = tmp_path / "test_broken.py"
    broken.write_text("from pathlib import nothing_of_that_name\ndef test_never() -> None: ...\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    told = subprocess.run(
        [sys.executable, "-c", _READ_TWICE, SUPPORT, broken, tmp_path / "pytest.ini"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )

    assert told.stdout.splitlines()[-1] == "[2, 2]", told.stdout + told.stderr
