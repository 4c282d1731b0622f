"""An agent reads PDFs and office files as text, and hostile ones cost it one call."""

from __future__ import annotations

from pathlib import Path

import pytest
from anyio import to_thread
from support.documents import docx, locked_pdf, pdf, xlsx
from support.tables import table
from support.tool_configs import config_of
from support.tool_environments import call_tool, tool_environment

from everturn_actors.errors import ToolFailedError
from everturn_actors.ports import Tool, ToolOutput
from everturn_gateway.tools.files import documents
from everturn_gateway.tools.files.tools import file_tools
from everturn_gateway.tools.inbox import keep_in_inbox

PAGES = pdf("The first page", "The second page", "The last page")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The workspace."""
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


def reader(tmp_path: Path) -> Tool:
    """Return the tool `read_file`."""
    return file_tools(tool_environment(tmp_path), read_only=True)[0]


async def read(tmp_path: Path, path: str, **more: object) -> str:
    """Return what the model reads."""
    return (await call_tool(reader(tmp_path), {"path": path, **more})).text


async def test_a_pdf_is_read_by_its_pages(tmp_path: Path, files: Path) -> None:
    """A model that cites has to know the page, and a long paper is read in parts."""
    (files / "a.pdf").write_bytes(PAGES)
    whole = await read(tmp_path, "a.pdf")
    part = await read(tmp_path, "a.pdf", pages="2-")
    one = await read(tmp_path, "a.pdf", pages="2")

    assert "(3 pages; `pages` gives some of them)" in whole
    assert [line.partition("\t")[2] for line in whole.splitlines() if "\t" in line] == [
        "--- page 1 ---",
        "The first page",
        "",
        "--- page 2 ---",
        "The second page",
        "",
        "--- page 3 ---",
        "The last page",
    ]
    assert "page 1 ---" not in part
    assert "The last page" in part
    assert "The second page" in one
    assert "The last page" not in one
    assert "(of 3 pages)" in one


@table(
    ("name", "data", "text"),
    [
        ("a.docx", docx("Dear Ada,", "it is late."), "1\tDear Ada,\n2\t\n3\tit is late."),
        ("A.DOCX", docx("Hello"), "1\tHello"),
        ("a.xlsx", xlsx(("tea", "3"), ("coffee", "0")), "| coffee | 0 |"),
        ("plain.pdf", b"only text\n", "1\tonly text"),
    ],
)
async def test_office_files_are_text(tmp_path: Path, name: str, data: bytes, text: str) -> None:
    """People send what their programs write."""
    files = tmp_path / "files"
    files.mkdir()
    (files / name).write_bytes(data)

    assert text in await read(tmp_path, name)


@table(
    ("name", "data", "more", "why"),
    [
        ("locked.pdf", locked_pdf(), {}, "locked with a password"),
        ("broken.pdf", PAGES[:100], {}, "damaged"),
        ("broken.docx", docx("x")[:-40], {}, "damaged"),
        ("a.pdf", PAGES, {"pages": "9"}, "has 3 pages"),
        ("a.pdf", PAGES, {"pages": "x"}, "write 3, 2-5 or 7-"),
        ("a.pdf", PAGES, {"pages": "3-2"}, "2 comes before 3"),
        ("a.docx", docx("x"), {"pages": "5"}, "pages"),
        ("../a.pdf", PAGES, {}, "workspace"),
    ],
)
async def test_what_cannot_be_read_tells_the_model_why(
    tmp_path: Path, name: str, data: bytes, more: dict[str, str], why: str
) -> None:
    """It can ask for another file, or tell its person what is wrong."""
    files = tmp_path / "files"
    files.mkdir()
    (files / name).write_bytes(data)

    with pytest.raises(ToolFailedError, match=why):
        await read(tmp_path, name, **more)


async def test_a_bomb_costs_one_call(tmp_path: Path, files: Path) -> None:
    """A few kilobytes that unpack to gigabytes must not take the gateway's memory."""
    bomb = await to_thread.run_sync(lambda: docx("x", padding_bytes=2_300_000_000))
    (files / "bomb.docx").write_bytes(bomb)
    (files / "a.pdf").write_bytes(PAGES)

    assert len(bomb) < documents.READ_MAX_BYTES
    with pytest.raises(ToolFailedError, match=r"cannot be read|could not be read"):
        await read(tmp_path, "bomb.docx")
    assert "The last page" in await read(tmp_path, "a.pdf")


async def test_a_document_that_is_too_large_is_not_read(tmp_path: Path, files: Path) -> None:
    """The limit holds before anything is taken apart."""
    with (files / "huge.pdf").open("wb") as file:
        file.write(PAGES)
        file.truncate(documents.READ_MAX_BYTES + 1)

    with pytest.raises(ToolFailedError, match="are the most of a document"):
        await read(tmp_path, "huge.pdf")


async def test_a_document_that_somebody_sent_is_text_from_outside(tmp_path: Path) -> None:
    """A paper can give orders as a page of the web can."""
    site = tool_environment(tmp_path)
    path = await keep_in_inbox(site, config_of("files"), "offer.pdf", PAGES)
    output: ToolOutput = await call_tool(reader(tmp_path), {"path": path})

    assert path == "inbox/offer.pdf"
    assert "The first page" in output.text
    assert output.untrusted
    assert "offer.pdf" in output.source


async def test_without_the_library_the_call_says_what_to_install(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody wants to guess why a file stays closed."""
    monkeypatch.setattr(documents, "find_spec", lambda _: None)
    (files / "a.pdf").write_bytes(PAGES)

    with pytest.raises(ToolFailedError, match=r"pip install 'everturn\[documents\]'"):
        await read(tmp_path, "a.pdf")
