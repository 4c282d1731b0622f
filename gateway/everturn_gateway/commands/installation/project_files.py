"""Finds the files of the project that come with the program: pages, agents, examples.

A wheel has them below `everturn_gateway/project`, in the folders of a checkout, so that links
between them lead to the same files in both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_WHEEL: Final = Path(__file__).parents[2] / "project"
_CHECKOUT: Final = Path(__file__).parents[4]


def project_file(name: str) -> Path:
    """Return where a file or folder of the project is, which need not be there.

    Args:
        name: Its path in a checkout: `docs`, `CHANGELOG.md`.
    """
    return (_WHEEL if _WHEEL.is_dir() else _CHECKOUT) / name
