"""Which programs become cli tools, and what keeps one from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import write_script
from support.tables import table

from everturn_gateway.tools.cli import CliToolError, declared, discover
from everturn_gateway.tools.cli.manuals import summary


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An agent's folder with a script and a manual."""
    folder = tmp_path / "helper"
    write_script(folder / "tools" / "find.sh", "#!/bin/sh\n")
    (folder / "tools" / "README.md").write_text("# find\n\nFinds code.\n")
    (folder / "tools" / "notes.txt").write_text("")
    (tmp_path / "outside.md").write_text("")
    write_script(tmp_path / "outside.sh", "#!/bin/sh\n")
    return folder


def test_a_declared_tool_is_described_by_its_owner_or_its_manual(home: Path) -> None:
    """And runs what its owner names."""
    # A declared tool is described by its owner. What stands in agent.yaml is what the model reads.
    program = declared(
        home,
        name="code-search",
        command="./tools/find.sh --all 'a b'",
        description="Search code",
        readme="./tools/README.md",
    )

    assert program.command == ("./tools/find.sh", "--all", "a b")
    assert (program.description, program.folder) == ("Search code", home)
    assert program.readme == home / "tools" / "README.md"

    # A tool without a description takes it from its manual. Duragent's agents often have no other.
    with_manual = declared(home, name="x", command="echo", readme="tools/README.md")

    assert with_manual.description == "Finds code."
    assert declared(home, name="x", command="echo").description == "CLI tool: x"

    # An owner may name a program anywhere. By its whole path, or by its name where it is installed.
    outside = str(home.parent / "outside.sh")

    assert declared(home, name="x", command=outside).command == (outside,)
    assert declared(home, name="x", command="git log").command == ("git", "log")
    assert declared(home, name="x", command="echo", readme=f"{home.parent}/outside.md").readme


@table(
    ("name", "command", "readme", "why"),
    [
        ("a b", "echo", None, "'a b' is no name for a tool"),
        ("", "echo", None, "no name"),
        ("x" * 65, "echo", None, "no name"),
        ("x", " ", None, "command: it is empty"),
        ("x", "echo 'a", None, "command: echo 'a cannot be read: no closing quotation"),
        ("x", "./tools/gone.sh", None, "command: there is no file .*gone.sh"),
        ("x", "./tools/notes.txt", None, "notes.txt is not executable; chmod"),
        ("x", "../outside.sh", None, "command: ../outside.sh leads out of the agent's folder"),
        ("x", "./tools/link.sh", None, "command: ./tools/link.sh leads out"),
        ("x", "./tools", None, "command: there is no file"),
        ("x", "/no/such/program", None, "there is no file /no/such/program"),
        ("x", "echo", "gone.md", "readme: there is no file .*gone.md"),
        ("x", "echo", "../outside.md", "readme: ../outside.md leads out"),
        ("x", "echo", "tools", "readme: there is no file"),
    ],
)
def test_what_cannot_work_is_refused_when_the_agent_is_loaded(
    home: Path, name: str, command: str, readme: str | None, why: str
) -> None:
    """Its owner reads it at once, not its users in the middle of a talk."""
    link = home / "tools" / "link.sh"
    link.unlink(missing_ok=True)
    link.symlink_to(home.parent / "outside.sh")
    with pytest.raises(CliToolError, match=why):
        declared(home, name=name, command=command, readme=readme)


@table(
    "command",
    [
        "LEVEL=1 echo",
        "echo a | cat -n",
        "cd tools && echo",
        "echo 2>/dev/null",
        "echo a 2>&1",
        "awk '{print $1; exit}' file",
        "~/bin/tool",
        "$HOME/bin/tool --x",
        "echo $UNSET",
    ],
)
def test_a_command_may_use_the_shell_where_arguments_stay_arguments(
    home: Path, command: str
) -> None:
    """Older agents have such commands."""
    program = declared(home, name="x", command=command)

    assert (program.script, program.command) == (command, ())


