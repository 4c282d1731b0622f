"""Names of files in a workspace that belong to this machine, and to no store."""

from __future__ import annotations

from typing import Final

NOTE_NAME: Final = "gateway.json"
"Where a running gateway says how it can be reached."
LOG_NAME: Final = "everturn.log"
"What commands could not tell a person."
HISTORY_NAME: Final = "terminal_history"
"What was typed in conversations."
