"""Where the weights of the embedded model are on this machine, if they are."""

from __future__ import annotations

import os
from pathlib import Path

from everturn_gateway.providers.local.weights import SMOLLM2


def real_weights() -> Path | None:
    """Return the file that `everturn local pull` fetched; None where there is none."""
    folders = [Path(os.environ.get("EVERTURN_MODELS_DIR", "")), Path(".everturn/models")]
    found = [folder / SMOLLM2.file for folder in folders if (folder / SMOLLM2.file).is_file()]
    return found[0] if found else None
