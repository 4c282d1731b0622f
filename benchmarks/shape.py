"""The shape of the house in figures, beside what it should be.

.venv/bin/python benchmarks/shape.py [--tests] [--root FOLDER]

Reads the sources of the three code folders and prints one line a figure: what it is, and the goal
("ok" where it is met). `--tests` also collects the tests, to count their cases. `--root` measures
another checkout, so that two can be held side by side. Nothing is imported, nothing is changed.

A line of code is a line that holds a token other than a comment or a docstring. A repeated block is
two places of six or more lines that read the same once numbers and texts are left out; imports and
lines of one bracket do not count towards it.
"""

from __future__ import annotations

import argparse
import ast
import io
import itertools
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FOLDERS = ("actors", "channels", "gateway")
COMMAND_LINE = re.compile(r"/(?:cli\.py|cli/|commands/)")
BLOCK = 6  # lines that make a repetition
LONG_FUNCTION = 70
MANY_METHODS = 15
MANY_PARAMETERS = 6
LONG_FILE = {"actors": 400, "channels": 500, "gateway": 500}
VALUES = {tokenize.NUMBER: "0", tokenize.STRING: "s"}


@dataclass(slots=True)
class Part:
    """What one file has."""

    path: str
    lines: int
    code: int = 0
    comments: int = 0
    docstrings: int = 0
    functions: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    classes: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    parameters: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    inner_imports: int = 0
    words: dict[str, int] = field(default_factory=dict[str, int])
    shapes: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tests", action="store_true", help="collect the tests as well")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    options = parser.parse_args()
    root: Path = options.root
    parts = [
        read(root, file) for folder in FOLDERS for file in sorted((root / folder).rglob("*.py"))
    ]
    rows = [*source_rows(parts), *root_rows(root)]
    if options.tests:
        rows += test_rows(root)
    width = max(len(name) for name, *_ in rows)
    for name, now, goal, is_met in rows:
        verdict = "" if is_met is None else "  ok" if is_met else "  not yet"
        print(f"{name:<{width}}  {now:>24}   goal {goal}{verdict}")
    return 0


# --- reading ---


def read(root: Path, file: Path) -> Part:
    """Return what a file has."""
    text = file.read_text(encoding="utf-8")
    part = Part(path=str(file.relative_to(root)), lines=text.count("\n"))
    tree = ast.parse(text)
    documented = set(docstring_lines(tree))
    part.docstrings = len(documented)
    imports = {line for node in ast.walk(tree) for line in _import_lines(node)}
    _read_tokens(part, text, documented, imports)
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                _read_function(part, node)
            case ast.ClassDef():
                methods = sum(
                    isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body
                )
                part.classes.append((methods, f"{part.path}:{node.name}"))
            case _:
                pass
    for word in ("Any", "cast"):
        part.words[word] = sum(
            isinstance(node, ast.Name) and node.id == word for node in ast.walk(tree)
        )
    part.words["noqa"] = len(re.findall(r"#\s*(?:noqa|type:\s*ignore|pyright:\s*ignore)", text))
    return part


