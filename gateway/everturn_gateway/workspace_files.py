"""Names of files in a workspace that belong to this machine, and to no store; who may read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

NOTE_NAME: Final = "gateway.json"
"Where a running gateway says how it can be reached."
LOG_NAME: Final = "everturn.log"
"What commands could not tell a person."
MODELS_FOLDER: Final = "models"
"Weights of models that run here."
HISTORY_NAME: Final = "terminal_history"
"What was typed in conversations."

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def rights_of_others(path: Path, found: os.stat_result) -> str:
    """Return that others than its owner have rights on a file, in words; empty = they have none."""
    rights = stat.S_IMODE(found.st_mode)
    return f"{path} is open to other users ({rights:04o})" if rights & _OTHERS else ""
