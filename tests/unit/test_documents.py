"""Reading YAML: everything that is wrong is said at once, with its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from everturn_gateway.errors import ConfigError
from everturn_gateway.yaml_files import Section, check, read_document, read_text
from everturn_gateway.yaml_files.reading import MAX_FILE_BYTES, expand


class Inner(Section):
    """A section in a section."""

    mode: Literal["slow", "fast"] = "slow"
    size_limit: int = 0


class Left(Section):
    """One member of a union."""

    type: Literal["left"]
    depth: int


class Right(Section):
    """The other member."""

    type: Literal["right"]
    wide: bool


class Outer(Section):
    """A section with one field of each kind."""

    name: str
    amount: Annotated[int, Field(ge=1)] = 1
    ratio: Annotated[float, Field(ge=0, le=2)] = 1.0
    active: bool = True
    tags: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    inner: Inner = Inner()
    sides: tuple[Annotated[Left | Right, Field(discriminator="type")], ...] = ()


def write(tmp_path: Path, text: str | bytes) -> Path:
    """Write a file and return its path."""
    file = tmp_path / "file.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def faults_of(tmp_path: Path, text: str | bytes, **environ: str) -> list[str]:
    """Return what is wrong with a file, without its path."""
    file = write(tmp_path, text)
    try:
        _, faults = check(read_document(file, environ), Outer)
    except ConfigError as error:
        faults = error.faults
    return [str(fault).removeprefix(f"{file}") for fault in faults]


def value_of(tmp_path: Path, text: str, **environ: str) -> Outer:
    """Return the values of a file that must be right."""
    value, faults = check(read_document(write(tmp_path, text), environ), Outer)
    assert not faults
    assert value is not None
    return value


def test_every_fault_is_reported_with_its_line_and_field(tmp_path: Path) -> None:
    """One run must show a person all that has to be put right."""
    text = """\
nam: misspelt
amount: 0
ratio: warm
active: perhaps
tags: one
inner:
  mode: medium
  sizelimit: 3
labels: {a: [1]}
"""

    assert faults_of(tmp_path, text) == [
        ":1: name: is required",
        ":1: nam: is not a known field; did you mean name?",
        ":2: amount: must be at least 1, not '0'",
        ":3: ratio: must be a number, not 'warm'",
        ":4: active: must be true or false, not 'perhaps'",
        ":5: tags: must be a list, not 'one'",
        ":7: inner.mode: must be slow or fast, not 'medium'",
        ":8: inner.sizelimit: is not a known field; did you mean size_limit?",
        ":9: labels.a: must be a text, not a list",
    ]


def test_faults_in_lists_and_unions_name_the_item(tmp_path: Path) -> None:
    """The member of a union that pydantic was in must not show in the field's name."""
    text = """\
name: x
sides:
  - {type: left, depth: deep}
  - type: right
    wide: true
    dpeth: 1
  - {type: up}
  - {wide: true}
  - middle
"""

    assert faults_of(tmp_path, text) == [
        ":3: sides[0].depth: must be a whole number, not 'deep'",
        ":6: sides[1].dpeth: is not a known field; there are: type, wide",
        ":7: sides[2]: type must be one of left, right, not 'up'",
        ":8: sides[3]: needs a type",
        ":9: sides[4]: must be a section of fields, not 'middle'",
    ]


def test_a_field_far_from_any_other_lists_what_there_is(tmp_path: Path) -> None:
    """Where no name is near, the known ones help more than a wrong guess."""
    assert faults_of(tmp_path, "name: x\ninner:\n  zzz: 1\n") == [
        ":3: inner.zzz: is not a known field; there are: mode, size_limit"
    ]


