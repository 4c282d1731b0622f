"""`providers` and `prices` in everturn.yaml: what is taken, and how mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tables import table

from everturn_gateway.config.settings import Config, load_config
from everturn_gateway.errors import ConfigError
from everturn_gateway.plugins import installed
from everturn_gateway.usage import Price, Rates


def load(tmp_path: Path, text: str) -> Config:
    """Load a configuration that consists of `text`."""
    file = tmp_path / "everturn.yaml"
    file.write_text(text, encoding="utf-8")
    return load_config(file, environ={"KEYS": "/run/keys"})


def test_what_a_file_can_say_of_providers(tmp_path: Path) -> None:
    """Paths start at the file; what is not said is left to the program."""
    config = load(
        tmp_path,
        """\
providers:
  openai: {max_concurrent: 8, api_key_file: secrets/openai.key}
  anthropic: {api_key_file: "${KEYS}/anthropic"}
  local: {max_concurrent: 2}
""",
    )

    found = {
        name: (each.max_concurrent, each.api_key_file) for name, each in config.providers.items()
    }

    assert found == {
        "openai": (8, tmp_path / "secrets/openai.key"),
        "anthropic": (None, Path("/run/keys/anthropic")),
        "local": (2, None),
    }


def test_the_window_of_our_own_model_is_listed() -> None:
    """It was trained for less than any that is not known."""
    local = installed().providers.get("local")

    assert local is not None
    assert local.window("SmolLM2-135M-Instruct") == 4096
    assert local.window("another") is None


def test_what_a_file_can_say_of_prices(tmp_path: Path) -> None:
    """Two numbers are enough; contracts may have eight."""
    config = load(
        tmp_path,
        """\
prices:
  openai/gpt-x: {input: 1.25, output: 10}
  openrouter/*: {input: 0, output: 0}
  anthropic/c:
    input: 3
    cached: 0.3
    cache_write: 3.75
    output: 15
    long: {above_tokens: 200000, input: 6, cached: 0.6, cache_write: 7.5, output: 22.5}
""",
    )

    assert config.prices == {
        "openai/gpt-x": Price(rates=Rates(input=1.25, output=10)),
        "openrouter/*": Price(rates=Rates(input=0, output=0)),
        "anthropic/c": Price(
            rates=Rates(input=3, cached=0.3, cache_write=3.75, output=15),
            long_above_tokens=200_000,
            long=Rates(input=6, cached=0.6, cache_write=7.5, output=22.5),
        ),
    }


def test_without_them_nothing_is_set(tmp_path: Path) -> None:
    """The sections are for those who need them."""
    config = load(tmp_path, "providers:\nprices:\n")

    assert (config.providers, config.prices) == ({}, {})


@table(
    ("text", "line", "field", "message"),
    [
        (
            "providers: {openia: {}}",
            1,
            "providers.openia",
            "is not a known field; did you mean openai?",
        ),
        (
            "providers:\n  openai: {max_concurrent: 0}",
            2,
            "providers.openai.max_concurrent",
            "must be at least 1, not '0'",
        ),
        (
            "providers:\n  openai: {concurrent: 3}",
            2,
            "providers.openai.concurrent",
            "is not a known field; did you mean max_concurrent?",
        ),
        (
            "providers:\n  openai: {api_key_file: ~/key}",
            2,
            "providers.openai.api_key_file",
            "~ is not expanded here; write ${HOME}",
        ),
        (
            "providers:\n  local: {api_key_file: key}",
            2,
            "providers.local.api_key_file",
            "is not a known field; there are: max_concurrent",
        ),
        ("providers:\n  openai: 3", 2, "providers.openai", "must be a section of fields, not '3'"),
        ("providers: [openai]", 1, "providers", "must be a section of fields, not a list"),
        ("prices:\n  gpt-5: {input: 1, output: 2}", 2, "prices.gpt-5", "must be a provider and"),
        ("prices:\n  openia/x: {input: 1, output: 2}", 2, "prices.openia/x", "must be a provider"),
        ("prices:\n  openai/: {input: 1, output: 2}", 2, "prices.openai/", "must be a provider"),
        (
            "prices:\n  openai/*-mini: {input: 1, output: 2}",
            2,
            "prices.openai/*-mini",
            "may have one * alone, at its end",
        ),
        ("prices:\n  openai/x: {input: 1}", 2, "prices.openai/x.output", "is required"),
        (
            "prices:\n  openai/x: {input: -1, output: 2}",
            2,
            "prices.openai/x.input",
            "must be at least 0, not '-1'",
        ),
        (
            "prices:\n  openai/x: {input: .inf, output: 2}",
            2,
            "prices.openai/x.input",
            "must be a number, not '.inf'",
        ),
        (
            "prices:\n  openai/x: {input: 1, output: 2, long: {input: 1, output: 2}}",
            2,
            "prices.openai/x.long.above_tokens",
            "is required",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(
    tmp_path: Path, text: str, line: int, field: str, message: str
) -> None:
    """A limit that is mistyped would be no limit."""
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text + "\n")

    (fault,) = refused.value.faults
    assert (fault.line, fault.field) == (line, field)
    assert fault.message.startswith(message)
