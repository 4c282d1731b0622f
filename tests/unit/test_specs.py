"""Agents as folders: the whole format, its faults, and what becomes of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from support.agent_schema import FILE, SCHEMA, VALIDATOR
from support.agents import write_agent, write_folder
from support.context_policies import POLICIES
from support.tables import table

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.estimation.prices import usual_prices
from everturn_actors.model import ChosenModel
from everturn_actors.spec import AgentSpec, ContextSpec, ModelSpec, PromptSpec, SessionSpec
from everturn_gateway.config.settings import SessionsConfig
from everturn_gateway.errors import ConfigError
from everturn_gateway.specs import load_agent, schema_text
from everturn_gateway.specs.values import model_spec
from everturn_gateway.tools.memory.tools import memory_directive

AGENTS = Path(__file__).parents[2] / "agents"

# Every field that Duragent knows.
FULL = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata:
  name: group-helper
  description: Helps in groups
  version: 1.0
  labels: {domain: general, tier: 1}
spec:
  model:
    provider: openrouter
    name: anthropic/claude-sonnet-4
    temperature: 0.3
    max_tokens: 2048
    max_input_tokens: 100000
    base_url: https://models.example.com/v1
  soul: ./SOUL.md
  system_prompt: ./SYSTEM_PROMPT.md
  instructions: ./INSTRUCTIONS.md
  session:
    on_disconnect: continue
    max_tool_iterations: 10
    llm_timeout_seconds: 120
    ttl_hours: 48
    compaction: discard
    context:
      max_history_tokens: 40000
      max_tool_result_tokens: 9000
      tool_result_truncation: both
      tool_result_keep_first: 1
      tool_result_keep_last: 3
  memory:
    backend: filesystem
  access:
    dm:
      policy: allowlist
      allowlist: [12345, "admin_*"]
    groups:
      policy: allowlist
      allowlist: [telegram:-100123456, -100999]
      activation: mention
      sender_default: silent
      sender_overrides: {67890: passive, "spam*": block}
      context_buffer: {mode: passive, max_messages: 50, max_age_hours: 12}
      queue:
        mode: sequential
        max_pending: 5
        overflow: reject
        reject_message: "I'm busy, please wait."
        debounce: {enabled: true, window_ms: 900}
  hooks:
    before_tool:
      - match: "background_process:send_keys"
        type: depends_on
        prior: "background_process:capture"
        match_arg: handle
      - match: "memory:recall"
        type: skip_duplicate
        match_args: [days]
    after_tool:
      - match: "background_process:spawn"
        message: "Remember to start a watcher for this process if needed."
        unless: {wait: true}
  tools:
    - {type: builtin, name: bash}
    - {type: builtin, name: web_search}
    - type: cli
      name: git-helper
      command: ./tools/git-helper/run.sh
      description: Run git operations
      readme: ./tools/git-helper/README.md
  skills_dir: ./skills/
"""

# Every field that Everturn adds.
ADDED = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {name: added}
spec:
  model:
    provider: openai
    name: gpt-5
    context_window: 300000
    max_output_tokens: 1000
    retry_for_seconds: 60
    fallbacks:
      - {provider: ollama, name: qwen3, base_url: "http://127.0.0.1:11434/v1"}
  session:
    turn_timeout_seconds: 60
    context:
      policy: baseagent
      model_context_limit: 200000
      output_token_max: 32000
      auto_compact_threshold: 0.85
      prune_protect: 40000
      prune_minimum: 20000
      max_output_tokens: 2500
      max_iterations: 200
      summarizer: {provider: openai, name: gpt-5-mini, base_url: "http://127.0.0.1:1/v1"}
      summary_timeout_seconds: 60
  access:
    dm: {queue: {mode: drop}}
  tools:
    - {type: mcp, name: files, command: mcp-files, args: [--root, /tmp], env: {A: b}}
    - {type: mcp, name: web, url: "https://mcp.example.com", headers: {X: y}}
"""


def write_full(folder: Path, text: str = FULL) -> Path:
    """Write the agent with every field of Duragent's, and the files that it names."""
    program = "tools_in_git-helper_in_run__sh"
    manual = "tools_in_git-helper_in_README__md"
    write_folder(folder, text, **PROMPTS, **{program: "#!/bin/sh\n", manual: "Git.\n"})
    (folder / "tools/git-helper/run.sh").chmod(0o755)
    return folder


