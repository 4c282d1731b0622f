"""What a policy judges: one call, under the names that patterns may have for it."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.errors import ToolFailedError
from everturn_actors.json_values import as_object
from everturn_actors.model import ToolCall
from everturn_actors.ports import Tool, ToolKind
from everturn_gateway.late_loading import late
from everturn_gateway.tools.environment import FileWrite, PlacesCommands, RunsCommands, WritesFiles
from everturn_gateway.tools.policy.files.protected_files import reason_on_disk
from everturn_gateway.tools.policy.rules.patterns import exact_pattern

if TYPE_CHECKING:
    from everturn_gateway.tools.policy import command_state
    from everturn_gateway.tools.policy.command_state import LineState
    from everturn_gateway.tools.policy.commands import analysis
    from everturn_gateway.tools.policy.commands.analysis import CommandLine
else:
    command_state = late("everturn_gateway.tools.policy.command_state")
    analysis = late("everturn_gateway.tools.policy.commands.analysis")

_FAMILIES: Final = {
    "web_fetch": "web:fetch",
    "web_search": "web:search",
    "recall": "memory:recall",
    "note_person": "memory:note_person",
    "remember": "memory:remember",
    "reflect": "memory:reflect",
    "update_world": "memory:update_world",
    "read_file": "files:read_file",
    "write_file": "files:write_file",
    "edit_file": "files:edit_file",
    "list_files": "files:list_files",
    "search_files": "files:search_files",
}
"Tools that an agent's file names together, and that some agents know as one tool with actions."
_OLDER: Final = {
    "schedule:create": "schedule_task",
    "schedule:list": "list_schedules",
    "schedule:cancel": "cancel_schedule",
}
"Actions that were tools of their own to older agents, and are in their policies."
_ACTION_CHARACTERS = 64


@runtime_checkable
class NamedForPolicy(Protocol):
    """A tool that patterns know by another name than the model does."""

    @property
    def policy_name(self) -> str:
        """The name in patterns, for a tool of an MCP server `server:tool`."""
        ...


@runtime_checkable
class FromServer(Protocol):
    """A tool of an MCP server."""

    @property
    def server(self) -> str:
        """The server's name, as the agent's owner calls it."""
        ...

    @property
    def remote_name(self) -> str:
        """The tool's name, as the server calls it."""
        ...


@runtime_checkable
class SaysItself(Protocol):
    """A tool that somebody else describes: a server that its owner has not vouched for."""

    @property
    def says_itself(self) -> bool:
        """Whether nobody but its server stands behind its words."""
        ...


class Subject(Struct, frozen=True, kw_only=True):
    """One call, as patterns see it."""

    kind: ToolKind
    names: tuple[str, ...]
    "Its names, the most precise first."
    line: CommandLine | None = None
    "The command that it would run; None where it runs none."
    state: LineState | None = None
    "What that command would meet; None where nobody looked, and then no code is allowed."
    write: FileWrite | None = None
    "The file that it would write; None where it writes none, or would fail before."
    protected: str = ""
    "Why writing that file asks; empty where it does not."

    @property
    def own_kind(self) -> ToolKind:
        """The type under which the tool itself is known, whatever command it runs."""
        return "builtin" if self.kind == "bash" else self.kind

    @property
    def allowed_by(self) -> tuple[str, ...]:
        """The names by which a pattern allows it.

        A server's tool has one, the server's own: by which name the model knows it depends on what
        other tools there are.
        """
        return self.names[:1] if self.kind == "mcp" else self.names

    @property
    def faults(self) -> tuple[str, ...]:
        """For each simple command, why no `bash:` pattern allows it; empty where one may."""
        if self.state is not None:
            return self.state.faults
        return tuple(use.fault for use in self.line.uses) if self.line is not None else ()

    @property
    def pattern(self) -> str:
        """The pattern that matches this and nothing else; empty where there is none.

        There is none for what may be another thing tomorrow, since files decide it.
        """
        if self.protected or any(self.faults):
            return ""
        if self.line is None:
            return exact_pattern(self.own_kind, self.names[0])
        return exact_pattern("bash", self.line.exact) if self.line.exact else ""

    @property
    def configured_by(self) -> tuple[str, ...]:
        """Files of the workspace that configure what its command runs, as seen from there."""
        return self.state.configured_by if self.state is not None else ()


async def subject_of(call: ToolCall, tool: Tool) -> Subject:
    """Return what a policy has to judge of a call of `tool`, by its words alone."""
    command = _command_of(call, tool)
    # In a thread: a long text takes its time, and the first one loads the grammar.
    line: CommandLine | None = None
    if command is not None:  # the first one loads what reads it, in the thread
        line = await anyio.to_thread.run_sync(lambda: analysis.analyse(command))
    # No argument of a server's tool is an action: a model could write another tool's name with it.
    own = policy_name_of(tool)
    names = (own, call.name) if own else call_names(call)
    return Subject(kind=tool.capabilities.kind, names=tuple(dict.fromkeys(names)), line=line)


async def looked_at(
    subject: Subject, call: ToolCall, tool: Tool, *, named: Collection[str]
) -> Subject:
    """Return the same with what the call would meet in the workspace, as that is now.

    Args:
        subject: What `subject_of` gave.
        call: The call.
        tool: The tool.
        named: Files that the policy names, as seen from the workspace: others run them.
    """
    if subject.line is not None and isinstance(tool, PlacesCommands):
        try:
            place = tool.place_of(call)
        except ToolFailedError:  # its arguments do not fit, and it will say so when it runs
            return subject
        look = functools.partial(command_state.look_at_line, subject.line, place, named=named)
        return replace(subject, state=await anyio.to_thread.run_sync(look))
    write = await tool.write_of(call) if isinstance(tool, WritesFiles) else None
    if write is None:
        return subject
    root, path, head = write.root, write.path, write.head
    reason = functools.partial(reason_on_disk, root, path, named=named, data=head)
    return replace(subject, write=write, protected=await anyio.to_thread.run_sync(reason))


def policy_name_of(tool: Tool) -> str:
    """Return the name that patterns have for a tool; empty where it is the one the model knows."""
    if isinstance(tool, NamedForPolicy):
        return tool.policy_name
    return f"{tool.server}:{tool.remote_name}" if isinstance(tool, FromServer) else ""


def _command_of(call: ToolCall, tool: Tool) -> str | None:
    try:
        return tool.command_of(call) if isinstance(tool, RunsCommands) else None
    except ToolFailedError:  # its arguments do not fit, and it will say so when it runs
        return None


def call_names(call: ToolCall) -> tuple[str, ...]:
    """Return the names of a call, the most precise first: `tool:action`, `tool`, its family."""
    names = [call.name]
    action = arguments_of(call).get("action")
    if isinstance(action, str) and 0 < len(action) <= _ACTION_CHARACTERS and "\0" not in action:
        names.insert(0, f"{call.name}:{action}")
        if older := _OLDER.get(names[0]):
            names.append(older)
    if family := _FAMILIES.get(call.name):
        names += [family, family.partition(":")[0]]
    return tuple(names)


def arguments_of(call: ToolCall) -> Mapping[str, object]:
    """Return the arguments of a call; none where they are no JSON object."""
    try:
        found: object = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return {}
    return as_object(found)
