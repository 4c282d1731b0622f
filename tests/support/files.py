"""What stands in the files below a folder."""

from __future__ import annotations

from pathlib import Path


def files_with(folder: Path, text: bytes) -> list[str]:
    """Return the names of the files below a folder that hold a text."""
    return [f.name for f in folder.rglob("*") if f.is_file() and text in f.read_bytes()]