PROMPTS = {
    "SOUL__md": "I am {{agent.name}}.\n",
    "SYSTEM_PROMPT__md": "Today is {{ date }}, {{time}}. Keep {{user}} and {braces}.\n",
    "INSTRUCTIONS__md": "Home is {{agent.home}}.\n",
}


def faults_of(folder: Path, **environ: str) -> list[str]:
    """Return what is wrong with an agent, paths relative to its folder."""
    with pytest.raises(ConfigError) as caught:
        load_agent(folder, environ=environ)
    return [str(fault).removeprefix(f"{folder}/") for fault in caught.value.faults]


def test_an_agent_with_every_field_of_duragent_s_loads_unchanged(tmp_path: Path) -> None:
    """Existing agents are the reason for the format."""
    folder = write_full(tmp_path / "group-helper")

    file = load_agent(folder, environ={})

    assert file.spec == AgentSpec(
        name="group-helper",
        description="Helps in groups",
        version="1.0",
        model=ModelSpec(
            provider="openrouter",
            name="anthropic/claude-sonnet-4",
            base_url="https://models.example.com/v1",
            temperature=0.3,
            max_input_tokens=100_000,
            max_output_tokens=2048,
        ),
        prompt=PromptSpec(
            soul="I am group-helper.\n",
            system_prompt="Today is {{date}}, {{time}}. Keep {{user}} and {braces}.\n",
            instructions=f"Home is {folder}.\n",
            directives=(memory_directive(),),
        ),
        session=SessionSpec(
            on_disconnect="continue",
            max_tool_iterations=10,
            call_timeout_s=120,
            ttl_hours=48,
            compaction="discard",
            context=ContextSpec(policy=POLICIES["everturn"].with_numbers(file.policy_numbers)),
        ),
    )
    assert file.policy_numbers["max_history_tokens"] == 40_000
    assert file.labels == {"domain": "general", "tier": "1"}
    assert file.text == FULL


def test_what_has_no_effect_is_listed(tmp_path: Path) -> None:
    """A person must be able to see what has no effect."""
    full = load_agent(write_full(tmp_path / "full"), environ={})
    added = load_agent(write_folder(tmp_path / "added", ADDED), environ={})

    assert [name for name in full.inactive if "context" not in name] == [
        (
            "spec.tools: web_search (needs search: a provider to ask, or a key of one in the"
            " environment)"
        ),
    ]
    assert added.inactive == ()


@table("policy", sorted(POLICIES))
def test_every_number_of_the_chosen_policy_can_be_set(tmp_path: Path, policy: str) -> None:
    """A number that only the code knows is one that nobody can change."""
    names = set(POLICIES[policy].number_names()) - {"recall"}  # a choice of its own
    lines = "".join(f"      {name}: {_some_value(policy, name)}\n" for name in names)
    yaml_text = f"  session:\n    context:\n      policy: {policy}\n{lines}"

    path = write_agent(tmp_path, "a", yaml_text)
    if POLICIES[policy].compacts:  # it goes with few providers
        agent = path / "agent.yaml"
        agent.write_text(agent.read_text().replace("provider: builtin", "provider: anthropic"))

    file = load_agent(path, environ={})

    assert sorted(file.policy_numbers) == sorted(names)
    assert file.inactive == ()
    POLICIES[policy].with_numbers(file.policy_numbers)


def _some_value(policy: str, name: str) -> object:
    value = getattr(POLICIES[policy].numbers, name)
    if value is None:
        return 100_000 if name == "model_context_limit" else 1
    return [*value] if isinstance(value, tuple) else value


def test_numbers_that_have_no_effect_or_contradict_each_other_are_a_fault(tmp_path: Path) -> None:
    """Whoever set them would not know."""
    # Summaries that begin below what they keep would be made after every turn.
    yaml_text = """\
  session:
    context:
      summarize_trigger: 0.05
      window_cut_to: 0.9
"""
    with pytest.raises(ConfigError) as error:
        load_agent(write_agent(tmp_path, "a", yaml_text), environ={})

    assert "summarize_keep (0.1) has to be below summarize_trigger (0.05)" in str(error.value)
    assert "window_cut_to (0.9) has to be below window_trigger (0.875)" in str(error.value)

    # It would have no effect, and whoever set it would not know.
    yaml_text = """\
  session:
    context:
      policy: baseagent
      prune_protect: 1000
      tool_result_keep_first: 1
"""
    (fault,) = faults_of(write_agent(tmp_path, "a", yaml_text))

    assert fault.startswith(
        "agent.yaml:13: spec.session.context.tool_result_keep_first:"
        " is no number of policy baseagent, which has: model_context_limit, "
    )


