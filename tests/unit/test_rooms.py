"""What folders say of the modules in them: each `__init__` that lists them names what is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_folder_lists_modules_that_are_there() -> None:
    """Whoever looks for a room by this list must not be sent to one that was moved."""
    gone = [
        f"{init.relative_to(ROOT)}: {name}"
        for source in ("actors", "channels", "gateway")
        for init in sorted((ROOT / source).rglob("__init__.py"))
        for name in re.findall(
            r"^- `(\w+/?)`: ",
            ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or "",
            re.MULTILINE,
        )
        if not (init.parent / (name if name.endswith("/") else f"{name}.py")).exists()
    ]

    assert gone == []
