"""The committed schema of `agent.yaml`: judges documents as an editor does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import jsonschema

FILE: Final = Path(__file__).parents[2] / "agents/agent.schema.json"
SCHEMA: Final[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
VALIDATOR: Final = jsonschema.Draft202012Validator(SCHEMA)