def test_an_agent_of_duragent_s_loads_under_a_policy_that_has_other_numbers(
    tmp_path: Path,
) -> None:
    """Its folder must load as it is, and must not look as if all of it had an effect."""
    file = load_agent(write_full(tmp_path / "full"), environ={})
    known = POLICIES["everturn"].number_names()
    told = [name.partition(" (is no number of")[0] for name in file.inactive if "context" in name]

    assert file.policy_numbers.keys() <= set(known)
    assert sorted(told) == sorted(
        f"spec.session.context.{name}"
        for name in (
            "max_history_tokens",
            "max_tool_result_tokens",
            "tool_result_truncation",
            "tool_result_keep_first",
            "tool_result_keep_last",
        )
        if name not in known
    )


@table(
    ("model", "context", "writer"),
    [
        ("{provider: ollama, name: qwen3}", "{}", "ollama qwen3 0.7"),
        ("{provider: ollama, name: qwen3}", "{summarizer: none}", None),
        ("{provider: builtin, name: builtin}", "{}", None),
        ("{provider: scripted, name: a.yaml}", "{summarizer: }", None),
        (
            "{provider: builtin, name: builtin}",
            "{summarizer: {provider: scripted, name: s.yaml}}",
            "scripted s.yaml 0.3",
        ),
        (
            "{provider: ollama, name: qwen3}",
            "{summarizer: {provider: openai, name: gpt-5-mini, temperature: 0.1}}",
            "openai gpt-5-mini 0.1",
        ),
    ],
)
def test_the_agent_s_own_model_writes_summaries_unless_another_is_named(
    tmp_path: Path, model: str, context: str, writer: str | None
) -> None:
    """Summaries must need no setting, and must not come from what is no model."""
    text = (
        "apiVersion: duragent/v1alpha1\nkind: Agent\nmetadata: {name: a}\n"
        f"spec: {{model: {model}, session: {{context: {context}}}}}\n"
    )
    file = load_agent(write_folder(tmp_path / "a", text), environ={})
    found = file.summarizer

    assert (f"{found.provider} {found.name} {found.temperature}" if found else None) == writer
    assert file.inactive == ()


@table(
    ("value", "fault"),
    [
        ("off", "summarizer: must be none, or a section with provider and name"),
        ("{provider: openai}", "summarizer.name: is required"),
        (
            "{provider: openai, name: a, model: b}",
            (
                "summarizer.model: is not a known field; there are: provider, name, base_url,"
                " temperature, max_input_tokens, max_output_tokens, max_tokens, context_window,"
                " reasoning_effort"
            ),
        ),
        ("[a]", "summarizer: must be a section of fields, not a list"),
    ],
)
def test_a_summarizer_that_cannot_be_read_is_a_fault_of_its_field(
    tmp_path: Path, value: str, fault: str
) -> None:
    """`off` is what people write, and must not become the agent's own model."""
    folder = write_agent(tmp_path, "a", f"  session: {{context: {{summarizer: {value}}}}}\n")

    assert faults_of(folder) == [f"agent.yaml:9: spec.session.context.{fault}"]


def test_a_policy_that_cannot_be_read_is_a_fault_of_the_agent(tmp_path: Path) -> None:
    """A tool policy that nobody enforces must not look enforced."""
    folder = write_agent(tmp_path, "a", policy__yaml="mode: ask\n")

    assert load_agent(folder, environ={}).tool_config.policy.mode == "ask"

    (folder / "policy.local.yaml").write_text("mode: [\n", encoding="utf-8")

    assert faults_of(folder)[0].startswith("policy.local.yaml:2: is not valid YAML")


def test_tools_and_skills_that_cannot_be_used_are_told_and_left_out(tmp_path: Path) -> None:
    """One bad folder among many must not take the agent away, nor go unnoticed."""
    files = {"skills_in_x_in_SKILL__md": "", "tools_in_y_in_run__sh": "#!/bin/sh\n"}
    agent = load_agent(write_agent(tmp_path, "a", **files), environ={})

    assert (agent.tool_config.skills, agent.tool_config.found) == ((), ())
    told = [fault.file.relative_to(agent.folder).parts[:2] for fault in agent.warnings]
    assert told == [("skills", "x"), ("skills", "x"), ("tools", "y")]


