"""The distribution of `tests/plugin_dist`, installed beside Everturn as pip would install it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "plugin_dist"


def install(folder: Path, source: Path = SOURCE) -> None:
    """Build the wheel of `source`, and put it into `folder`, which is on the path of imports."""
    wheels = folder.parent / "wheels" / source.name
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
        cwd=source,
        check=True,
        capture_output=True,
        timeout=100,
    )
    (wheel,) = wheels.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder)
