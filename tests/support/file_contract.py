"""A contract of import-linter: which modules may open files.

import-linter sees what a module imports, and not what it calls; `open` is imported by nobody. This
contract reads the sources of the modules of a graph for calls that open, make, move or remove files
(`file_calls`), and is broken where a module has one that is none of `openers`, or where an opener
has none: a list of exceptions that nobody needs hides those that are.

`pyproject.toml` names it under `contract_types`, and says which modules there are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final, cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

_METHODS: Final = frozenset((
    "mkfifo", "mknod", "scandir", "read_text", "read_bytes", "write_text", "write_bytes", "mkdir",
    "makedirs", "unlink", "rmdir", "touch", "rename", "symlink_to", "hardlink_to",
))  # fmt: skip
"As methods, and in modules such as `os`; functions of such a name are others."
_FUNCTIONS: Final = frozenset((
    "fdopen", "open_file", "rmtree", "copyfile", "copytree", "NamedTemporaryFile", "TemporaryFile",
    "TemporaryDirectory", "mkdtemp", "mkstemp",
))  # fmt: skip
_NAMED: Final = re.compile(rf"\b(?:open|{'|'.join(_METHODS | _FUNCTIONS)})\b")


class FileContract(Contract):
    """Only some modules call what opens, makes, moves or removes files.

    Options: `packages`, whose modules are read; `openers`, the modules and packages of them that
    may, each with its descendants.
    """

    type_name = "files"

    packages = fields.ListField(subfield=fields.StringField())
    openers = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Read the sources of all modules; `metadata` has what is wrong, a line each."""
        packages, openers = cast("list[str]", self.packages), cast("list[str]", self.openers)
        used = set[str]()
        wrong: list[str] = []
        for module in sorted(graph.modules):
            if not _is_below(module, packages) or not (calls := file_calls(_source(module))):
                continue
            allowed = [each for each in openers if _is_below(module, [each])]
            used.update(allowed)
            if not allowed:
                wrong += [f"{module} calls {name} (line {line})" for line, name in calls]
        wrong += [f"{each} opens no file" for each in openers if each not in used]
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print a line for each that is wrong, and what to do."""
        for line in check.metadata["wrong"]:
            output.print_error(f"- {line}", bold=False)
        output.new_line()
        output.print("What is durable goes through the stores (docs/decisions/0037); what is the")
        output.print("owner's, an agent's or one machine's is an opener, with its reason.")


def file_calls(source: str) -> list[tuple[int, str]]:
    """Return which calls of a source open, make, move or remove files: its line and the name."""
    # To take apart all sources takes seconds, and few name one.
    return sorted(_calls(ast.parse(source))) if _NAMED.search(source) else []


def _calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name, is_method = _name(node.func), isinstance(node.func, ast.Attribute)
            if (
                name in _FUNCTIONS
                or (is_method and name in _METHODS)
                or (name == "open" and _is_of_a_file(node))
            ):
                yield node.lineno, name


def _is_of_a_file(call: ast.Call) -> bool:
    """Say whether `open` opens a file: as a function, of `os`, of a path, or with a mode."""
    function = call.func
    if not isinstance(function, ast.Attribute):
        return True
    of = function.value
    name = _name(of.func if isinstance(of, ast.Call) else of)
    mode = call.args[0] if call.args else None
    is_mode = isinstance(mode, ast.Constant) and str(mode.value).strip("+btrwax") == ""
    return name == "os" or name.casefold().endswith(("path", "file")) or is_mode


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""


def _is_below(module: str, packages: list[str]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in packages)


def _source(module: str) -> str:
    root, *rest = module.split(".")
    spec = find_spec(root)  # of the first part alone: to find more imports it
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        return ""
    path = Path(places[0], *rest)
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8")