def test_what_is_left_out_has_the_documented_defaults_or_those_of_the_gateway(
    tmp_path: Path,
) -> None:
    """What is left out must mean what the reference says."""
    file = load_agent(write_agent(tmp_path, "small"), environ={})

    assert file.spec == AgentSpec(
        name="small",
        model=ModelSpec(provider="builtin", name="builtin", temperature=0.7),
        session=SessionSpec(context=ContextSpec(policy=POLICIES["everturn"])),
    )
    assert file.spec.session.call_timeout_s == 300
    assert file.spec.session.ttl_hours == 168
    assert file.spec.session.compaction == "archive"

    # `sessions:` in everturn.yaml is for all agents, an agent's own word comes first.
    ours = SessionsConfig(ttl_hours=3, compaction="disabled")
    silent = load_agent(write_agent(tmp_path, "a"), environ={}, sessions=ours)
    own = load_agent(
        write_agent(tmp_path, "b", "  session: {ttl_hours: 0, compaction: discard}\n"),
        environ={},
        sessions=ours,
    )

    assert (silent.spec.session.ttl_hours, silent.spec.session.compaction) == (3, "disabled")
    assert (own.spec.session.ttl_hours, own.spec.session.compaction) == (0, "discard")


def test_all_faults_of_a_folder_are_reported_together(tmp_path: Path) -> None:
    """Settings, prompts and policy: one run shows everything."""
    text = """\
apiVersion: duragent/v2
kind: Agnet
metadata:
  name: "not a name"
spec:
  model:
    provider: openai
    temperature: 3
    base_url: models.example.com
    max_output_token: 10
  soul: ./MISSING.md
  sesion: {}
  session:
    on_disconnect: stop
    max_tool_iterations: 0
    context: {max_tool_result_tokens: 0, policy: duragnt}
  access:
    groups:
      sender_overrides: {x: ignore}
  tools:
    - {type: builtin, name: bsh}
    - {type: mcp, name: both, command: a, url: "http://b"}
  memory: {backend: redis}
"""
    folder = write_folder(tmp_path / "bad", text, policy__yaml="a: 1\na: 2\n")

    assert faults_of(folder) == [
        "agent.yaml:1: apiVersion: must be duragent/v1alpha1, not 'duragent/v2'",
        "agent.yaml:2: kind: must be Agent, not 'Agnet'",
        (
            "agent.yaml:4: metadata.name: must be letters, digits and hyphens between them,"
            " at most 64"
        ),
        "agent.yaml:6: spec.model.name: is required",
        "agent.yaml:8: spec.model.temperature: must be at most 2, not '3'",
        (
            "agent.yaml:9: spec.model.base_url: must be an address that starts with"
            " http:// or https://"
        ),
        (
            "agent.yaml:10: spec.model.max_output_token: is not a known field;"
            " did you mean max_output_tokens?"
        ),
        "agent.yaml:11: spec.soul: there is no file MISSING.md in the agent's folder",
        "agent.yaml:12: spec.sesion: is not a known field; did you mean session?",
        "agent.yaml:14: spec.session.on_disconnect: must be pause or continue, not 'stop'",
        "agent.yaml:15: spec.session.max_tool_iterations: must be at least 1, not '0'",
        (
            "agent.yaml:16: spec.session.context.policy: must be baseagent, duragent, everturn,"
            " jutul, native or picoclaw, not 'duragnt'"
        ),
        (
            "agent.yaml:19: spec.access.groups.sender_overrides.x: must be allow, passive,"
            " silent or block, not 'ignore'"
        ),
        "agent.yaml:22: spec.tools[1]: needs either a command or a url",
        "agent.yaml:23: spec.memory.backend: must be filesystem, not 'redis'",
        "policy.yaml:2: a: is given twice, first in line 1",
    ]


def test_both_names_of_the_reply_limit_at_once_are_refused(tmp_path: Path) -> None:
    """One of the two would be ignored."""
    text = FULL.replace("max_tokens: 2048", "max_tokens: 2048\n    max_output_tokens: 1")

    assert faults_of(write_folder(tmp_path / "x", text, **PROMPTS)) == [
        (
            "agent.yaml:9: spec.model: max_tokens is another name of max_output_tokens;"
            " keep one of the two"
        )
    ]


