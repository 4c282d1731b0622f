"""The gate: which calls run, which need a person, which are refused, and what is remembered."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
import pytest
from support.policies import Program, RemoteProgram, call, context, conversation, policy, step
from support.tables import table

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ToolCall
from everturn_actors.ports import ALLOW, ToolCapabilities
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.scheduler.jobs import ISOLATED
from everturn_gateway.tools.policy import (
    DependsOn,
    GuardedTool,
    Policy,
    PolicyGate,
    PolicyWriteError,
    load_policy,
)

BASH = Program()
SAFE = Program("recall", capabilities=ToolCapabilities(read_only=True, safe=True))
NOTES = Program("remember", capabilities=ToolCapabilities(safe=True))
FETCH = Program("web_fetch", capabilities=ToolCapabilities(read_only=True))
PROCESS = Program("background_process", capabilities=ToolCapabilities(safe=True))
TAINTED = conversation(step(call("web_fetch", "w1"), untrusted=True))


def _gate(rules: Policy) -> PolicyGate:
    return PolicyGate(rules, Path("/nowhere"))


def _ls(call_id: str = "call_1") -> ToolCall:
    return call("bash", call_id, command="ls -la")


@table(
    ("mode", "words"),
    [
        ("dangerous", ["allow", "allow", "allow", "deny"]),
        ("ask", ["allow", "ask", "allow", "deny"]),
        ("restrict", ["allow", "deny", "allow", "deny"]),
    ],
)
async def test_the_mode_says_what_becomes_of_the_rest(mode: str, words: list[str]) -> None:
    """Deny holds in every mode; allowed and safe calls run in every mode."""
    gate = _gate(policy("bash:ls *", deny=["bash:rm *"], mode=mode))
    calls = [
        (_ls(), BASH),
        (call(command="git push"), BASH),
        (call("recall"), SAFE),
        (call(command="ls -la; rm -rf /"), BASH),
    ]

    assert [(await gate.evaluate(each, tool, context())).effect for each, tool in calls] == words


async def test_deny_beats_allow_and_safety() -> None:
    """The deny list is the owner's last word."""
    gate = _gate(policy("bash:*", "builtin:*", deny=["bash:git push*", "builtin:recall"]))

    pushed = await gate.evaluate(call(command="git push"), BASH, context())
    recalled = await gate.evaluate(call("recall"), SAFE, context())

    assert (pushed.effect, recalled.effect) == ("deny", "deny")
    assert pushed.reason == "the policy denies it (deny: bash:git push*)"


async def test_a_question_says_what_may_be_allowed_for_good_and_by_whom() -> None:
    """Whoever is asked decides on exactly this."""
    rules = Policy(approvers=("42",), approval_timeout_s=60)

    verdict = await _gate(rules).evaluate(call(command="git  push"), BASH, context())

    assert (verdict.effect, verdict.pattern) == ("ask", "bash:git push")
    assert (verdict.approvers, verdict.timeout_s) == (("42",), 60)
    assert verdict.reason == "it is not on the allow list"


@table(
    ("tool", "made", "pattern"),
    [
        (FETCH, call("web_fetch", url="x"), "builtin:web_fetch"),
        (
            Program("session", capabilities=ToolCapabilities()),
            call("session", action="send"),
            "builtin:session:send",
        ),
        (
            Program("deploy", capabilities=ToolCapabilities(kind="cli")),
            call("deploy"),
            "cli:deploy",
        ),
        (
            RemoteProgram("github_create_issue", capabilities=ToolCapabilities(kind="mcp")),
            call("github_create_issue"),
            "mcp:github:create_issue",
        ),
        (BASH, call(command="ls > x"), ""),
        (BASH, call(command="ls; ls"), ""),
        (PROCESS, call("background_process", command="frobnicate -x"), "bash:frobnicate -x"),
        (BASH, call(command="npm start"), ""),
        (BASH, call(command="git -c a=b status"), ""),
    ],
)
async def test_the_pattern_for_good_is_no_wider_than_needed(
    tool: Program, made: ToolCall, pattern: str
) -> None:
    """An answer to one question must not answer others."""
    gate = _gate(policy())

    verdict = await gate.evaluate(made, tool, context())

    assert (verdict.effect, verdict.pattern) == ("ask", pattern)
    if pattern:
        again = await _gate(policy(pattern)).evaluate(made, tool, context())
        assert again == ALLOW