def _read_function(part: Part, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    name = f"{part.path}:{node.name}"
    part.functions.append(((node.end_lineno or node.lineno) - node.lineno + 1, name))
    args = node.args
    named = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    count = len(named) - bool(named and named[0].arg in ("self", "cls"))
    if not COMMAND_LINE.search(part.path):
        part.parameters.append((count, name))
    inner = (each for body in node.body for each in ast.walk(body))
    part.inner_imports += sum(isinstance(each, ast.Import | ast.ImportFrom) for each in inner)


def docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the numbers of lines that belong to docstrings, those of attributes included."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=last):
                yield from range(first, (last or first) + 1)
            case _:
                pass


def _import_lines(node: ast.AST) -> Iterable[int]:
    """Return the numbers of the lines of an import: to need the same is no repetition."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return ()


def _read_tokens(part: Part, text: str, documented: set[int], imports: set[int]) -> None:
    code: dict[int, list[str]] = defaultdict(list)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            part.comments += not token.string.startswith(("# noqa", "# type:", "# pyright:"))
        elif line not in documented and token.string.strip():
            word = VALUES.get(token.type, token.string)
            for each in range(line, token.end[0] + 1):
                code[each].append(word)
    part.code = len(code)
    part.shapes = [
        (number, " ".join(code[number]))
        for number in sorted(code)
        if len(code[number]) > 1 and number not in imports
    ]


# --- figures ---

Row = tuple[str, str, str, bool | None]


def source_rows(parts: Sequence[Part]) -> Iterator[Row]:
    """Yield the figures of the sources."""
    total = sum(part.lines for part in parts)
    core = sum(part.lines for part in parts if part.path.startswith("actors/"))
    yield "lines of source", f"{total:,}", "10,000 fewer for the same abilities", None
    yield "lines of the core", f"{core:,}", "under 17,000", core < 17_000
    sizes = sorted(part.lines for part in parts)
    long = [part for part in parts if part.lines > LONG_FILE[part.path.partition("/")[0]]]
    largest = max(parts, key=lambda part: part.lines)
    yield (
        "file, p90 / largest",
        f"{sizes[len(sizes) * 9 // 10]} / {largest.lines}",
        "largest 500",
        largest.lines <= 500,
    )
    yield "files too long (actors 400)", str(len(long)), "0", not long
    yield from _over("functions over 70 lines / longest", parts, "functions", LONG_FUNCTION, 0, 80)
    yield from _over("classes over 15 methods / largest", parts, "classes", MANY_METHODS, 9_999, 20)
    yield from _over("parameters over 6 / most", parts, "parameters", MANY_PARAMETERS, 15, 8)
    inner = sum(part.inner_imports for part in parts)
    yield "imports inside functions", str(inner), "25", inner <= 25
    code = sum(part.code for part in parts)
    comments = sum(part.comments for part in parts) / code
    yield "comments per line of code", f"{comments:.1%}", "3 %", comments >= 0.03
    docs = sum(part.docstrings for part in parts) / code
    yield "docstring lines per line of code", f"{docs:.2f}", "0.25", docs >= 0.25
    words = {word: sum(part.words[word] for part in parts) for word in ("Any", "cast", "noqa")}
    met = words["Any"] <= 212 and words["cast"] <= 82 and words["noqa"] <= 87
    yield "Any / cast / noqa", " / ".join(map(str, words.values())), "212 / 82 / 87", met
    pairs = repeated(parts)
    yield "repeated blocks of 6+ lines", f"{pairs} pairs", "under 60", pairs < 60
    folders = defaultdict[str, int](int)
    for part in parts:
        folders[str(Path(part.path).parent)] += 1
    folder, most = max(
        ((name, count) for name, count in folders.items() if name.startswith("actors/")),
        key=lambda each: each[1],
    )
    yield f"files in {folder}", str(most), "15", most <= 15


def _over(
    name: str, parts: Iterable[Part], kind: str, limit: int, goal: int, goal_most: int
) -> Iterator[Row]:
    every: list[tuple[int, str]] = [each for part in parts for each in getattr(part, kind)]
    over = sum(size > limit for size, _ in every)
    most, place = max(every)
    count = "" if goal > most and goal == 9_999 else f"{goal} / "
    is_met = over <= goal and most <= goal_most
    yield name, f"{over} / {most}", f"{count}{goal_most}  ({place})", is_met


def repeated(parts: Sequence[Part]) -> int:
    """Return how many pairs of places hold the same shape for six lines or more."""
    windows: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for number, part in enumerate(parts):
        shapes = [shape for _, shape in part.shapes]
        for at in range(len(shapes) - BLOCK + 1):
            windows[tuple(shapes[at : at + BLOCK])].append((number, at))
    # Windows that follow each other in both places are one repetition.
    starts: set[tuple[tuple[int, int], tuple[int, int]]] = set()
    for places in windows.values():
        if 1 < len(places) <= 8:
            starts.update(itertools.combinations(places, 2))
    return sum(
        ((first[0], first[1] - 1), (second[0], second[1] - 1)) not in starts
        for first, second in starts
        if first[0] != second[0] or second[1] - first[1] >= BLOCK
    )


def root_rows(root: Path) -> Iterator[Row]:
    """Yield what others find from outside."""
    facade = root / "gateway" / "everturn" / "__init__.py"
    names = 0
    if facade.is_file():
        found = re.search(
            r"__all__\s*(?::[^=]+)?=\s*[\[(](.*?)[\])]", facade.read_text(), re.DOTALL
        )
        names = len(re.findall(r"[\"']\w+[\"']", found[1])) if found else 0
    yield "public names of the facade", str(names), "all, in __all__", names > 0
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    kinds = set(re.findall(r"entry-points\.\"everturn\.(\w+)\"", project))
    yield "kinds found by entry points", str(len(kinds)), "5", len(kinds) >= 5


def test_rows(root: Path) -> Iterator[Row]:
    """Yield the figures of the tests; collects them with this interpreter's pytest."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"(\d+)(?:/\d+)? tests? (?:collected|selected)", done.stdout)
    cases = int(found[1]) if found else 0
    yield "test cases", f"{cases:,}" if cases else "not collected", "5,000", 0 < cases <= 5_000
    support = sum(
        file.read_text(encoding="utf-8").count("\n")
        for file in (root / "tests/support").rglob("*.py")
    )
    yield "lines of test support", f"{support:,}", "fewer than 15,400", support < 15_400


if __name__ == "__main__":
    sys.exit(main())