@table(
    ("value", "prompt"),
    [
        ("./PROMPT.md", "from the file"),
        ("PROMPT.md", "from the file"),
        ("deep/prompt", "from below"),
        ("Be brief.", "Be brief."),
        ("|\n    Read ./PROMPT.md", "Read ./PROMPT.md\n"),
        ("|\n    PROMPT.md", "PROMPT.md\n"),
        ('"Two\\nlines.md"', "Two\nlines.md"),
        ("Hello, I am {{agent.name}}", "Hello, I am a"),
        (f'"{"x" * 300}"', "x" * 300),
    ],
)
def test_a_prompt_is_a_path_or_a_text(tmp_path: Path, value: str, prompt: str) -> None:
    """Both are written in the same field, and each must be taken for what it is."""
    files = {"PROMPT__md": "from the file", "deep_in_prompt": "from below"}
    folder = write_agent(tmp_path, "a", f"  system_prompt: {value}\n", **files)

    assert load_agent(folder, environ={}).spec.prompt.system_prompt == prompt


def test_prompt_files_with_the_usual_names_need_not_be_named(tmp_path: Path) -> None:
    """A SOUL.md that is there and not read would be a riddle."""
    file = load_agent(write_agent(tmp_path, "a", **PROMPTS), environ={})

    assert file.spec.prompt.soul == "I am a.\n"
    assert file.spec.prompt.system_prompt
    assert file.spec.prompt.instructions


def test_directives_are_read_in_the_order_of_their_names_those_for_all_agents_first(
    tmp_path: Path,
) -> None:
    """Their order is part of the prompt's bytes."""
    files = {
        "directives_in_b__md": "second",
        "directives_in_a__md": "first for {{agent.name}}\n",
        "directives_in_c__md": " \n",
        "directives_in_d__txt": "not one",
    }

    file = load_agent(write_agent(tmp_path, "x", **files), environ={})

    assert file.spec.prompt.directives == ("first for x", "second")

    # What holds for all is said first, and the agent's own may add to it.
    shared = tmp_path / ".everturn" / "directives"
    shared.mkdir(parents=True)
    (shared / "z.md").write_text("for all, also {{agent.name}}")
    (shared / "out.md").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("not for agents")
    folder = write_agent(tmp_path / "agents", "a", directives_in_a__md="own")
    with pytest.raises(ConfigError, match=r"out.md: leads out of its folder"):
        load_agent(folder, environ={}, state=tmp_path / ".everturn")
    (shared / "out.md").unlink()

    spec = load_agent(folder, environ={}, state=tmp_path / ".everturn").spec

    assert spec.prompt.directives == ("for all, also a", "own")

    # Each of them is sent with every request.
    files = {f"directives_in_d{n:03}__md": "x" for n in range(101)}
    folder = write_agent(tmp_path, "a", **files)

    with pytest.raises(ConfigError, match="holds 101 directives, and 100 are the most"):
        load_agent(folder, environ={})


@table("value", ["../secret.md", "./sub/../../secret.md", "{outside}/secret.md", "link.md"])
def test_a_prompt_outside_the_folder_is_refused(tmp_path: Path, value: str) -> None:
    """An agent from somebody else must not read this machine's files into a prompt."""
    (tmp_path / "secret.md").write_text("secret", encoding="utf-8")
    folder = write_agent(tmp_path, "a", f"  soul: {value.format(outside=tmp_path)}\n")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")

    (fault,) = faults_of(folder)

    assert fault.startswith("agent.yaml:9: spec.soul: ")
    assert fault.endswith("leads out of the agent's folder")


def test_links_out_of_the_folder_are_refused_where_nothing_names_them(tmp_path: Path) -> None:
    """Files that are read by their name alone are no way out either."""
    (tmp_path / "secret.md").write_text("secret", encoding="utf-8")
    folder = write_agent(tmp_path, "a", directives_in_a__md="fine")
    (folder / "SOUL.md").symlink_to(tmp_path / "secret.md")
    (folder / "directives/b.md").symlink_to(tmp_path / "secret.md")

    assert [fault.partition(": ")[2] for fault in faults_of(folder)] == [
        "spec.soul: SOUL.md leads out of the agent's folder",
        "leads out of the agent's folder",
    ]