def test_the_type_of_the_field_decides_what_a_scalar_means(tmp_path: Path) -> None:
    """A platform's ids and a version are texts, whether they are quoted or not."""
    text = """\
name: 1.0
amount: "7"
ratio: 1
active: no
tags: [12345, on, 2024-01-01, 1:30, "null"]
labels: {1: 2}
"""

    value = value_of(tmp_path, text)

    assert (value.name, value.amount, value.ratio, value.active) == ("1.0", 7, 1.0, False)
    assert value.tags == ("12345", "on", "2024-01-01", "1:30", "null")
    assert value.labels == {"1": "2"}


def test_a_field_without_a_value_counts_as_left_out(tmp_path: Path) -> None:
    """Sections whose lines are all commented out are common in templates."""
    value = value_of(tmp_path, "name: x\ninner:\n  # mode: fast\namount: ~\n")

    assert value == Outer(name="x")


def test_an_empty_file_is_an_empty_section(tmp_path: Path) -> None:
    """A file of nothing but comments must say what is missing, not crash."""
    assert faults_of(tmp_path, "# nothing\n") == [":1: name: is required"]


def test_a_name_given_twice_is_a_fault(tmp_path: Path) -> None:
    """YAML would silently take the second one."""
    assert faults_of(tmp_path, "name: a\namount: 2\nname: b\n") == [
        ":3: name: is given twice, first in line 1"
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"name: x\ninner:\n\tmode: fast\n", ":3: a tab cannot indent YAML; use spaces"),
        (b"name: \xff\n", ":1: is not valid UTF-8 (byte 0xff)"),
        ("ok: é\nname: \x07\n", ":2: holds the control character 0x07"),
        ("- a\n- b\n", ":1: must be a mapping of fields (name: value)"),
        ("name: a\n---\nname: b\n", ":2: holds more than one YAML document (a second `---`)"),
        ("name: [a\n", ":2: is not valid YAML: did not find expected ',' or ']',"),
        ("name: a: b\n", ":1: is not valid YAML: mapping values are not allowed in this context"),
        ("name: *other\n", ":1: is not valid YAML: found undefined alias"),
        ("name: !!python/name:os.system x\n", ":1: name: the tag 'python/name:os.system'"),
        ("name: !secret x\n", ":1: name: the tag '!secret' is not supported"),
        ("name: x\n[a]: b\n", ":2: the name of a field must be a text"),
    ],
)
def test_what_is_not_plain_yaml_is_refused_with_its_line(
    tmp_path: Path, text: str | bytes, fault: str
) -> None:
    """Nobody should have to look for a tab or a stray byte."""
    assert faults_of(tmp_path, text)[0].startswith(fault)


def test_anchors_aliases_and_merges_are_understood(tmp_path: Path) -> None:
    """They are how people avoid saying a thing twice."""
    text = """\
name: &word x
tags: [*word, *word]
inner: &base {mode: fast, size_limit: 5}
labels:
  <<: {a: from merge, b: from merge}
  a: own
"""

    value = value_of(tmp_path, text)

    assert value.tags == ("x", "x")
    assert value.labels == {"a": "own", "b": "from merge"}


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{name}: &{name} [{','.join([f'*{previous}'] * 10)}]\n"
            for previous, name in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "name: &loop [*loop]\n",
        "a: &a {x: 1}\n"
        + "".join(
            f"{name}: &{name} {{<<: [{','.join([f'*{previous}'] * 10)}]}}\n"
            for previous, name in zip("abcdefgh", "bcdefghi", strict=True)
        ),
    ],
    ids=["lists", "loop", "merges"],
)
def test_an_alias_bomb_is_refused(tmp_path: Path, text: str) -> None:
    """A few lines must not fill the memory."""
    assert "stands for too many values" in faults_of(tmp_path, text)[0]


@pytest.mark.parametrize("text", ["name: " + "[" * 100_000, "- " * 100_000, '{"a":' * 100_000])
def test_deep_nesting_is_refused_and_not_crashed_on(tmp_path: Path, text: str) -> None:
    """The YAML library's recursion in C would end the process."""
    assert "is nested deeper than 64 levels" in faults_of(tmp_path, text)[0]


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """A path that names the wrong file must not be read into memory whole."""
    assert faults_of(tmp_path, b"#" * (MAX_FILE_BYTES + 1)) == [": is larger than 1024 KiB"]


