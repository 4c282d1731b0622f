"""Whatever is in a file: values or faults with a place, never a crash."""

from __future__ import annotations

import json
import re
import string
import tempfile
from pathlib import Path

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from everturn_gateway.errors import ConfigError
from everturn_gateway.specs.settings.document import AgentDocument
from everturn_gateway.yaml_files import check, read_document
from everturn_gateway.yaml_files.reading import expand

NAMES = st.text(string.ascii_letters + "_", min_size=1, max_size=8)
# Characters that mean something to YAML or to variables come up often.
NOISE = st.text(st.sampled_from(list("ab0-:{}[]&*!|>'\"%@`#,?~<$\\\t\n ")), max_size=60)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.dates()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
AGENT = {
    "apiVersion": "duragent/v1alpha1",
    "kind": "Agent",
    "metadata": {"name": "a"},
    "spec": {"model": {"provider": "builtin", "name": "builtin"}},
}
SECTIONS = st.sampled_from(
    [
        ("metadata",),
        ("spec",),
        ("spec", "model"),
        ("spec", "session"),
        ("spec", "session", "context"),
        ("spec", "access"),
        ("spec", "tools"),
        ("spec", "hooks"),
    ]
)


def read(
    content: str | bytes, **environ: str
) -> tuple[AgentDocument | None, list[tuple[int, str]]]:
    """Read a file with this content; return its values, and line and field of each fault."""
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "agent.yaml"
        file.write_bytes(raw)
        try:
            value, faults = check(read_document(file, environ), AgentDocument)
        except ConfigError as error:
            value, faults = None, error.faults
        lines = len(re.split("\r\n|[\n\r\x85\u2028\u2029]", raw.decode(errors="replace")))
        assert all(0 <= fault.line <= lines and fault.message for fault in faults)
        assert all(fault.file == file for fault in faults)
        return value, [(fault.line, fault.field) for fault in faults]


@given(NOISE | st.text(max_size=60) | st.binary(max_size=60))
@example("? a\n: b")
@example("\x85{")
@example("a: &a\n  <<: *a\n")
@example("\x00")
@example("--- !!set {a, b}")
def test_any_bytes_give_values_or_faults(content: str | bytes) -> None:
    """A traceback tells the person who wrote the file nothing."""
    value, faults = read(content)

    assert value is None
    assert faults


@given(SECTIONS, VALUES)
def test_any_value_anywhere_gives_values_or_faults(path: tuple[str, ...], junk: object) -> None:
    """Sections can hold anything a person can write."""
    data = json.loads(json.dumps(AGENT))
    here = data
    for part in path[:-1]:
        here = here.setdefault(part, {})
    here[path[-1]] = junk

    value, faults = read(yaml.safe_dump(data, allow_unicode=True))

    assert (value is None) == bool(faults)


@given(
    st.lists(st.sampled_from(["", "  # a remark", "# one: more"]), max_size=6),
    st.sampled_from(
        [
            ("x_{}: 1", "x_{}"),
            ("    x_{}: |\n      a\n      b", "spec.model.x_{}"),
            ("  x_{}:\n    - a\n    - b", "spec.x_{}"),
        ]
    ),
    NAMES,
)
def test_a_fault_points_to_its_line_whatever_stands_above(
    above: list[str], bad: tuple[str, str], name: str
) -> None:
    """A wrong line number is worse than none."""
    lines = [
        "apiVersion: duragent/v1alpha1",
        "kind: Agent",
        "metadata: {name: a}",
        "spec:",
        "  model:",
        "    provider: builtin",
        "    name: builtin",
        *above,
        bad[0].format(name),
    ]

    _, faults = read("\n".join(lines))

    assert faults == [(len(lines), bad[1].format(name))]


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_a_variable_s_value_goes_in_as_it_is(before: str, value: str, after: str) -> None:
    """Nothing in it is read again, so that no value can bring in another variable."""
    before, after = before.replace("$", ""), after.replace("$", "")

    assert expand(f"{before}${{V}}{after}", {"V": value}) == (f"{before}{value}{after}", ())


@given((st.text(max_size=40) | st.text("${}A", max_size=20)).filter(lambda t: "${" not in t))
def test_text_without_a_reference_stays(text: str) -> None:
    """A price of $5 is not a variable."""
    assert expand(text, {}) == (text, ())


@given(st.text(max_size=40) | st.text("${}:-A", max_size=20))
def test_any_text_can_be_written_so_that_it_stays(text: str) -> None:
    """`$${` must be enough to say everything."""
    assert expand(text.replace("${", "$${"), {}) == (text, ())
