"""What a hostile file, name or folder can do: be refused, quickly, with its place."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import pytest
from support.tables import table
from support.tool_environments import tool_environment

from everturn_actors.errors import UnknownSessionError
from everturn_actors.ids import result_name
from everturn_actors.journal.log.layout import Layout
from everturn_actors.journal.results import is_result_name
from everturn_actors.model import ConversationKey
from everturn_gateway.commands.doctor import doctor
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.config.settings import load_config
from everturn_gateway.errors import ConfigError
from everturn_gateway.http.masking import masked
from everturn_gateway.specs.loading import load_agent
from everturn_gateway.tools.policy.policy_files.loading import load_policy
from everturn_gateway.tools.shell.confinement.sandbox import Confinement, confine
from everturn_gateway.tools.skills.loading import load_skills

RuntimeStats: TypeAlias = Callable[[Path, str], None]

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateway", "channels", "actors")
AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {name: x}
spec: {model: {provider: builtin, name: builtin}}
"""
NAMES = tuple("abcdefghij")
ALIASES = f"a: &a [{'x,' * 10}]\n" + "".join(
    f"{name}: &{name} [{f'*{before},' * 10}]\n" for before, name in pairwise(NAMES)
)
MERGES = "a: &a {k: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{f'*{before},' * 10}]}}\n" for before, name in pairwise(NAMES)
)
DEEP = f"a: {'[' * 300_000}\n"  # what takes time with the square of it would take an hour


def _agent(folder: Path, text: str) -> None:
    (folder / "agent.yaml").write_text(AGENT + text)
    load_agent(folder, environ={})


def _config(folder: Path, text: str) -> None:
    (folder / "everturn.yaml").write_text(text)
    load_config(folder / "everturn.yaml", environ={})


def _policy(folder: Path, text: str) -> None:
    (folder / "policy.yaml").write_text(text)
    load_policy(None, folder, {})


def _allowed(folder: Path, text: str) -> None:
    (folder / "policy.local.yaml").write_text(text)
    load_policy(None, folder, {})


def _skill(folder: Path, text: str) -> None:
    (folder / "s").mkdir()
    (folder / "s" / "SKILL.md").write_text(f"---\nname: s\ndescription: d\n{text}---\nbody\n")
    skills, faults = load_skills(folder)
    if faults:
        raise ConfigError(faults=faults)
    assert [skill.name for skill in skills] == ["s"]  # it follows no alias, so there is no bomb


@table("load", [_agent, _config, _policy, _allowed, _skill])
@table("text", [ALIASES, MERGES, DEEP], ids=["aliases", "merges", "deep"])
def test_a_few_lines_that_stand_for_billions_are_refused(
    tmp_path: Path, load: RuntimeStats, text: str
) -> None:
    """A folder that somebody sends must not take the memory and the time of the gateway."""
    if load is _skill and text is not DEEP:
        load(tmp_path, text)  # reads no more than texts, and follows no alias
        return
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    faults = caught.value.faults

    assert faults
    assert all(fault.file.is_relative_to(tmp_path) for fault in faults)


# --- names that become paths ---


@table(
    "text",
    [
        *(
            "..",
            "../../etc",
            "/etc/passwd",
            "",
            ".",
            "\0",
            "a/b",
            "a\\b",
            "x\n",
            "20261121T224956123",
        ),
        *(
            "20261121T224956123-3F9A2C1B",
            "20261121T224956123-3f9a2c1b\n",
            "20261121T224956123-3f9a2c1b/..",
        ),
        "\uff12\uff10\uff12\uff161121T224956123-3f9a2c1b",  # digits, but not of ASCII
    ],
)
def test_only_a_session_id_becomes_a_folder(tmp_path: Path, text: str) -> None:
    """It comes from addresses, from tools and from the command line."""
    layout = Layout(workspace=tmp_path)
    for path in (layout.session, layout.marker):
        with pytest.raises(UnknownSessionError):
            path(text)


@table("name", ["../x", "a/b", "..", ".hidden", "x.", "a\0b", "é", "x" * 101, ""])
def test_only_a_plain_name_becomes_a_file_of_a_session(name: str) -> None:
    """Names of results and media come from models and from addresses."""
    assert not is_result_name(name)
    assert "/" not in result_name(name)
    assert not result_name(name).startswith(".")


@table("part", ["../../x", "/etc/passwd", "a\0b", "\ud800", "x" * 10_000])
def test_whatever_a_conversation_is_called_its_file_has_a_safe_name(
    tmp_path: Path, part: str
) -> None:
    """Chats, topics and channels are named by platforms, plug-ins and callers."""
    layout = Layout(workspace=tmp_path)
    pointer = layout.pointer(ConversationKey(channel=part, chat=part, topic=part, agent=part))

    assert pointer.parent == layout.conversations
    assert pointer.name.removesuffix(".json").isalnum()