def test_a_prompt_that_is_no_text_is_a_fault_of_its_file(tmp_path: Path) -> None:
    """The line to repair is in the Markdown, not in agent.yaml."""
    folder = write_agent(tmp_path, "a")
    (folder / "SOUL.md").write_bytes(b"ok\n\xff\n")
    os.mkfifo(folder / "INSTRUCTIONS.md")

    assert faults_of(folder) == [
        "SOUL.md:2: is not valid UTF-8 (byte 0xff)",
        "INSTRUCTIONS.md: is not a file",
    ]


def test_variables_expand_in_agent_yaml_and_not_in_prompts(tmp_path: Path) -> None:
    """A prompt about shell scripts must reach the model as it was written."""
    text = FULL.replace("anthropic/claude-sonnet-4", "${MODEL:-gpt-4o}").replace("0.3", "${T}")
    folder = write_full(tmp_path / "x", text)
    (folder / "SOUL.md").write_text("echo ${HOME}", encoding="utf-8")

    file = load_agent(folder, environ={"T": "1.5"})

    assert (file.spec.model.name, file.spec.model.temperature) == ("gpt-4o", 1.5)
    assert file.spec.prompt.soul == "echo ${HOME}"
    assert file.document["spec"]["model"]["name"] == "${MODEL:-gpt-4o}"


def test_a_budget_that_leaves_no_room_is_refused_with_its_arithmetic(tmp_path: Path) -> None:
    """Such an agent would fail on its first message, far from the cause.

    Where that is only estimated, as a turn would, it is loaded and says so.
    """
    folder = write_agent(
        tmp_path,
        "a",
        "    context_window: 1000\n    max_output_tokens: 600\n",
        SOUL__md="x" * 4 * 800,
    )

    (fault,) = faults_of(folder)

    assert fault.startswith("agent.yaml:6: spec.model: nothing is left for messages: window 1,000")
    assert "- system 368 - tools 0 - reply 600 - margin 50 = -18 tokens" in fault

    (folder / "SOUL.md").write_text("x" * 4 * 400, encoding="utf-8")
    (unsure,) = load_agent(folder, environ={}).warnings

    assert "agent.yaml:6: spec.model: by estimate nothing is left" in str(unsure)
    assert "- system 612 - tools 0 - reply 600 - margin 50 = -262 tokens" in str(unsure)

    # What the model's provider has counted since is believed, by `validate` as by turns.
    cheap = ModelStatistics(scale=1.0, prices=usual_prices(0.3), reports=9)
    assert load_agent(folder, environ={}).warnings_by(cheap) == ()
    dear = ModelStatistics(scale=1.0, prices=usual_prices(3.0), reports=9)
    (known,) = load_agent(folder, environ={}).warnings_by(dear)
    assert "agent.yaml:6: spec.model: by estimate nothing is left" in str(known)
    assert str(known) != str(unsure)

    # Some tokenizers have one token for each of these words.
    (folder / "SOUL.md").write_text("RULE THAT HOLDS " * 120, encoding="utf-8")

    assert "by estimate nothing is left" in str(load_agent(folder, environ={}).warnings)

    (folder / "SOUL.md").write_text("x" * 4 * 200, encoding="utf-8")

    assert not load_agent(folder, environ={}).warnings


def test_a_folder_without_agent_yaml_says_so(tmp_path: Path) -> None:
    """The first mistake with `agent validate`."""
    assert faults_of(tmp_path) == ["agent.yaml: there is no such file"]


def test_the_committed_schema_is_current() -> None:
    """Editors check agents by this file.

    Regenerate it with: python -m everturn_gateway.specs agents/agent.schema.json
    """
    assert FILE.read_text(encoding="utf-8") == schema_text()
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@table("text", [FULL, ADDED], ids=["duragent", "added"])
def test_the_schema_accepts_what_the_loader_accepts(text: str) -> None:
    """An editor that marks a good agent as bad is worse than none."""
    data = yaml.safe_load(text.replace("version: 1.0", "version: '1.0'"))
    strings = json.loads(json.dumps(data))  # names of fields as texts

    problems = [
        error.message
        for error in VALIDATOR.iter_errors(strings)
        if not any("allowlist" in str(part) or part == "tier" for part in error.path)
    ]

    assert problems == []


