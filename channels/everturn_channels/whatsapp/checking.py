"""A look at what may be wrong with a number, for its owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from everturn_channels.ingestion.json_fields import Json, text_of

FIELDS: Final = (
    "id",
    "display_phone_number",
    "verified_name",
    "quality_rating",
    "name_status",
    "code_verification_status",
)
"""What is asked of the number.

Source: https://github.com/facebook/openapi (business-messaging-api_v23.0.yaml,
getPhoneNumberById), read 2026-11-27.
"""
_PROBLEMS: Final[Mapping[tuple[str, str], str]] = {
    ("quality_rating", "RED"): "its quality is low: people block or report it, and Meta takes less",
    ("name_status", "DECLINED"): "Meta declined its display name",
    ("name_status", "EXPIRED"): "its display name expired: ask for it anew",
}


def look(number: Json) -> list[str]:
    """Return a line for each thing found; those with `problem: ` need the owner."""
    shown = text_of(number, "display_phone_number")
    name = text_of(number, "verified_name")
    found = [f"the number is {shown}" + (f", {name}" if name else "")]
    found += [
        f"problem: {words}"
        for (field, value), words in _PROBLEMS.items()
        if text_of(number, field).upper() == value
    ]
    found.append("Meta delivers over HTTP; whether it reaches this gateway, it shows there")
    return found
