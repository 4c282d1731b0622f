"""An agent sends files of its workspace: what the model is told, and what is kept for people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.tables import table
from support.tool_environments import call_tool, tool_environment

from everturn_actors.errors import ToolFailedError
from everturn_actors.ports import ToolOutput
from everturn_actors.state.validation import ATTACHMENT_BYTES
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.files.sending import send_file_tool
from everturn_gateway.tools.policy import GuardedTool, Policy

PNG = b"\x89PNG\r\n\x1a\nrest"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The workspace."""
    return workspace_in(tmp_path)


def workspace_in(folder: Path) -> Path:
    """Make a workspace."""
    files = folder / "files"
    files.mkdir()
    return files


async def send(tmp_path: Path, path: str) -> ToolOutput:
    """Call the tool, behind the guard that stands before all tools."""
    tool = send_file_tool(tool_environment(tmp_path))
    behind = GuardedTool(tool, agent="test", secrets=SecretRegistry(), policy=Policy())
    return await call_tool(behind, {"path": path})


@table(
    ("name", "data", "media_type"),
    [
        ("report.pdf", b"%PDF-1.7", "application/pdf"),
        ("chart.dat", PNG, "image/png"),
        ("fake.png", b"no picture", "application/octet-stream"),
        ("logs.txt.gz", b"\x1f\x8b", "application/octet-stream"),
    ],
)
async def test_a_file_goes_to_the_people_with_its_name_and_its_true_type(
    tmp_path: Path, name: str, data: bytes, media_type: str
) -> None:
    """A platform shows a picture as one; a file that only claims to be one would be refused."""
    files = workspace_in(tmp_path)
    (files / name).write_bytes(data)
    output = await send(tmp_path, name)

    assert output.text == f"sent {name} ({len(data)} bytes)"
    [sent] = output.files
    assert (sent.file_name, sent.media_type, sent.data) == (name, media_type, data)


async def test_several_files_go_as_one(tmp_path: Path, files: Path) -> None:
    """Each once; where one of them cannot be sent, none is."""
    for name in ("a.txt", "b.txt"):
        (files / name).write_text(name)
    tool = send_file_tool(tool_environment(tmp_path))
    output = await call_tool(tool, {"path": "a.txt", "more_paths": ["b.txt", "a.txt"]})
    with pytest.raises(ToolFailedError, match="missing"):
        await call_tool(tool, {"path": "a.txt", "more_paths": ["missing"]})

    assert output.text == "sent a.txt (5 bytes), b.txt (5 bytes)"
    assert [each.file_name for each in output.files] == ["a.txt", "b.txt"]


@table(
    ("path", "why"),
    [
        ("../secret.txt", "workspace"),
        ("link.txt", "workspace"),
        ("empty.txt", "is empty"),
        ("huge.bin", "are the most"),
        ("missing.txt", "missing"),
        (".", "folder"),
    ],
)
async def test_what_cannot_be_sent_tells_the_model_why(tmp_path: Path, path: str, why: str) -> None:
    """Nothing outside the workspace leaves by a name, and the model can do better."""
    files = workspace_in(tmp_path)
    (tmp_path / "secret.txt").write_text("secret")
    (files / "link.txt").symlink_to(tmp_path / "secret.txt")
    (files / "empty.txt").touch()
    with (files / "huge.bin").open("wb") as huge:
        huge.truncate(ATTACHMENT_BYTES + 1)

    with pytest.raises(ToolFailedError, match=why):
        await send(tmp_path, path)


def test_the_definition_is_short(tmp_path: Path) -> None:
    """It is sent with every request."""
    definition = send_file_tool(tool_environment(tmp_path)).definition

    assert len(json.dumps(dict(definition.parameters)) + definition.description) < 300
