"""Binds a question to the files of the workspace that the call names."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec.structs import replace

from everturn_actors.model import FileDigest, ToolCall
from everturn_actors.ports import Verdict
from everturn_gateway.tools.policy.files.file_digests import ALL_FILES, digests, paths_of
from everturn_gateway.tools.policy.files.named_files import (
    NamedFiles,
    named_by_arguments,
    named_by_line,
)
from everturn_gateway.tools.policy.subjects import Subject, arguments_of

_TOO_MANY: Final = (
    "its workspace has too many files to see whether one of them changes before it runs"
)


def bound(verdict: Verdict, subject: Subject, call: ToolCall, workspace: Path) -> Verdict:
    """Return a question with the files that it is about, as they stand now. Blocking.

    Args:
        verdict: The question.
        subject: The call as patterns see it.
        call: The call.
        workspace: Where its files lie, absolute.
    """
    line = subject.line
    named = _named(subject, call)
    names = (*named.names, *subject.configured_by)
    files = digests(workspace, names, all_files=named.is_any)
    reason = verdict.reason
    if any(each.path == ALL_FILES for each in files):
        reason = f"{reason}; {_TOO_MANY}" if reason else _TOO_MANY
    pattern = verdict.pattern if line is None or _is_lasting(named, files) else ""
    return replace(verdict, reason=reason, pattern=pattern, files=files)


def run_by(subject: Subject, call: ToolCall, workspace: Path) -> tuple[str, ...]:
    """Return the files that a command names and may run, as seen from the workspace. Blocking."""
    if subject.line is None:
        return ()
    named = _named(subject, call)
    return paths_of(workspace, named.names) if named.runs_code or named.runs_unknown else ()


def bound_to_state(
    verdict: Verdict,
    subject: Subject,
    call: ToolCall,
    workspace: Path,
) -> Verdict:
    """Return the word that a command may run, with the files that it was judged by. Blocking.

    These configure what it runs: it is judged once more as it begins, and does not run where one of
    them has changed.
    """
    del call  # `bound` has it, too
    files = subject.configured_by
    return replace(verdict, files=digests(workspace, files)) if files else verdict


def _named(subject: Subject, call: ToolCall) -> NamedFiles:
    line = subject.line
    named = named_by_arguments(arguments_of(call))
    if line is None:
        return named
    by_line = named_by_line(line)
    names = (*(name for name in named.names if name != line.text), *by_line.names)
    return replace(by_line, names=names, is_any=by_line.is_any or named.is_any)


def _is_lasting(named: NamedFiles, files: tuple[FileDigest, ...]) -> bool:
    """Return whether the words of a command mean the same whatever files say."""
    if named.runs_code:
        return False
    return not named.runs_unknown or not any(each.is_there for each in files)
