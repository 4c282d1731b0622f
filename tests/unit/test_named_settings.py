"""What stands beside the name of a tool or a policy is read by that one's own model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.agent_schema import VALIDATOR
from support.agents import write_agent
from support.tables import table

from everturn_gateway.errors import ConfigError
from everturn_gateway.specs import load_agent


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (
            "{type: builtin, name: files, read_onl: true}",
            "agent.yaml:9: spec.tools[0].read_onl: is not a known field; did you mean read_only?",
        ),
        (
            "{type: builtin, name: files, max_processes: 2}",
            "spec.tools[0].max_processes: is not a known field; there are: read_only",
        ),
        ("{type: builtin, name: bash, timeout_seconds: 0}", "must be more than 0, not '0'"),
        ("{type: builtin, name: web, search: {}}", "spec.tools[0].search.provider: is required"),
        ("{type: builtin, name: memory}", "spec.tools[0].name: memory is given by spec.memory"),
        ("{type: plugin, name: bash}", "'bash' is not installed; there are: none"),
        ("{type: builtin, name: bash}, {type: builtin, name: bash}", "builtin bash is there twice"),
    ],
)
def test_what_a_tool_cannot_read_is_a_fault_with_its_place(
    tmp_path: Path, entry: str, fault: str
) -> None:
    """It would have no effect, and whoever wrote it would not know."""
    folder = write_agent(tmp_path, "a", f"  tools: [{entry}]\n")

    with pytest.raises(ConfigError) as error:
        load_agent(folder, environ={})

    assert fault in str(error.value)


def test_faults_of_tools_and_numbers_stand_beside_all_others(tmp_path: Path) -> None:
    """Whoever mends a file by one fault at a time mends it all day."""
    folder = write_agent(
        tmp_path,
        "a",
        "  soull: x\n"
        "  session: {context: {policy: jutul, cut_to: 0.5, preview_lines: -1}}\n"
        "  tools: [{type: builtin, name: files, read_only: perhaps}]\n",
    )

    with pytest.raises(ConfigError) as error:
        load_agent(folder, environ={})

    assert [fault.field for fault in error.value.faults] == [
        "spec.soull",
        "spec.session.context.preview_lines",
        "spec.session.context.cut_to",
        "spec.tools[0].read_only",
    ]


@table(
    ("context", "tool", "is_good"),
    [
        ({"policy": "jutul", "preview_lines": 3}, {"name": "files", "read_only": True}, True),
        ({"policy": "jutul", "cut_to": 0.5}, {"name": "files"}, False),
        ({"cut_to": 0.5, "tool_result_keep_last": 5}, {"name": "web_search"}, True),
        ({"policy": "everturn", "tool_result_keep_last": 5}, {"name": "files"}, False),
        ({"policy": "${POLICY}", "any": 1}, {"name": "bash", "timeout_seconds": 5}, True),
        ({}, {"name": "files", "timeout_seconds": 5}, False),
        ({}, {"name": "schedule_task", "max_jobs": 5}, True),
        ({}, {"name": "bsh"}, False),
    ],
)
def test_an_editor_knows_what_belongs_to_which_name(
    context: dict[str, Any], tool: dict[str, Any], *, is_good: bool
) -> None:
    """The schema and the loader agree."""
    document = {
        "apiVersion": "duragent/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": "a"},
        "spec": {
            "model": {"provider": "builtin", "name": "builtin"},
            "session": {"context": context},
            "tools": [{"type": "builtin", **tool}],
        },
    }

    assert VALIDATOR.is_valid(document) is is_good
