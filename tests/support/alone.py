"""Look again, without the others, at tests that failed while others ran beside them.

    python tests/support/alone.py EXIT_CODE    # `make suite` does, after a run that was not green

A test with processes and deadlines shares its cores with many others, and one in some thousands
then waits in vain for the machine. Such a failure stays in the report, and is looked at twice more
with the machine to itself: green means green both times. What needs no process is red at once, and
so is a run with more than a few failures.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

#: What starts processes, or waits for clocks. All other tests have no excuse.
WITH_PROCESSES = ("tests/e2e/", "tests/integration/")
AT_MOST = 3
TIMES = 2

_TESTS_FAILED = 1  # pytest's own; others mean that it was interrupted, or could not read the tests
_LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def judge(exit_code: int, failed: list[str]) -> str:
    """Return why a run stays red, and nothing if its failed tests may be looked at again."""
    if exit_code != _TESTS_FAILED or not failed:
        return f"pytest ended with {exit_code}"
    if len(failed) > AT_MOST:
        return f"{len(failed)} tests failed; up to {AT_MOST} are looked at again"
    other = [each for each in failed if not each.startswith(WITH_PROCESSES)]
    return f"{other[0]} starts no process" if other else ""


def main(exit_code: int) -> int:
    """Return what `make suite` ends with."""
    try:
        failed = sorted(json.loads(_LAST_FAILED.read_bytes()))
    except FileNotFoundError:
        failed = []
    if why := judge(exit_code, failed):
        sys.stdout.write(f"Red: {why}.\n")
        return exit_code
    names = "\n".join(f"  {each}" for each in failed)
    sys.stdout.write(f"Failed beside others, see above; now {TIMES} times alone:\n{names}\n")
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *failed]
    for _ in range(TIMES):
        if code := subprocess.run(command, check=False).returncode:
            return code
    sys.stdout.write(
        f"FLAKY: passed alone, {TIMES} times, what failed beside others. Mend it:\n{names}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
