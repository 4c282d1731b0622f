"""An agent's tools behind its gate: each call is judged as it comes, and runs if it may."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace
from support.commands import BWRAP, make_site
from support.tool_environments import tool_context

from everturn_actors.model import ToolCall
from everturn_actors.ports import Tool, ToolContext, ToolOutput, Verdict
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.files.tools import file_tools
from everturn_gateway.tools.policy import (
    GuardedTool,
    JudgedWrites,
    Mode,
    Policy,
    PolicyGate,
    read_pattern,
)
from everturn_gateway.tools.shell import Confinement
from everturn_gateway.tools.shell.bash import BashTool

Step: TypeAlias = tuple[str, str, str] | str | Callable[[Path], None]
"""A call of `write_file` (path, content), `edit_file`, a command, or what others do meanwhile:
`("write", path, content)`, `"git status"`, a function of the workspace."""


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one call."""

    verdict: Verdict
    output: str = ""


@dataclass(slots=True)
class Judged:
    """One agent with the file tools and `bash`, in the sandbox without network."""

    environment: ToolEnvironment
    tools: dict[str, Tool]
    gate: PolicyGate
    context: ToolContext = field(default_factory=tool_context)
    told: list[Told] = field(default_factory=list[Told])
    _calls: int = 0

    @property
    def files(self) -> Path:
        """The workspace."""
        return self.environment.files

    async def call(self, name: str, **arguments: object) -> Told:
        """Judge a call and run it where it may run."""
        self._calls += 1
        call = ToolCall(call_id=f"call-{self._calls}", name=name, arguments=json.dumps(arguments))
        tool = self.tools[name]
        verdict = await self.gate.evaluate(call, tool, self.context)
        told = Told(verdict)
        if verdict.effect == "allow":
            told = Told(verdict, await _output(tool, call, self.context))
        self.told.append(told)
        return told

    async def bash(self, command: str) -> Told:
        """Judge a command and run it where it may run."""
        return await self.call("bash", command=command)

    async def write(self, path: str, content: str) -> Told:
        """Judge the writing of a file and write it where that may be."""
        return await self.call("write_file", path=path, content=content)

    async def play(self, *steps: Step) -> list[str]:
        """Do one step after the other, whatever became of those before; return the words."""
        words: list[str] = []
        for step in steps:
            if callable(step):
                step(self.files)
            elif isinstance(step, str):
                words.append((await self.bash(step)).verdict.effect)
            else:
                words.append((await self.write(step[1], step[2])).verdict.effect)
        return words


def judged(
    folder: Path,
    *allow: str,
    deny: Sequence[str] = (),
    confinement: Confinement = BWRAP,
    mode: Mode = "ask",
) -> Judged:
    """Return an agent whose policy allows these patterns."""
    environment = make_site(folder)
    rules = Policy(
        allow=tuple(map(read_pattern, allow)), deny=tuple(map(read_pattern, deny)), mode=mode
    )
    writes = JudgedWrites()
    own = (
        *file_tools(environment, read_only=False, judged=writes),
        BashTool(environment, replace(confinement), timeout_s=20),
    )
    tools: dict[str, Tool] = {
        tool.definition.name: GuardedTool(
            tool, agent="helper", secrets=SecretRegistry(), policy=rules
        )
        for tool in own
    }
    gate = PolicyGate(rules, environment.home, writes=writes, workspace=environment.files)
    return Judged(environment, tools, gate)


async def _output(tool: Tool, call: ToolCall, context: ToolContext) -> str:
    try:
        given = await tool.run(call, context)
    except Exception as error:  # noqa: BLE001 - whatever it fails of is its result
        return f"failed: {error}"
    return given.text if isinstance(given, ToolOutput) else given
