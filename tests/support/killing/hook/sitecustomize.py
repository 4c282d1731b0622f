"""Loaded by Python at the start of a process whose PYTHONPATH names this folder.

It does nothing in a process whose environment does not ask for it.
"""

from __future__ import annotations

import kill_points  # type: ignore[import-not-found]  # this folder is on the path of that process

kill_points.install_from_environment()
