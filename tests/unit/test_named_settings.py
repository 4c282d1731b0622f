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
from everturn_gateway.tools.memory.tools import memory_directive


@table(
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
        ("{type: builtin, name: memory, backend: redis}", "backend: must be filesystem"),
        ("{type: plugin, name: bash}", "'bash' is not installed; there are: none"),
        (
            "{type: builtin, name: bash}, {type: builtin, name: bash, timeout_seconds: 5}",
            "builtin bash is there twice, with other settings",
        ),
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


@table(
    ("entries", "warning"),
    [
        ("{type: builtin, name: bsh}", "spec.tools[0].name: must be one of"),
        (
            "{type: builtin, name: bash}, {type: builtin, name: bash}",
            "spec.tools[1]: builtin bash is there twice",
        ),
        ("{type: cli, name: gone, command: ./gone.sh}", "spec.tools[0]: command: there is no file"),
    ],
)
def test_a_tool_that_duragent_would_leave_out_is_left_out_with_a_warning(
    tmp_path: Path, entries: str, warning: str
) -> None:
    """Its folders load unchanged, and the other tools of the agent work."""
    file = load_agent(
        write_agent(tmp_path, "a", f"  tools: [{entries}, {{type: builtin, name: files}}]\n"),
        environ={},
    )
    (told,) = map(str, file.warnings)

    assert warning in told
    assert file.tool_config.uses[-1].plugin.name == "files"


@table(
    "spec",
    [
        "  memory: {backend: filesystem}\n",
        "  memory: {}\n",
        "  tools: [{type: builtin, name: memory}]\n",
        "  memory: {backend: filesystem}\n  tools: [{type: builtin, name: memory}]\n",
    ],
)
def test_memory_is_given_by_its_field_and_by_its_name(tmp_path: Path, spec: str) -> None:
    """Agents of Duragent's say it in either way, or in both; its tools are there once."""
    file = load_agent(write_agent(tmp_path, "a", spec), environ={})

    assert [use.plugin.name for use in file.tool_config.uses].count("memory") == 1
    assert file.spec.prompt.directives == (memory_directive(),)
    assert file.warnings == ()


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