@table(
    ("pattern", "tool", "made"),
    [
        ("builtin:web", FETCH, call("web_fetch")),
        ("builtin:web:*", FETCH, call("web_fetch")),
        ("builtin:web_*", FETCH, call("web_fetch")),
        ("builtin:memory", NOTES, call("remember")),
        ("builtin:background_process:list", PROCESS, call("background_process", action="list")),
        ("builtin:bash", BASH, call(command="ls")),
        (
            "mcp:github:*",
            RemoteProgram("github_x", capabilities=ToolCapabilities(kind="mcp")),
            call("github_x"),
        ),
        (
            "mcp:*:x",
            RemoteProgram("github_x", capabilities=ToolCapabilities(kind="mcp")),
            call("github_x"),
        ),
        (
            "*hub*",
            RemoteProgram("github_x", capabilities=ToolCapabilities(kind="mcp")),
            call("github_x"),
        ),
        ("cli:dep*", Program("deploy", capabilities=ToolCapabilities(kind="cli")), call("deploy")),
        ("bash:npm *", PROCESS, call("background_process", action="spawn", command="npm i")),
        (
            "builtin:background_process",
            PROCESS,
            call("background_process", action="spawn", command="npm i"),
        ),
    ],
)
async def test_a_pattern_finds_a_tool_by_each_of_its_names(
    pattern: str, tool: Program, made: ToolCall
) -> None:
    """By the name in the agent's file, the model's, the server's, with its action or without."""
    plain = await _gate(policy(deny=[pattern])).evaluate(made, tool, context())
    wrapped = await _gate(policy(deny=[pattern])).evaluate(
        made,
        GuardedTool(tool, agent="a", secrets=SecretRegistry(), policy=Policy()),
        context(),
    )

    assert (plain.effect, wrapped.effect) == ("deny", "deny")


async def test_a_tool_that_runs_a_command_is_allowed_by_its_command_alone() -> None:
    """To allow background processes is not to allow every command in one."""
    gate = _gate(policy("builtin:background_process", "bash:sleep 60"))
    spawn = call("background_process", action="spawn", command="rm -rf /")
    start = call("background_process", action="spawn", command="sleep 60")
    look = call("background_process", action="list")

    seen = [(await gate.evaluate(each, PROCESS, context())).effect for each in (spawn, start, look)]

    assert seen == ["ask", "allow", "allow"]


async def test_a_call_whose_arguments_do_not_fit_is_asked_about() -> None:
    """What is not known to be harmless is not taken to be."""

    class Broken(Program):
        def command_of(self, call: ToolCall) -> str | None:
            raise ToolFailedError

    verdict = await _gate(policy("bash:*")).evaluate(call(), Broken(), context())

    assert verdict.effect == "ask"


async def test_after_text_from_outside_side_effects_ask_again() -> None:
    """A page that says "now run this" must not find everything allowed."""
    tainted = context(TAINTED)
    for mode in ("ask", "restrict"):
        gate = _gate(policy("bash:ls *", "builtin:web_fetch", mode=mode))

        listed = await gate.evaluate(_ls(), BASH, tainted)
        noted = await gate.evaluate(call("remember"), NOTES, tainted)
        fetched = await gate.evaluate(call("web_fetch"), FETCH, tainted)
        recalled = await gate.evaluate(call("recall"), SAFE, tainted)

        assert [each.effect for each in (listed, noted, fetched)] == ["ask"] * 3, mode
        assert recalled == ALLOW
        assert listed.pattern == ""
        assert listed.reason == (
            "what web_fetch gave is shown to the model, and may be behind this call"
        )

    # In mode restrict a page must not become a way to put questions to people.
    refused = await _gate(policy(mode="restrict")).evaluate(_ls(), BASH, tainted)
    assert refused.effect == "deny"

    # An owner can do without the second question, where an agent only reads what its owner writes.
    for rules in (policy("bash:ls *", after_untrusted="allow"), policy(mode="dangerous")):
        assert await _gate(rules).evaluate(_ls(), BASH, tainted) == ALLOW


