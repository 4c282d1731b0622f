"""Makes the text of a tool fit to be kept and sent: no broken characters, no secrets. Pure."""

from __future__ import annotations

from typing import Final

from everturn_gateway.late_loading import late_pattern
from everturn_gateway.logs import SecretRegistry

_COLOURS: Final = late_pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
"What a terminal would take for colours, moves of its cursor, or a title."
_BROKEN: Final = late_pattern(
    r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
"Control characters, lone surrogates, and what Unicode promises never to be a character."
_HIDDEN: Final = late_pattern("[\U000e0000-\U000e007f\u202a-\u202e\u2066-\u2069]")
"Characters that people do not see and models read: tags, and those that turn the direction."


def clean(text: str, secrets: SecretRegistry) -> str:
    """Return `text` with secrets masked, and each character that has no business in it replaced."""
    return secrets.mask(_BROKEN.sub("\ufffd", without_colours(text)))


def without_colours(text: str) -> str:
    """Return `text` without what a terminal would take for colours, moves or a title."""
    return _COLOURS.sub("", text)


def without_hidden(text: str) -> str:
    """Return `text` without characters that say something to a model and nothing to a person."""
    return _HIDDEN.sub("", text)