@table(
    ("path", "value"),
    [
        (("spec", "sesion"), {}),
        (("spec", "model", "temperature"), 3),
        (("spec", "model", "temperature"), "warm"),
        (("kind",), "Agnet"),
        (("metadata", "name"), "not a name"),
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(path: tuple[str, ...], value: object) -> None:
    """Typos are what it is for."""
    data: dict[str, Any] = yaml.safe_load(ADDED)
    here = data
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value

    assert not VALIDATOR.is_valid(data)


def test_the_agents_that_are_shipped_load_and_match_the_schema() -> None:
    """They are what people copy from."""
    for folder in sorted(p.parent for p in AGENTS.glob("*/agent.yaml")):
        file = load_agent(folder, environ={})

        VALIDATOR.validate(file.document)
        assert file.spec.name == folder.name
        assert file.text.startswith("# yaml-language-server: $schema=../agent.schema.json\n")

    # `make run` chooses the model without editing the agent.
    environ = {"EVERTURN_PROVIDER": "local", "EVERTURN_MODEL": "smollm2-135m"}
    model = load_agent(AGENTS / "assistant", environ=environ).spec.model
    assert (model.provider, model.name) == ("local", "smollm2-135m")


@table(
    ("yaml_text", "named"),
    [
        ("  workspace: .\n", "holds the agent's own rules"),
        ("  workspace: ..\n", "holds the agent's own rules"),
        ("  workspace: ../b\n", "is in another agent's folder"),
        ("  workspace: /\n", "holds the agent's own rules"),
        ("  workspace: ../../.everturn\n", "holds the gateway's own workspace"),
        ("  workspace: ../../.everturn/sessions\n", "holds the gateway's own workspace"),
        ("  workspace: ./skills\n", "holds or lies in"),
        ("  workspace: ./tools/x\n", "holds or lies in"),
        ("  workspace: ./directives\n", "holds or lies in"),
        ("  workspace: ./work\n  skills_dir: ./work/skills\n", "holds or lies in"),
        ("  workspace: ./work\n  soul: ./work/SOUL.md\n", "holds or lies in"),
        ("  skills_dir: ../../.everturn/files/a/skills\n", "holds or lies in"),
        # A folder in its own, or anywhere beyond the gateway's, that holds nothing else.
        ("  workspace: ./files\n", ""),
        ("  workspace: ../../elsewhere\n", ""),
        ("  workspace: ../../.everturn/files/shared\n", ""),
    ],
)
def test_an_agent_cannot_write_what_it_is_ruled_by(
    tmp_path: Path, yaml_text: str, named: str
) -> None:
    """Who may write a skill, a policy or a prompt may allow itself anything."""
    folder = write_agent(tmp_path / "agents", "a", yaml_text, work_in_SOUL__md="x")
    write_agent(tmp_path / "agents", "b")

    if named:
        with pytest.raises(ConfigError, match=named):
            load_agent(folder, environ={}, state=tmp_path / ".everturn")
    else:
        file = load_agent(folder, environ={}, state=tmp_path / ".everturn")

        assert file.files == folder / yaml_text.partition(": ")[2].strip()


def test_a_chosen_model_makes_summaries_as_its_own_provider_does() -> None:
    """Else one that cannot is sent the whole conversation for a summary that never comes."""
    own = ModelSpec(provider="anthropic", name="claude-sonnet-4-5", compacts=True)
    other = model_spec(ChosenModel(provider="openai", name="gpt-5-mini"), own, ())

    assert not other.compacts
    assert model_spec(ChosenModel(provider="anthropic", name="claude"), other, ()).compacts
    at = ModelSpec(provider="openai", name="gpt-5", base_url="https://api.openai.com/v1/responses")
    assert model_spec(ChosenModel(provider="openai", name="gpt-5-mini"), own, (at,)).compacts


def test_a_policy_that_needs_its_provider_says_with_which_models_it_goes(tmp_path: Path) -> None:
    """OpenAI compacts by one of its APIs alone: whoever names the other is told where."""
    yaml_text = "  session:\n    context:\n      policy: native\n"
    path = write_agent(tmp_path, "a", yaml_text)
    agent, where = path / "agent.yaml", "https://api.openai.com/v1/responses"
    chat = agent.read_text().replace("provider: builtin", "provider: openai")
    agent.write_text(chat)

    with pytest.raises(ConfigError, match=f"which openai does not: anthropic, or openai .*{where}"):
        load_agent(path, environ={})
    agent.write_text(chat.replace("provider: openai", f"provider: openai\n    base_url: {where}"))
    assert load_agent(path, environ={}).spec.model.compacts
