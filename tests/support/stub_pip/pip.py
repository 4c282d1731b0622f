"""Stands in for pip where a test is not about pip: copies the wheel of a folder, in no time.

With STUB_HANG set it stops half way and waits to be killed.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path


def main() -> int:
    """Do as `pip download`."""
    name = sys.argv[-1].partition("==")[0].replace("-", "_")
    wheels = list(Path(os.environ["PIP_FIND_LINKS"]).glob(f"{name}-*.whl"))
    if not wheels:
        sys.stderr.write(f"ERROR: No matching distribution found for {sys.argv[-1]}\n")
        return 1
    if os.environ.get("STUB_HANG"):
        half = wheels[0].read_bytes()[: wheels[0].stat().st_size // 2]
        (Path(os.environ["TMPDIR"]) / "half").write_bytes(half)
        threading.Event().wait()
    shutil.copy(wheels[0], sys.argv[sys.argv.index("--dest") + 1])
    return 0


raise SystemExit(main())
