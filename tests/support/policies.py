"""Calls, tools and conversations for tests of the tool policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import cast

from everturn_actors.model import (
    Conversation,
    ConversationKey,
    OpenStep,
    OpenTurn,
    Reply,
    Step,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Turn,
    UserMessage,
)
from everturn_actors.ports import SessionStore, ToolCapabilities, ToolContext, ToolOutput
from everturn_gateway.tools.policy import Policy, read_pattern
from everturn_gateway.tools.policy.command_state import LineState
from everturn_gateway.tools.policy.commands.analysis import analyse
from everturn_gateway.tools.policy.subjects import Subject

SESSION = "20261121T224956123-3f9a2c1b"
NOW = datetime(2026, 11, 21, 22, 49, 56, tzinfo=UTC)
HELLO = (UserMessage(text="hello"),)


class Program:
    """A tool that gives what it is told to, and runs a command where its call names one."""

    def __init__(
        self,
        name: str = "bash",
        *,
        capabilities: ToolCapabilities | None = None,
        answer: str | ToolOutput | Callable[[], str | ToolOutput] = "done",
    ) -> None:
        self.definition = ToolDefinition(name=name, description="", parameters={})
        self.capabilities = capabilities or ToolCapabilities(
            kind="bash" if name == "bash" else "builtin"
        )
        self.answer = answer

    def command_of(self, call: ToolCall) -> str | None:
        """Return the call's argument `command`."""
        command = json.loads(call.arguments).get("command")
        return cast("str | None", command)

    async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
        """Return the answer."""
        return self.answer() if callable(self.answer) else self.answer


class RemoteProgram(Program):
    """A tool of an MCP server called `github`."""

    server = "github"

    @property
    def remote_name(self) -> str:
        """The name behind the server's."""
        return self.definition.name.removeprefix("github_")


def call(name: str = "bash", call_id: str = "call_1", **arguments: object) -> ToolCall:
    """Return a call of a tool."""
    return ToolCall(call_id=call_id, name=name, arguments=json.dumps(arguments))


def result(of: ToolCall, text: str = "ok", *, is_error: bool = False) -> ToolResult:
    """Return the result of a call."""
    return ToolResult(call_id=of.call_id, name=of.name, text=text, is_error=is_error)


def step(*calls: ToolCall, failed: Sequence[ToolCall] = (), untrusted: bool = False) -> Step:
    """Return a finished step."""
    return Step(
        reply=Reply(calls=calls),
        results=tuple(
            ToolResult(
                call_id=each.call_id,
                name=each.name,
                text="...",
                is_error=each in failed,
                untrusted=untrusted,
            )
            for each in calls
        ),
    )


def conversation(
    *steps: Step, before: Sequence[Step] = (), now: OpenStep | None = None
) -> Conversation:
    """Return a conversation with the finished `steps` in its running turn."""
    turns = (Turn(number=1, users=HELLO, steps=tuple(before)),) if before else ()
    current = OpenTurn(number=2, users=HELLO, started_at=NOW, steps=steps, step=now)
    return Conversation(turns=turns, current=current)


def context(
    of: Conversation | None = None, *, channel: str = "http", topic: str = ""
) -> ToolContext:
    """Return where a call runs."""
    return ToolContext(
        session_id=SESSION,
        key=ConversationKey(channel=channel, chat="c1", agent="assistant", topic=topic),
        store=cast("SessionStore", None),
        conversation=of or conversation(),
    )


def policy(
    *allow: str, deny: Sequence[str] = (), mode: str = "ask", after_untrusted: str = "ask"
) -> Policy:
    """Return a policy of these patterns."""
    return Policy(
        mode=mode,  # type: ignore[arg-type]  # a test's word
        after_untrusted=after_untrusted,  # type: ignore[arg-type]  # as above
        allow=tuple(map(read_pattern, allow)),
        deny=tuple(map(read_pattern, deny)),
    )


def command(text: str, *, is_sealed: bool = False) -> Subject:
    """Return a call of `bash` as a policy sees it, in the sandbox without network or anywhere."""
    line = analyse(text)
    faults = tuple(use.fault for use in line.uses)
    state = LineState(faults=faults, configured_by=(), is_sealed=is_sealed)
    return Subject(kind="bash", names=("bash",), line=line, state=state)


def allows(text: str, *allow: str, deny: Sequence[str] = (), is_sealed: bool = False) -> bool:
    """Return whether a command line is allowed by patterns, in a workspace with nothing in it."""
    subject, rules = command(text, is_sealed=is_sealed), policy(*allow, deny=deny)
    return rules.denied_by(subject) is None and rules.allows(subject)


def denies(text: str, *deny: str) -> bool:
    """Return whether patterns deny a command line."""
    return policy(deny=deny).denied_by(command(text)) is not None
