"""Which calls a skill's `allowed-tools` allow, as patterns of the tool policy. Pure.

The specification leaves the names of tools to whoever runs a skill, and shows those of one client:
`Bash(git:*) Read`. Skills also say `bash`, or the policy's own patterns. A form that restricts a
tool in a way that the policy cannot check allows nothing.
Source: agentskills.io, specification, `allowed-tools` (read 2026-11-22).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_TOKEN = re.compile(r"(?:[^\s,()]|\([^()]*\))+")
_CALLED = re.compile(r"(?P<name>[A-Za-z][\w-]*)(?:\((?P<what>[^()]*)\))?")
_PATTERN = re.compile(r"(?:bash|builtin|cli|mcp):\S.*", re.DOTALL)
_MCP = re.compile(r"mcp__(?P<server>[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*)(?:__(?P<tool>[\w*-]+))?")

_OURS: Final = {
    "Read": "read_file",
    "Write": "write_file",
    "Edit": "edit_file",
    "MultiEdit": "edit_file",
    "Glob": "list_files",
    "LS": "list_files",
    "Grep": "search_files",
    "WebFetch": "web_fetch",
    "WebSearch": "web_search",
    "Task": "delegate",
    "Agent": "delegate",
    "Skill": "read_skill",
}
"Names of tools in skills that were written for another client, and what does the same here."


def tools_of(written: str | Iterable[str]) -> tuple[str, ...]:
    """Return the single tools of an `allowed-tools` field: a text with blanks, or a list.

    Nothing of a text whose brackets do not match: half of it could say more than all of it.
    """
    if isinstance(written, str):
        between = _TOKEN.sub("", written).replace(",", "")
        return () if between.strip() else tuple(match[0] for match in _TOKEN.finditer(written))
    return tuple(
        each
        for item in written
        for each in ((item.strip(),) if _PATTERN.fullmatch(item.strip()) else tools_of(item))
        if each
    )


def patterns_of(tools: Iterable[str]) -> tuple[str, ...]:
    """Return the policy's patterns for these tools, each once; nothing for one not understood."""
    return tuple(dict.fromkeys(pattern for tool in tools for pattern in _patterns(tool)))


def _patterns(tool: str) -> tuple[str, ...]:
    if _PATTERN.fullmatch(tool):
        return (tool,)
    if match := _MCP.fullmatch(tool):
        return (f"mcp:{match['server']}:{match['tool'] or '*'}",)
    called = _CALLED.fullmatch(tool)
    if called is None:
        return ()
    name, what = called["name"], called["what"]
    if name in {"Bash", "bash"}:
        return _commands("*" if what is None else what.strip())
    if what not in {None, "*"}:
        return ()
    if name in _OURS:
        return (f"builtin:{_OURS[name]}",)
    return (f"builtin:{name}", f"cli:{name}")


def _commands(what: str) -> tuple[str, ...]:
    """Return the patterns for `git:*`, which is git with any arguments or none, or `git status`."""
    if what in {"*", ":*"}:
        return ("bash:*",)
    if not what:
        return ()
    if what.endswith(":*"):
        command = what.removesuffix(":*").rstrip()
        return (f"bash:{command}", f"bash:{command} *")
    return (f"bash:{what}",)
