"""What people and models write, made bad: values, or faults with their places.

Of whole folders, as the gateway reads them; `test_documents` tries the reader itself. See
`test_fuzz_journal` for how to run it for longer.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from support.context_policies import POLICIES
from support.examples import examples
from support.mutations import as_json, mutated, torn
from support.policies import conversation, step
from support.transcripts import IMAGE, called, result, said, user

from everturn_actors.context.policy import Limits, apply_policy
from everturn_actors.errors import CoreError, ToolFailedError
from everturn_actors.model import ToolCall
from everturn_gateway.commands.context.transcript import (
    TranscriptError,
    read_json,
    read_transcript,
    write_messages,
)
from everturn_gateway.config.settings import load_config
from everturn_gateway.errors import ConfigError
from everturn_gateway.scheduler.definitions.making import Source, job_of
from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.jobs import JobState
from everturn_gateway.scheduler.rules.rules import plan
from everturn_gateway.specs.loading import load_agent
from everturn_gateway.tools.arguments import Arguments, read_arguments
from everturn_gateway.tools.policy import AfterTool, DependsOn, SkipDuplicate, load_policy
from everturn_gateway.tools.policy.hooks import notes, refusal
from everturn_gateway.tools.policy.policy_files.writing import PolicyWriteError, add_allowed
from everturn_gateway.tools.recall.queries import read_arguments as read_question
from everturn_gateway.tools.skills.front_matter import FrontMatterError, read_front_matter
from everturn_gateway.yaml_files import check, read_document

AGENTS: Final = Path(__file__).parents[2] / "agents"
NOW: Final = datetime(2026, 11, 22, tzinfo=UTC)
TOKENS: Final = (
    *(b": ", b"- ", b"\n", b"&a ", b"*a", b"<<: *a", b"!!bool ", b"!!python/name:os", b"|\n", b">"),
    *(
        b"? ",
        b"\t",
        b"#",
        b"[",
        b"{",
        b"---\n",
        b"...",
        b"${X}",
        b"${",
        b"${X:-y}",
        b"'",
        b'"',
        b"%",
    ),
    *(b"[" * 200, b"- " * 200, b"{a: " * 200, b"\xc2\x85", b"\xef\xbb\xbf", b"~", b"2026-13-45"),
)
MORE: Final = b"""\
  schedules:
    - {id: day, cron: "0 8 * * mon-fri", timezone: UTC, task: x, to: {channel: terminal, chat: c}}
  heartbeat: {every: 30m, prompt: Look., quiet_hours: {from: "22:00", to: "07:00"}}
  access:
    dm: {policy: allowlist, allowlist: [12345, "admin_*"]}
    groups:
      sender_overrides: {67890: passive, "spam*": block}
      context_buffer: {mode: passive, max_messages: 50, max_age_hours: 12}
      queue: {mode: sequential, max_pending: 5, debounce: {enabled: true, window_ms: 900}}
"""
AGENT: Final = (AGENTS / "workbench" / "agent.yaml").read_bytes() + MORE
POLICY: Final = (AGENTS / "workbench" / "policy.yaml").read_bytes()
SKILL: Final = (AGENTS / "workbench" / "skills" / "daily-note" / "SKILL.md").read_text("utf-8")
GATEWAY: Final = b"""\
workspace: data
server: {host: 127.0.0.1, port: 8080, api_token: "${TOKEN:-secret}", max_connections: 20}
sessions: {ttl_hours: 24, results_max_megabytes: 5}
schedules: {timezone: Europe/Berlin, allow_private: [127.0.0.1]}
logging: {format: json}
telemetry: {otlp_endpoint: "http://127.0.0.1:4318"}
prices: {openai/gpt: {input: 2.5, cached: 1, output: 10}}
providers: {openai: {max_concurrent: 3}}
channels:
  telegram:
    bot_token: "1:x"
    backlog: {max_messages: 5, max_age_hours: 2}
  external: [{name: irc, command: /bin/true, args: [-x], env: {A: b}}]
routes:
  - {match: {channel: telegram, chat_type: group, chat_id: "-5"}, agent: assistant}
"""
JOB: Final = b"""\
agent: digest
label: Morning
cron: "30 8 * * mon-fri"
timezone: Europe/Berlin
start: 2026-11-28T00:00
message: Stand-up!
to: {channel: telegram, chat: -100, topic: "9"}
misfire: run_all
grace_seconds: 60
jitter_seconds: 5
retries: {max: 2, backoff_seconds: 60}
max_runs: 3
"""
Kind = Literal["agent", "gateway", "policy", "job"]
FILES: Final[dict[Kind, bytes]] = {"agent": AGENT, "gateway": GATEWAY, "policy": POLICY, "job": JOB}


@st.composite
def documents(draw: st.DrawFn) -> tuple[Kind, bytes]:
    """Return a file: other bytes, or other values, than a good one has."""
    kind = draw(st.sampled_from(list(FILES)))
    good = FILES[kind]
    if draw(st.booleans()):
        return kind, draw(torn(good, tokens=TOKENS))
    values = json.loads(json.dumps(yaml.safe_load(good), default=str))
    return kind, as_json(draw(mutated(values)))


@contextmanager
def folder_with(kind: Kind, content: bytes) -> Generator[Path]:
    """Return a file of some kind where it belongs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if kind in {"agent", "policy"}:
            shutil.copytree(AGENTS / "workbench", folder, dirs_exist_ok=True)
        file = folder / f"{'everturn' if kind == 'gateway' else kind}.yaml"
        file.write_bytes(content)
        yield file


