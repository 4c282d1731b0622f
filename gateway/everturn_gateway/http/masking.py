"""Takes secrets that stand literally in an agent's file out of what is shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

MASK = "***"
# Names that hold a secret wherever they stand; `max_tokens` and `tokens` do not.
_WORD: Final = (
    r"(?:api_?-?key|access_?-?key|private_?-?key|token|secret|pass|password|passwd|passphrase|pwd"
    r"|auth|authorization|cookie|credentials?|signature|webhook)"
)
_SECRET: Final = re.compile(rf"(?:^|[_-]){_WORD}$", re.IGNORECASE)
_OPTION: Final = re.compile(
    rf"(--?(?:[\w-]{{0,60}}[_-])?{_WORD})(?:(=)(.*))?", re.IGNORECASE | re.DOTALL
)
_PARAMETER: Final = re.compile(
    rf"([?&;](?:[^=&;#?\s]{{0,60}}[_-])?(?:key|sig|{_WORD})=)([^&;#\s]+)", re.IGNORECASE
)
_PASSWORD: Final = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]+@")
_SECTIONS: Final = frozenset(("env", "headers"))
"What stands in them is secret as often as not, and their names are anybody's."
_VARIABLE: Final = re.compile(r"(?:(?:Bearer|Basic|Token) )?\$\{[^}]*\}", re.IGNORECASE)


def masked(document: Mapping[str, object]) -> dict[str, object]:
    """Return `document` with every literal secret replaced; `${VAR}` says nothing and is kept.

    A secret is what a name says to be one, all that stands under `env` and `headers`, a password
    or a key in an address, and what follows an option such as `--token`.
    """
    return {name: _value(name, value) for name, value in document.items()}


def _value(name: str, value: object) -> object:
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, object]", value)
        if name in _SECTIONS:
            return {each: _closed(found) for each, found in inner.items()}
        return masked(inner)
    if isinstance(value, (list, tuple)):
        return _items(name, cast("Sequence[object]", value))
    if not isinstance(value, str):
        return value
    return _closed(value) if _SECRET.search(name) else _in_address(value)


def _items(name: str, items: Sequence[object]) -> list[object]:
    shown: list[object] = []
    is_secret = False
    for item in items:
        option = _OPTION.fullmatch(item) if isinstance(item, str) else None
        if is_secret and option is None:
            shown.append(_closed(item))
        elif option is not None and option[2]:
            shown.append(f"{option[1]}={_closed(option[3])}")
        else:
            shown.append(_value(name, item))
        is_secret = option is not None and not option[2]
    return shown


def _closed(value: object) -> object:
    """Return what is shown of a value that is secret, unless it only says where it is."""
    if value is None or value == "":
        return value
    is_open = isinstance(value, str) and _VARIABLE.fullmatch(value) and ":-" not in value
    return value if is_open else MASK


def _in_address(text: str) -> str:
    if "://" not in text:
        return text
    text = _PASSWORD.sub(rf"\1:{MASK}@", text)
    return _PARAMETER.sub(lambda found: f"{found[1]}{_closed(found[2])}", text)