async def test_a_workspace_is_made_for_its_user_alone_with_all_that_is_above_it(
    tmp_path: Path,
) -> None:
    """Who may write into the folder above could put another one in its place."""
    environment = tool_environment(tmp_path / "deep")
    before = os.umask(0)
    try:
        await confine(environment, Confinement(sandbox="none"), ["true"])
    finally:
        os.umask(before)
    modes = [
        stat.S_IMODE(path.stat().st_mode) for path in (environment.files, environment.files.parent)
    ]

    assert modes == [0o700, 0o700]


# --- what is shown of an agent's file ---


def test_secrets_in_an_agents_file_are_masked_whatever_they_are_called() -> None:
    """The address of a server, the options of a program and any header may hold one."""
    document = {
        "url": "https://ann:pass@wiki.example/mcp?api_key=abc&page=1&key=${KEY}",
        "headers": {"Cookie": "abc", "X-Anything": "abc", "Authorization": "Bearer ${TOKEN}"},
        "env": {"PGPASSFILE": "abc", "MODE": "abc", "TOKEN": "${TOKEN}", "EMPTY": ""},
        "args": ["--token", "abc", "--api-key=abc", "--verbose", "--password=${PASSWORD}"],
        "description": "see https://wiki.example/?page=1",
    }

    assert masked(document) == {
        "url": "https://ann:***@wiki.example/mcp?api_key=***&page=1&key=${KEY}",
        "headers": {"Cookie": "***", "X-Anything": "***", "Authorization": "Bearer ${TOKEN}"},
        "env": {"PGPASSFILE": "***", "MODE": "***", "TOKEN": "${TOKEN}", "EMPTY": ""},
        "args": ["--token", "***", "--api-key=***", "--verbose", "--password=${PASSWORD}"],
        "description": "see https://wiki.example/?page=1",
    }


# --- what the doctor says ---

TOOLS = "  tools: [{type: builtin, name: bash, network: true}]\n"


@table(
    ("token", "spec", "policy", "notes"),
    [
        ("", TOOLS, "", ["asks for no token"]),
        ("x" * 32, TOOLS, "", []),
        ("short", TOOLS, "", ["server.api_token has 5 characters"]),
        ("x" * 32, f"{TOOLS}  access: {{dm: {{policy: open}}}}\n", "", ["name approvers"]),
        ("x" * 32, f"{TOOLS}  access: {{dm: {{policy: open}}}}\n", "approvers: ['1']\n", []),
        ("x" * 32, f"{TOOLS}  access: {{dm: {{policy: open}}}}\n", "mode: restrict\n", []),
        (
            *("x" * 32, f"{TOOLS}  access: {{groups: {{policy: open}}}}\n", "mode: dangerous\n"),
            ["run without a question"],
        ),
    ],
)
def test_the_doctor_names_what_stands_open_to_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    token: str,
    spec: str,
    policy: str,
    notes: list[str],
) -> None:
    """Each of these is a choice, and whoever made it may not have meant all that follows."""
    agent = tmp_path / "agents" / "x"
    agent.mkdir(parents=True)
    model = "spec:\n  model: {provider: builtin, name: builtin}\n"
    (agent / "agent.yaml").write_text(AGENT.partition("spec:")[0] + model + spec)
    (agent / "policy.yaml").write_text(policy)
    (tmp_path / "everturn.yaml").write_text(f"server: {{api_token: '{token}'}}\n")
    monkeypatch.chdir(tmp_path)
    doctor(Options(config=None, workspace=None, agents_dir=None), repair=False)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note")]
    risks = ("token", "approvers", "without a question")
    found = [line for line in said if any(risk in line for risk in risks)]

    assert len(found) == len(notes), found
    assert all(note in line for note, line in zip(notes, found, strict=True))


def test_the_files_and_tests_that_the_threat_model_names_are_there() -> None:
    """A page that names what is gone is not believed in what it says of the rest."""
    page = (ROOT / "docs" / "security.md").read_text()
    files = [each.as_posix() for name in PACKAGES for each in (ROOT / name).rglob("*.py")]
    named = sorted(set(re.findall(r"`([\w/]+\.py)`", page)))
    tests = set(re.findall(r"`(\w+/test_\w+)`", page))

    assert len(named) > 50
    assert [name for name in named if sum(each.endswith(f"/{name}") for each in files) != 1] == []
    assert len(tests) > 50
    assert [each for each in tests if not (ROOT / "tests" / f"{each}.py").is_file()] == []