def read(kind: Kind, file: Path) -> None:
    """Read a file as the gateway does at its start; what is read must be usable.

    Raises:
        ConfigError: With every fault.
    """
    environ = {"X": "x", "TOKEN": "t"}
    match kind:
        case "agent":
            load_agent(file.parent, environ=environ, timezone="UTC")
        case "gateway":
            load_config(file, environ=environ)
        case "policy":
            load_policy(None, file.parent, environ)
        case "job":
            document = read_document(file, None)
            section, faults = check(document, JobSettings)
            if section is None:
                raise ConfigError(faults=faults)
            job = job_of(section, job_id="job", timezone="UTC", source=Source(document=document))
            plan(job, JobState(anchor=NOW, cursor=NOW), now=NOW)


@examples(45)
@given(documents())
def test_any_file_is_read_or_its_faults_are_named(made: tuple[Kind, bytes]) -> None:
    """It is edited by hand, often while the gateway runs."""
    kind, content = made
    lines = content.count(b"\n") + content.count(b"\r") + content.count(b"\xc2\x85") + 1
    lines += content.count(b"\xe2\x80\xa8") + content.count(b"\xe2\x80\xa9")
    with folder_with(kind, content) as file:
        faults = None
        try:
            read(kind, file)
        except ConfigError as error:
            faults = error.faults

        if faults is not None:
            assert faults
            assert all(fault.message for fault in faults)
            assert all(0 <= fault.line <= lines for fault in faults if fault.file == file)


@examples(24)
@given(
    torn(POLICY, tokens=TOKENS), st.sampled_from(["bash:ls -l", "x: y", "a\0b", "\u2028", "${A}"])
)
@example(b"a\tb: x\n", "bash:ls")
def test_what_is_allowed_for_good_is_added_or_the_file_stays(content: bytes, pattern: str) -> None:
    """The file is also its owner's: an answer in a chat must not cost what stands in it."""
    with folder_with("policy", content) as file:
        added = False
        with suppress(PolicyWriteError):
            add_allowed(file, pattern)
            added = True

        if not added:
            assert file.read_bytes() == content
        else:
            assert pattern in read_document(file, {}).data["allow"]


@examples(24)
@given(torn(SKILL.encode(), tokens=TOKENS))
def test_any_skill_is_read_or_refused_by_line(content: bytes) -> None:
    """Skills are copied from anywhere."""
    text = content.decode("utf-8", "replace")
    line = 1
    try:
        read_front_matter(text)
    except FrontMatterError as error:
        line = error.line

    assert (
        1
        <= line
        <= text.count("\n")
        + text.count("\r")
        + text.count("\x85")
        + text.count("\u2028")
        + text.count("\u2029")
        + 2
    )


TRANSCRIPT: Final = [
    {"role": "system", "content": "Be kind."},
    user("Hello"),
    {"role": "user", "content": [{"type": "text", "text": "Look"}, IMAGE]},
    called("a", "b", arguments='{"x": 1}'),
    result("a", "one" * 50),
    result("b", "two"),
    said("Done."),
    user("And now?"),
]


@examples(36)
@given(
    st.just(TRANSCRIPT).flatmap(mutated).map(as_json)
    | torn(as_json(TRANSCRIPT), tokens=(b"{", b"[", b",", b'"role":', b"null", b"NaN")),
    st.sampled_from(sorted(POLICIES)),
)
def test_any_transcript_is_shortened_or_refused(content: bytes, name: str) -> None:
    """People paste what another program wrote; the message that is wrong has to be named."""
    with suppress(TranscriptError):
        transcript = read_transcript(read_json(content, "t.json"))
        limits = Limits(window_tokens=2_000, output_tokens=200)
        with suppress(CoreError):  # what cannot be made to fit, or no user asked
            applied = apply_policy(
                POLICIES[name].with_numbers({}),
                transcript.view(None),
                limits,
                system=transcript.system,
                tools=(),
            )
            json.dumps(write_messages(transcript, applied, transcript.system))


class Looks(Arguments):
    """Arguments of many kinds."""

    path: str
    "A text."
    lines: tuple[int, ...] = ()
    "Numbers."
    where: dict[str, str] | None = None
    "Texts by name."
    times: float = 1
    "A number."


GIVEN: Final = {"path": "a/b", "lines": [1, 2], "where": {"a": "b"}, "times": 2.5, "action": "x"}
HOOKS: Final = tuple(
    AfterTool(match="*", message="m", unless={"path": value, "times": value, "lines": [value]})
    for value in ("a/b", "2026-13-45", "0x_", "!!bool maybe", "!!timestamp x", "[" * 100, "2.5")
)
GUARDS: Final = (
    DependsOn(match="look", prior="touch", match_arg="path"),
    SkipDuplicate(match="look", match_args=("path", "lines")),
)


@examples(36)
@given(
    st.just(GIVEN).flatmap(mutated).map(as_json)
    | torn(as_json(GIVEN), tokens=(b"{", b"NaN", b"\\ud800", b"1e999", b"[" * 5_000))
)
def test_any_arguments_are_values_or_a_failure_that_the_model_reads(content: bytes) -> None:
    """A model writes what it likes, and every call is judged by what it wrote."""
    call = ToolCall(call_id="a", name="look", arguments=content.decode("utf-8", "replace"))
    for reads in (lambda: read_arguments(call, Looks), lambda: read_question(call.arguments)):
        with suppress(ToolFailedError):
            reads()
    earlier = conversation(step(call))

    assert isinstance(refusal(GUARDS, call, earlier), str)
    assert set(notes(HOOKS, call)) <= {"m"}