def test_what_is_not_a_file_is_refused_without_waiting(tmp_path: Path) -> None:
    """Opening a pipe would wait for ever."""
    os.mkfifo(tmp_path / "pipe")

    for name, message in [
        ("pipe", "is not a file"),
        (".", "is not a file"),
        ("missing.yaml", "there is no such file"),
    ]:
        with pytest.raises(ConfigError, match=message):
            read_text(tmp_path / name)


def test_a_variable_that_is_not_set_is_a_fault_that_names_it(tmp_path: Path) -> None:
    """It is said once, not again as a wrong number."""
    assert faults_of(tmp_path, "name: x\namount: ${AMOUNT}\n") == [
        (
            ":2: amount: the environment variable AMOUNT is not set;"
            " set it, or give a default: ${AMOUNT:-...}"
        )
    ]


def test_variables_fill_in_values_of_any_type(tmp_path: Path) -> None:
    """A number from the environment is as good as one in the file."""
    text = "name: ${HOST:-local}host\namount: ${AMOUNT}\nactive: ${ACTIVE:-false}\n"

    value = value_of(tmp_path, text, AMOUNT="12")

    assert value == Outer(name="localhost", amount=12, active=False)


def test_a_bare_variable_that_is_empty_is_no_value(tmp_path: Path) -> None:
    """`${TOKEN:-}` means "where there is one", while a quoted empty text is a text."""
    assert value_of(tmp_path, "name: x\namount: ${NONE:-}\n").amount == 1
    assert value_of(tmp_path, 'name: "${NONE:-}"\n').name == ""


def test_what_a_variable_brings_in_is_never_shown(tmp_path: Path) -> None:
    """A secret in the wrong place must not end in a log."""
    (fault,) = faults_of(tmp_path, "name: x\namount: ${KEY}\n", KEY="hunter2")

    assert fault == ":2: amount: must be a whole number, not '${KEY}'"


def test_what_a_variable_brings_in_is_not_yaml(tmp_path: Path) -> None:
    """A value from the environment cannot add fields."""
    value = value_of(tmp_path, "name: ${V}\n", V="a\namount: 9\n# ${V}")

    assert value == Outer(name="a\namount: 9\n# ${V}")


@pytest.mark.parametrize("text", ["${}", "${A", "${A-b}", "${1}", "${A B}", "${A:-${B}}"])
def test_a_reference_that_cannot_be_read_is_a_fault(text: str) -> None:
    """A typo must not pass as a text."""
    expanded, problems = expand(text, {"A": "1", "B": "2"})

    assert problems
    assert expanded.startswith("${")


def test_two_dollars_give_a_plain_brace() -> None:
    """Texts about shell scripts need it."""
    assert expand("$${A} $A $$ $", {"A": "x"}) == ("${A} $A $$ $", ())


def test_the_data_can_be_shown_as_it_stands_in_the_file(tmp_path: Path) -> None:
    """What a person sees must hold numbers as numbers and no secret from the environment."""
    text = 'name: "${KEY}"\namount: 5\nratio: 0.5\nactive: true\ntags: [a, "1", ~]\ninner:\n'

    document = read_document(write(tmp_path, text), {"KEY": "hunter2"})

    assert document.as_written() == {
        "name": "${KEY}",
        "amount": 5,
        "ratio": 0.5,
        "active": True,
        "tags": ["a", "1", None],
        "inner": None,
    }


def test_line_ends_and_byte_order_marks_of_other_systems_are_taken(tmp_path: Path) -> None:
    """Files written on Windows are files too."""
    file = write(tmp_path, b"\xef\xbb\xbfname: x\r\namount: 2\r\n")

    value, faults = check(read_document(file, {}), Outer)

    assert faults == ()
    assert value == Outer(name="x", amount=2)
