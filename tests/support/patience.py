"""How long tests wait for what has to happen: a guard against hanging, no measure."""

from __future__ import annotations

from typing import Final

WAIT_S: Final = 60.0
"A busy machine gets there; what hangs is told before the limit of a test."
