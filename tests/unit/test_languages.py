"""The texts for people are there in all languages, and say the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from support.tables import table
from support.texts import ROOT, places_of, uses

from everturn_channels.languages import FOLDER, LANGUAGES, language_of, texts_in
from everturn_channels.reasons import REASONS

OTHERS = [each for each in LANGUAGES if each != "en"]


def tables() -> Mapping[str, dict[str, Any]]:
    """Return what the files hold, by language."""
    return {each: json.loads((FOLDER / f"{each}.json").read_text()) for each in OTHERS}


def test_every_text_that_is_shown_is_there_in_every_language_and_no_other() -> None:
    """Nobody reads half a page in English, or translates what is gone."""
    # Every text is there in every language. Nobody reads half a page in English; what is missing is
    # named where it stands.
    found = uses()
    missing = [f"{use.where}: no literal, so no file can have it" for use in found if not use.text]
    for language, texts in tables().items():
        for use in found:
            if use.text and use.text not in texts:
                missing.append(f"{use.where}: {language}.json has no {use.text!r}")
            elif use.text and isinstance(texts[use.text], dict) != bool(use.one):
                missing.append(f"{use.where}: {language}.json: {use.text!r} has forms, or none")

    assert len(found) > 100
    assert not missing, "\n".join(missing)

    # No text is left that nobody shows. Whoever translates works on nothing that is gone.
    used = {use.text for use in uses()}
    left = [
        f"{language}.json: {text!r}"
        for language, texts in tables().items()
        for text in texts
        if text not in used
    ]

    assert not left, "\n".join(left)

    # Reasons of the core are those that it gives. They stand there in English alone; one that is
    # said in other words is found in no file.
    sources = "".join(
        each.read_text()
        for top in ("actors/everturn_actors", "gateway/everturn_gateway/tools")
        for each in (ROOT / top).rglob("*.py")
    )

    assert [each for each in REASONS if f'"{each}"' not in sources] == []


def test_a_translation_has_the_placeholders_and_forms_of_its_text() -> None:
    """A name or a number that is left out is a text that says something else."""
    wrong: list[str] = []
    for language, texts in tables().items():
        for text, found in texts.items():
            forms = found if isinstance(found, dict) else {"other": found}
            wanted = {"other"} if language == "zh" else {"one", "other"}
            if isinstance(found, dict) and set(found) != wanted:
                wrong.append(f"{language}.json: {text!r} has the forms {sorted(found)}")
            # One thing may be called by its name: "a message".
            wrong += [
                f"{language}.json: {text!r}: {form!r}"
                for form, each in forms.items()
                if not each.strip()
                or places_of(each) | ({"count"} if form == "one" else set())
                != places_of(text) | ({"count"} if form == "one" else set())
            ]

    assert not wrong, "\n".join(wrong)


@table(
    ("tag", "language"),
    [("de", "de"), ("de-AT", "de"), ("zh_CN", "zh"), ("PT-br", None), ("", None), ("den", None)],
)
def test_a_platform_may_name_a_language_with_its_country(tag: str, language: str | None) -> None:
    """Telegram says `de`, Discord `es-ES`, others what they like."""
    assert language_of(tag) == language


def test_numbers_are_written_as_people_write_them() -> None:
    """1.234 is a thousand in Berlin, and one and a bit in London."""
    shown = {each: texts_in(each).number(1234567.5, 1) for each in LANGUAGES}
    turns = {
        each: [texts_in(each).plural("{count} turn", "{count} turns", n) for n in (0, 1, 1234)]
        for each in LANGUAGES
    }

    assert shown == {
        "de": "1.234.567,5",
        "en": "1,234,567.5",
        "es": "1.234.567,5",
        "fr": "1\u202f234\u202f567,5",
        "zh": "1,234,567.5",
    }
    assert turns == {
        "de": ["0 Runden", "1 Runde", "1.234 Runden"],
        "en": ["0 turns", "1 turn", "1,234 turns"],
        "es": ["0 turnos", "1 turno", "1234 turnos"],
        "fr": ["0 tour", "1 tour", "1\u202f234 tours"],
        "zh": ["0 轮", "1 轮", "1,234 轮"],
    }
