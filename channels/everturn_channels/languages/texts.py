"""Looks up a text in a language, and writes numbers into it as people write them there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import msgspec

Language: TypeAlias = Literal["de", "en", "es", "fr", "zh"]

LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)
FOLDER: Final = Path(__file__).parent
"Where the files stand, `de.json` and so on."

_PLACE: Final = re.compile(r"\{(\w+)\}")
_GROUPS: Final[Mapping[Language, str]] = {
    "de": ".",
    "en": ",",
    "es": ".",
    "fr": "\N{NARROW NO-BREAK SPACE}",
    "zh": ",",
}
_GROUPED_FROM: Final[Mapping[Language, int]] = {"es": 10_000}  # 1234, and 12.345
_Forms: TypeAlias = str | dict[str, str]


class Texts:
    """The texts of one language.

    In code an instance is called `t`, so that a text reads as one, and a test finds all of them.

    >>> t = texts_in("de")
    >>> t("Log out")
    'Abmelden'
    >>> t.plural("{count} turn", "{count} turns", 1200)
    '1.200 Runden'
    """

    def __init__(self, language: Language, table: Mapping[str, _Forms]) -> None:
        self.language: Final = language
        self._table = table

    def __call__(self, text: str, /, **values: str | int) -> str:
        """Return a text with its values; English where this language has none."""
        found = self._table.get(text, text)
        return self._filled(found if isinstance(found, str) else text, values)

    def plural(self, one: str, other: str, count: int, /, **values: str | int) -> str:
        """Return a text that depends on a number, which it may call `{count}`."""
        found = self._table.get(other)
        forms = found if isinstance(found, dict) else {"one": one, "other": other}
        chosen = forms.get("one" if self._is_one(count) else "other", forms["other"])
        return self._filled(chosen, {"count": count, **values})

    def number(self, value: float, digits: int = 0) -> str:
        """Return a number as people write it in this language."""
        text = f"{value:,.{digits}f}"
        if abs(value) < _GROUPED_FROM.get(self.language, 0):
            text = text.replace(",", "")
        group = _GROUPS[self.language]
        point = "." if group == "," else ","
        return text.translate({ord(","): group, ord("."): point})

    def _is_one(self, count: int) -> bool:
        """Whether the language speaks of so many as of one thing.

        Source: https://www.unicode.org/cldr/charts/48/supplemental/language_plural_rules.html,
        read 2026-11-24, for whole numbers. Its "many" (from a million on) takes the form "other".
        """
        match self.language:
            case "zh":
                return False
            case "fr":
                return count in {0, 1}
            case _:
                return count == 1

    def _filled(self, text: str, values: Mapping[str, str | int]) -> str:
        def value(found: re.Match[str]) -> str:
            given = values.get(found[1], found[0])
            return given if isinstance(given, str) else self.number(given)

        return _PLACE.sub(value, text)


def language_of(tag: str) -> Language | None:
    """Return the language of a tag like `de-AT` or `zh_CN`; None where there are no texts in it."""
    base = tag.replace("_", "-").partition("-")[0].lower()
    return next((each for each in LANGUAGES if each == base), None)


@cache
def texts_in(language: Language) -> Texts:
    """Return the texts of a language. The first time it reads a small file."""
    if language == "en":
        return ENGLISH
    data = (FOLDER / f"{language}.json").read_bytes()
    return Texts(language, msgspec.json.decode(data, type=dict[str, _Forms]))


ENGLISH: Final = Texts("en", {})
