"""Fields set in a YAML text: what is asked for changes, and not a byte more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables import table

from everturn_gateway.yaml_files.editing import EditError, with_fields, with_item, with_section

AGENT = """\
spec:
  # which
  model:
    provider: openai   # who
    name: "gpt-5"
    base_url: http://x  # old
    max_output_tokens: 5

  soul: ./S.md
"""


@table(
    "text, fields, expected",
    [
        (
            AGENT,
            {"provider": "ollama", "name": "qwen3:4b", "base_url": ""},
            AGENT.replace("openai", "ollama")
            .replace('"gpt-5"', "qwen3:4b")
            .replace("    base_url: http://x  # old\n", ""),
        ),
        (
            "spec: {model: {provider: a, name: b}}\n",
            {"name": "c", "base_url": "u"},
            "spec: {model: {provider: a, base_url: u, name: c}}\n",
        ),
        (
            "spec:\n  model:\n    name: b",
            {"provider": "c"},
            "spec:\n  model:\n    name: b\n    provider: c\n",
        ),
        ("spec: {model: {name: b}}", {"name": "on"}, 'spec: {model: {name: "on"}}'),
    ],
)
def test_only_what_is_asked_for_changes(text: str, fields: dict[str, str], expected: str) -> None:
    """Comments, order and limits stay."""
    assert with_fields(text, ("spec", "model"), fields) == expected


@table(
    "text",
    [
        "x: 1\n",
        "spec: {model: x}\n",
        "spec: {model: {}}\n",
        "spec: {model: *a}\n",
        "spec: " + "[" * 5000,
        "spec:\n model: &m {name: a}\n other: *m\n",
        "base: &b {name: a}\nspec:\n model:\n  <<: *b\n  x: 1\n",
    ],
)
def test_what_cannot_be_changed_safely_is_refused(text: str) -> None:
    """Something else would change with it."""
    with pytest.raises(EditError):
        with_fields(text, ("spec", "model"), {"name": "q"})


@table(
    "text, expected",
    [
        ("", "c:\n  t:\n    k: v\n"),
        ("a: 1  # x", "a: 1  # x\nc:\n  t:\n    k: v\n"),
        ("c:\n    d: {k: w}\na: 1\n", "c:\n    t:\n      k: v\n    d: {k: w}\na: 1\n"),
        ("c: # x\n # of d\n d: {k: w}\n", "c: # x\n t:\n   k: v\n # of d\n d: {k: w}\n"),
        ("c: {t: {x: 1}}\n", "c: {t: {x: 1, k: v}}\n"),
        ("c: {d: 1}\n", None),
        ("c:\n", None),
        ("- a\n", None),
    ],
)
def test_a_section_is_added_or_filled(text: str, expected: str | None) -> None:
    """All else stays, and what cannot be done safely is left to its owner."""
    try:
        found = with_section(text, "c", "t", {"k": "v"})
    except EditError:
        found = None
    assert found == expected


def test_an_item_is_added_before_what_is_said_of_the_next() -> None:
    """A comment stays with what it is about."""
    text = "c:\n- {a: x}\n"
    assert with_item("c:\n# of b\n- a: b\n", "c", {"a": "x"}) == f"{text}# of b\n- a: b\n"


@given(st.text(max_size=30))
def test_any_text_is_a_value(value: str) -> None:
    """It is read as it was set, or refused."""
    try:
        text = with_fields("a: {b: x}\n", ("a",), {"b": value})
    except EditError:
        return
    assert with_fields(text, ("a",), {"b": "x"}) == "a: {b: x}\n"
