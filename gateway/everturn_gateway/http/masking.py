"""Takes secrets that stand literally in an agent's file out of what is shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

MASK = "***"
# Names that hold a secret wherever they stand; `max_tokens` and `tokens` do not.
_SECRET = re.compile(
    r"(^|[_-])(api_?-?key|token|secret|password|passwd|authorization|credentials?|private_?-?key"
    r"|webhook)$",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"\$\{[^}]*\}")


def masked(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return `document` with every literal secret replaced; `${VAR}` says nothing and is kept."""
    return {name: _value(name, value) for name, value in document.items()}


def _value(name: str, value: Any) -> Any:  # noqa: ANN401 - any value of a YAML file
    if isinstance(value, Mapping):
        return masked(cast("Mapping[str, Any]", value))
    if isinstance(value, (list, tuple)):
        return [_value(name, item) for item in cast("list[Any]", value)]
    if _SECRET.search(name) and isinstance(value, str) and value:
        return value if _VARIABLE.fullmatch(value) and ":-" not in value else MASK
    return value
