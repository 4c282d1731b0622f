"""The skill tool: reads the instructions of a skill, and the files beside them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final

from pydantic import Field

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import OpenTurn, ToolCall
from everturn_actors.ports import Tool, ToolCapabilities, ToolContext
from everturn_gateway.tools.arguments import Arguments, read_arguments
from everturn_gateway.tools.confined import Confined
from everturn_gateway.tools.function import FunctionTool
from everturn_gateway.tools.quoting import PAGE_TOKENS, page_of
from everturn_gateway.tools.skills.loading import SKILL_FILE, Skill, body_of
from everturn_gateway.tools.wording import counted, near, shown

NAME: Final = "read_skill"
FILE_MAX_BYTES: Final = 1024 * 1024
_FILES_MAX = 60  # that are named beside the instructions
_DEPTH_MAX = 3
_SHOWN_MAX_BYTES = 256 * 1024
_CAPABILITIES: Final = ToolCapabilities(read_only=True, safe=True, timeout_s=60)


class ReadSkill(Arguments):
    """What to read."""

    name: str
    path: str = Field(
        default=SKILL_FILE, description="a file of the skill; by default its instructions"
    )
    page: Annotated[int, Field(ge=1)] = 1


def skill_tools(skills: Sequence[Skill]) -> tuple[Tool, ...]:
    """Return the tool that reads these skills; none where there are none."""
    if not skills:
        return ()
    reader = _Skills(skills)
    return (
        FunctionTool(
            NAME,
            "Read the instructions of a skill, or a file that they name.",
            arguments=ReadSkill,
            capabilities=_CAPABILITIES,
            answer=reader.read,
        ),
    )


def instructions_of(skill: Skill) -> str:
    """Return the beginning of a skill's instructions, for people. Reads a file.

    Raises:
        ToolFailedError: It cannot be read.
    """
    with _confined(skill).place(SKILL_FILE) as place:
        data, _ = place.read(_SHOWN_MAX_BYTES)
    text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    return body_of(text)


def granted_patterns(skills: Sequence[Skill], context: ToolContext) -> tuple[str, ...]:
    """Return what the skills allow whose instructions were read in the present turn.

    Patterns of the tool policy, each once. What a skill allows ends with the turn.
    """
    turn = context.conversation.current
    if turn is None or not any(skill.grants for skill in skills):
        return ()
    read = {name for call in _answered(turn) if (name := _instructions_of(call))}
    return tuple(
        dict.fromkeys(pattern for skill in skills if skill.name in read for pattern in skill.grants)
    )


def _answered(turn: OpenTurn) -> list[ToolCall]:
    """Return the calls of a turn that have a result which is no error."""
    found: list[ToolCall] = []
    for step in turn.steps:
        pairs = zip(step.reply.calls, step.results, strict=True)
        found += [call for call, result in pairs if not result.is_error]
    if turn.step is not None and turn.step.reply is not None:
        results = turn.step.results
        found += [
            call
            for call in turn.step.reply.calls
            if call.call_id in results and not results[call.call_id].is_error
        ]
    return found


def _instructions_of(call: ToolCall) -> str:
    """Return the skill whose instructions a call read; empty where it read something else."""
    if call.name != NAME:
        return ""
    try:
        asked = read_arguments(call, ReadSkill)
    except ToolFailedError:  # it cannot have been answered with instructions
        return ""
    return asked.name if _is_instructions(asked.path) else ""


def _is_instructions(path: str) -> bool:
    return os.path.normpath(path) == SKILL_FILE


def _confined(skill: Skill) -> Confined:
    return Confined(skill.folder, what="the skill's folder")


class _Skills:
    def __init__(self, skills: Sequence[Skill]) -> None:
        self._folders = {skill.name: (skill, _confined(skill)) for skill in skills}

    async def read(self, asked: ReadSkill, _context: ToolContext) -> str:
        if asked.name not in self._folders:
            names = [*self._folders]
            known = ", ".join(near(asked.name, names) or map(shown, names))
            msg = f"name: there is no skill {shown(asked.name)}; there are: {known}"
            raise ToolFailedError(msg)
        skill, folder = self._folders[asked.name]
        return await folder.run(partial(_text, skill, folder, asked), reads=True)


def _text(skill: Skill, folder: Confined, asked: ReadSkill) -> str:
    with folder.place(asked.path) as place:
        data, version = place.read(FILE_MAX_BYTES)
    path = f"{folder.root / asked.path}"
    if version[2] > FILE_MAX_BYTES:
        msg = f"{shown(path)} has {counted(version[2], 'byte')}; that is too large to read here"
        raise ToolFailedError(msg)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        msg = f"{shown(path)} is not text ({counted(len(data), 'byte')}); use it where it is"
        raise ToolFailedError(msg)
    is_body = _is_instructions(asked.path)
    text = text.replace("\r\n", "\n")
    page = page_of(body_of(text) if is_body else text, asked.page, PAGE_TOKENS)
    if page is None:
        msg = f"page: there is no page {asked.page} of {shown(asked.path)}"
        raise ToolFailedError(msg)
    of = f", page {page.number} of {page.total}" if page.total > 1 else ""
    heading = f"Skill {skill.name}, {shown(os.path.normpath(asked.path))}{of}:"
    end = [*_beside(folder)] if is_body and page.number == page.total else []
    return "\n\n".join((heading, page.text.strip("\n"), *end))


def _beside(folder: Confined) -> list[str]:
    """Return where the skill's folder is and what else is in it."""
    found: list[str] = []
    is_all = _collect(folder, "", found, 0)
    if not found:
        return []
    more = "" if is_all else ", …"
    return [f"Files in {shown(str(folder.root))}: {', '.join(map(shown, found))}{more}"]


def _collect(folder: Confined, above: str, found: list[str], depth: int) -> bool:
    """Add the files below a folder to `found`; return whether these are all."""
    for name, is_folder in folder.entries(above or "."):
        path = f"{above}{name}"
        if is_folder:
            if depth == _DEPTH_MAX or not _collect(folder, f"{path}/", found, depth + 1):
                return False
        elif path != SKILL_FILE:
            if len(found) == _FILES_MAX:
                return False
            found.append(path)
    return True
