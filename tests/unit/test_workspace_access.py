"""Who opens files: nothing that is durable is kept beside the store.

import-linter knows imports and not what is done with them: it holds that nobody but the
composition root knows the stores (`pyproject.toml`). That nobody goes around them is held here, by
the calls in the sources.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ("gateway/everturn", "gateway/everturn_gateway", "channels/everturn_channels")
CALLS: Final = frozenset((
    "fdopen", "mkfifo", "scandir", "read_text", "read_bytes", "write_text", "write_bytes",
    "mkdir", "makedirs", "unlink", "rmtree", "touch", "NamedTemporaryFile", "TemporaryDirectory",
    "mkdtemp", "mkstemp",
))  # fmt: skip
_NAMED: Final = re.compile(rf"\b(?:open|{'|'.join(CALLS)})\b")
ALLOWED: Final = {
    # What its owner writes, and Everturn reads or amends for him.
    "gateway/everturn_gateway/yaml_files/": "agents' files and everturn.yaml",
    "gateway/everturn_gateway/specs/": "agents' own folders",
    "gateway/everturn_gateway/folders.py": "makes and syncs the folders of those below",
    "gateway/everturn_gateway/scheduler/definitions/job_store.py": "job files, written by people",
    "gateway/everturn_gateway/tools/policy/policy_files/": "policy.yaml of an agent",
    "gateway/everturn_gateway/tools/cli/": "programs in an agent's tools folder",
    "gateway/everturn_gateway/providers/keys.py": "key files that agents name",
    "gateway/everturn_gateway/commands/scaffold.py": "`init`: writes an agent for its owner",
    "gateway/everturn_gateway/commands/first_steps/": "`setup`: writes for its owner",
    "gateway/everturn_gateway/config/env_file.py": "variables beside everturn.yaml",
    "gateway/everturn_gateway/commands/context/": "transcripts that a command is given",
    "gateway/everturn_gateway/commands/moving_in/": "`import`: reads and writes for its owner",
    "gateway/everturn_gateway/commands/exporting.py": "`export`: writes into a folder of its owner",
    # What agents work on.
    "gateway/everturn_gateway/tools/confined/": "files of agents",
    "gateway/everturn_gateway/tools/files/": "files of agents",
    "gateway/everturn_gateway/app/homes.py": "whether there are files of agents on this machine",
    "gateway/everturn_gateway/tools/checkpoints/": "files of agents, as they stood before a turn",
    "gateway/everturn_gateway/tools/marks/": "marks on files of agents; they stay with the files",
    "gateway/everturn_gateway/tools/policy/commands/git_state.py": "repositories of agents",
    "gateway/everturn_gateway/tools/policy/files/": "files of agents, as a question showed them",
    # What belongs to one machine: it means nothing on another one.
    "gateway/everturn_gateway/tools/processes/": "processes: pipes, screens, process ids",
    "gateway/everturn_gateway/tools/shell/": "sandboxes and trees of processes",
    "gateway/everturn_gateway/tools/browser/": "a folder that is gone when no browser runs",
    "gateway/everturn_gateway/providers/local/": "weights, and the process that runs them",
    "gateway/everturn_gateway/commands/shared/running.py": "process id and address of a gateway",
    "gateway/everturn_gateway/commands/shared/crash.py": "the log of a crash, and its lock",
    "gateway/everturn_gateway/commands/shared/settings.py": "the workspace itself; log of commands",
    "gateway/everturn_gateway/commands/doctor.py": "the note of a gateway that is gone",
    "gateway/everturn_gateway/doctor/workspace.py": "whether a secret stands in everturn.yaml",
    "gateway/everturn_gateway/private_environ.py": "/proc",
    "channels/everturn_channels/matrix/": "keys of the device that this machine is",
    "channels/everturn_channels/terminal/": "files that people attach; what they typed before",
    "gateway/everturn_gateway/commands/serving/workers.py": "a folder of sockets, gone at the end",
    # Elsewhere.
    "gateway/everturn_gateway/commands/documentation.py": "pages, which come with the package",
    "gateway/everturn_gateway/http/console/": "pages of the console, which come with the package",
    "channels/everturn_channels/languages/": "texts, which come with the package",
    "gateway/everturn_gateway/cli/__init__.py": "/dev/null",
    "gateway/everturn_gateway/commands/serving/reloads.py": "/dev/tty",
    "gateway/everturn_gateway/acp/stdio.py": "standard input and output",
    "gateway/everturn/_opening.py": "a folder that is gone when the program's gateway closes",
    "gateway/everturn_gateway/plugins/registry.py": "metadata of installed packages",
}
"By module or folder: what it opens files for, which is not to keep something in the workspace."


@cache
def opening() -> dict[str, set[str]]:
    """Return what each module calls that opens, makes or removes files."""
    found: dict[str, set[str]] = {}
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text()
            # To take apart all of them takes seconds.
            if _NAMED.search(source) and (calls := set(_calls(ast.parse(source)))):
                found[str(path.relative_to(ROOT))] = calls
    return found


def _calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _name(node.func)
            is_method = isinstance(node.func, ast.Attribute)
            if (is_method and name in CALLS) or (name == "open" and _is_of_a_file(node)):
                yield name


def _is_of_a_file(call: ast.Call) -> bool:
    """Say whether `open` opens a file: as a function, of `os`, or with a mode."""
    function = call.func
    if not isinstance(function, ast.Attribute):
        return True
    of = function.value
    mode = call.args[0] if call.args else None
    is_mode = isinstance(mode, ast.Constant) and str(mode.value).strip("+btrwax") == ""
    return (isinstance(of, ast.Name) and of.id == "os") or is_mode


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""


def test_nothing_but_the_stores_keeps_files_in_the_workspace() -> None:
    """What is beside the store is not in its backup, and not on the next machine."""
    beside = {
        module: sorted(calls)
        for module, calls in opening().items()
        if not any(module.startswith(each) for each in ALLOWED)
    }

    assert beside == {}


def test_each_exception_is_one() -> None:
    """A list of exceptions that nobody needs hides those that are."""
    modules = list(opening())

    assert [each for each in ALLOWED if not any(m.startswith(each) for m in modules)] == []