@table(
    "command",
    [
        "echo a;",
        "echo a &",
        "echo a |",
        "echo a &&",
        "echo a\nb",
        "LEVEL=1",
        "$TOOL",
        "${TOOL}",
        "echo a; $TOOL",
        'echo a; LEVEL=1 "$TOOL"',
        "echo a; 2>/dev/null",
        "echo a >",
        "echo a;>b",
        "! ",
        "(echo a)",
        "{ echo a; }",
        "$(cat tool)",
        "`cat tool`",
        "x it's ' ; $TOOL ''",
    ],
)
def test_a_command_that_would_run_the_models_arguments_is_refused(home: Path, command: str) -> None:
    """What the model writes is an argument, never a program."""
    with pytest.raises(CliToolError, match=r"arguments cannot stand after .* put it into a script"):
        declared(home, name="x", command=command)


def test_tools_are_found_by_their_folders(tmp_path: Path) -> None:
    """One that is none hides no other."""
    # As Duragent finds them: the agent's own first, then those of the whole gateway.
    agent, gateway = tmp_path / "agent", tmp_path / "gateway"
    for root, name, run in (
        (agent, "zip", "run"),
        (agent, "code-search", "run.py"),
        (gateway, "zip", "run.sh"),
        (gateway, "shared", "run.sh"),
    ):
        write_script(root / "tools" / name / run, "#!/bin/sh\n")
    (agent / "tools" / "code-search" / "README.md").write_text("---\ndescription: Finds.\n---\n")
    (agent / "tools" / "empty").mkdir()
    (agent / "tools" / "file.txt").write_text("")
    found = discover(agent, gateway, tmp_path / "gone")

    assert [(each.name, each.folder.parents[1].name) for each in found.programs] == [
        ("code-search", "agent"),
        ("shared", "gateway"),
        ("zip", "agent"),
    ]
    assert found.programs[0].description == "Finds."
    assert found.programs[0].readme == agent / "tools" / "code-search" / "README.md"
    assert found.faults == ()

    # A folder that is no tool is named and hides no other. One broken tool must not take the others
    # with it.
    tools = tmp_path / "tools"
    for name in ("good", "bad name", "two"):
        write_script(tools / name / "run.sh", "#!/bin/sh\n")
    write_script(tools / "two" / "run.py", "#!/bin/sh\n")
    (tools / "plain").mkdir()
    (tools / "plain" / "run.sh").write_text("#!/bin/sh\n")
    (tools / "away").mkdir()
    (tools / "away" / "run").symlink_to("/bin/sh")
    elsewhere = write_script(tmp_path.parent / f"{tmp_path.name}-x" / "run.sh", "#!/bin/sh\n")
    (tools / "afar").symlink_to(elsewhere.parent)
    found = discover(tmp_path)

    assert [each.name for each in found.programs] == ["good"]
    assert [(fault.file.name, fault.message.split(";")[0]) for fault in found.faults] == [
        ("afar", f"{tools}/afar leads out of {tmp_path}"),
        ("away", f"{tools}/away/run leads out of {tmp_path}"),
        ("bad name", "'bad name' is no name for a tool: use up to 64 letters, digits, - and _"),
        ("plain", "run.sh is not an executable file"),
        ("two", "there are several programs (run.py, run.sh)"),
    ]


@table(
    ("text", "said"),
    [
        ("# Title\n\nFinds\ncode.\n\nMore.", "Finds code."),
        ("# Title\nFinds code.", "Finds code."),
        ("---\nname: x\ndescription: Finds.\n---\n# Title\nText", "Finds."),
        ('---\ndescription: "Finds: all."\n---\n', "Finds: all."),
        ("---\ndescription: >\n  Finds\n  code.\nother: x\n---\n", "Finds code."),
        ("---\nname: x\n---\n\nText.", "Text."),
        ("[![badge](x)](y)\n\n<p>html</p>\n\nText.", "Text."),
        ("# Title\r\n\r\nText.\r\n", "Text."),
        ("---\nnever closed", ""),
        ("# Title\n", ""),
        ("", ""),
        # It is sent with every request.
        ("word " * 1000, "word " * 58 + "word…"),
    ],
)
def test_a_summary_is_the_first_thing_that_a_manual_says(text: str, said: str) -> None:
    """It is all that the model knows of a tool until it asks for more."""
    assert summary(text) == said