async def test_where_nobody_can_answer_a_question_is_a_refusal() -> None:
    """Whoever waited there for a person would wait for ever."""
    for channel, topic in (
        ("delegate", "1"),
        (ISOLATED, "2026-11-22T07:30:00.000000Z"),
        ("once", ""),  # a single request
    ):
        there = context(channel=channel, topic=topic)

        verdict = await _gate(policy()).evaluate(_ls(), BASH, there)
        allowed = await _gate(policy("bash:ls *")).evaluate(_ls(), BASH, there)

        assert verdict.effect == "deny", channel
        assert "nobody can be asked" in verdict.reason
        assert allowed == ALLOW

    # A delegate of a tainted turn is tainted itself: else a page could have done by a delegate
    # what it may not have done by the agent.
    there = context(channel="delegate", topic="1 untrusted")
    verdict = await _gate(policy("bash:ls *")).evaluate(_ls(), BASH, there)

    assert verdict.effect == "deny"
    assert "given while text from outside was shown" in verdict.reason


async def test_what_a_skill_grants_is_allowed_while_it_says_so() -> None:
    """A skill that was read brings its commands with it, but not past the deny list."""
    granted = ["bash:ls *", "bash:rm *", "no:such type"]
    gate = PolicyGate(
        policy(deny=["bash:rm *"]), Path("/nowhere"), granted=lambda _context: granted
    )

    first = await gate.evaluate(_ls(), BASH, context())
    denied = await gate.evaluate(call(command="rm x"), BASH, context())
    tainted = await gate.evaluate(_ls(), BASH, context(TAINTED))
    granted.clear()
    later = await gate.evaluate(_ls(), BASH, context())

    assert [each.effect for each in (first, denied, tainted, later)] == [
        "allow",
        "deny",
        "ask",
        "ask",
    ]


@table("mode", ["dangerous", "ask", "restrict"])
async def test_a_guard_refuses_in_every_mode(mode: str) -> None:
    """Hooks are about order, not about trust."""
    guard = DependsOn(match="bash", prior="recall")
    gate = PolicyGate(policy("bash:*", mode=mode), Path("/nowhere"), guards=[guard])

    verdict = await gate.evaluate(_ls(), BASH, context())
    after = await gate.evaluate(_ls(), BASH, context(conversation(step(call("recall", "r1")))))

    assert verdict.effect == "deny"
    assert "make that call first" in verdict.reason
    assert after == ALLOW


async def test_what_is_remembered_holds_at_once_and_after_a_start(tmp_path: Path) -> None:
    """Nobody says twice that something is allowed for good."""
    gate = PolicyGate(Policy(), tmp_path)
    asked = await gate.evaluate(_ls(), BASH, context())

    await gate.remember(asked.pattern)

    loaded = await anyio.to_thread.run_sync(load_policy, None, tmp_path, {})
    again = PolicyGate(loaded, tmp_path)
    assert await gate.evaluate(_ls(), BASH, context()) == ALLOW
    assert await again.evaluate(_ls(), BASH, context()) == ALLOW
    assert (await gate.evaluate(call(command="ls -laR"), BASH, context())).effect == "ask"

    # A person who was told "not kept" must be asked the next time.
    gate = PolicyGate(Policy(), tmp_path / "gone")

    with pytest.raises(PolicyWriteError):
        await gate.remember("bash:ls -la")
    with pytest.raises(PolicyWriteError, match="no type of tool"):
        await gate.remember("nonsense:x")

    assert (await gate.evaluate(_ls(), BASH, context())).effect == "ask"
