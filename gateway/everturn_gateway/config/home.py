"""Where the configuration is for whoever works in a folder that has none. Pure but for a look."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

HOME_VARIABLE: Final = "EVERTURN_HOME"
_NAME: Final = "everturn"


def home_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder that commands use outside of a folder with a configuration; absolute.

    `EVERTURN_HOME`, or else `everturn` in the user's data folder. It need not be there.

    Sources: https://specifications.freedesktop.org/basedir-spec/latest/ (a relative path counts as
    none); Apple's File System Programming Guide, "Library Directory" (both read 2026-11).
    """
    if given := environ.get(HOME_VARIABLE, "").strip():
        return Path(given).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / _NAME
    data = Path(environ.get("XDG_DATA_HOME", "").strip())
    return (data if data.is_absolute() else Path.home() / ".local" / "share") / _NAME
