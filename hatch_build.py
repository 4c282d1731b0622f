"""Puts into the wheel what `make release` builds before it: the site, and the man pages.

Where they are not built, the wheel does without: `everturn help` has the same texts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = {"site": "everturn_gateway/project/site"}
MAN_PAGES = "man"


class BuiltFiles(BuildHookInterface[Any]):
    """Adds what is there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See `BuildHookInterface.initialize`; an editable install needs none of it."""
        if version == "editable":
            return
        root = Path(self.root)
        for name, place in BUILT.items():
            if (root / name).is_dir():
                build_data["force_include"][name] = place
        for page in sorted((root / MAN_PAGES).glob("*.1")):
            shared = build_data.setdefault("shared_data", {})
            shared[f"{MAN_PAGES}/{page.name}"] = f"share/man/man1/{page.name}"
