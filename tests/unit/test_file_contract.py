"""The contract of import-linter that says who opens files: what it sees, and what it reports."""

from __future__ import annotations

from collections.abc import Sequence

from grimp import ImportGraph
from support.file_contract import FileContract, file_calls
from support.tables import table


@table(
    ("source", "calls"),
    [
        ("open(path)", ["open"]),
        ("Path(name).open()", ["open"]),
        ("path.open('rb')", ["open"]),
        ("os.open(path, os.O_RDONLY)", ["open"]),
        ("await anyio.open_file(path)", ["open_file"]),
        ("path.write_text('x')\npath.unlink()", ["write_text", "unlink"]),
        ("tempfile.mkdtemp()", ["mkdtemp"]),
        ("TemporaryDirectory(prefix='x')", ["TemporaryDirectory"]),
        # A conversation is opened, a document is read by a function of ours, a name is no call.
        ("await conversations.open(key, principal=who)", []),
        ("read_text(file)", []),
        ("opened = open", []),
    ],
)
def test_calls_that_open_files_are_told_from_others(source: str, calls: list[str]) -> None:
    """What it does not see is kept beside the stores, and no backup has it."""
    assert [name for _, name in file_calls(source)] == calls


def wrong(openers: Sequence[str], *modules: str) -> list[str]:
    """Return what the contract says of modules."""
    graph = ImportGraph()
    for module in modules:
        graph.add_module(module)
    options = {"packages": ["everturn_gateway"], "openers": openers}
    check = FileContract("who opens files", {}, options).check(graph, verbose=False)
    assert check.kept is (not check.metadata["wrong"])
    return [line.partition(" (")[0] for line in check.metadata["wrong"]]


def test_a_module_that_opens_files_is_an_exception_and_an_exception_opens_files() -> None:
    """A list of exceptions that nobody needs hides those that are."""
    modules = ("everturn_gateway.folders", "everturn_gateway.clock", "everturn_actors.codec")

    told = wrong([], *modules)
    assert {line.partition(" calls ")[0] for line in told} == {"everturn_gateway.folders"}
    assert "everturn_gateway.folders calls open" in told
    assert wrong(["everturn_gateway.folders"], *modules) == []
    assert wrong(["everturn_gateway.folders", "everturn_gateway.clock"], *modules) == [
        "everturn_gateway.clock opens no file"
    ]
