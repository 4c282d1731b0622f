"""Files of a person at a terminal: `run --attach`, and `/attach` in a chat."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from support.command import everturn, write_agent
from support.model_api import ModelApi, open_model_api
from support.pictures import png
from support.tables import table

from everturn_actors.errors import InvalidInputError
from everturn_actors.state.validation import ATTACHMENT_BYTES
from everturn_channels.terminal.attachments import Basket, read_upload

KEY = {"OPENAI_API_KEY": "sk-test"}
CAT = base64.b64encode(png(1))


def write_files(folder: Path, api: ModelApi) -> None:
    """Write an agent that asks `api`, a picture and a text."""
    write_agent(folder, provider="openai", model="fake-1", base_url=api.url)
    (folder / "my cat.png").write_bytes(png(1))
    (folder / "notes.txt").write_text("buy milk", encoding="utf-8")


async def test_run_sends_files_with_its_message(tmp_path: Path) -> None:
    """A script asks about a picture in one line; the message may be the picture alone."""
    async with open_model_api() as api:
        write_files(tmp_path, api)
        files = ("--attach", "my cat.png", "--attach", "notes.txt")
        done = await everturn("run", "who?", *files, cwd=tmp_path, env=KEY)
        alone = await everturn("run", "", "--attach", "my cat.png", cwd=tmp_path, env=KEY)
        bodies = [request.body for request in api.requests if CAT in request.body]

    assert (done.code, done.err) == (0, "")
    assert (alone.code, alone.err) == (0, "")
    assert len(bodies) == 2
    assert b"[attached: notes.txt, text/plain, 8 bytes]" in bodies[0]


@table(
    ("path", "why"), [("none.png", "there is none"), (".", "it is no file")], ids=["none", "folder"]
)
async def test_a_file_that_cannot_be_sent_is_bad_input(tmp_path: Path, path: str, why: str) -> None:
    """The error names the file, and no session is begun for nothing."""
    write_agent(tmp_path)
    done = await everturn("run", "who?", "--attach", path, cwd=tmp_path)
    listed = await everturn("sessions", "list", "--json", cwd=tmp_path)

    assert done.code == 2
    assert f"{path}: {why}" in done.err
    assert '"id"' not in listed.out


async def test_chat_takes_files_before_the_message(tmp_path: Path) -> None:
    """They go with the next message alone, and can be put back."""
    typed = b"/attach notes.txt\n/attach\n/attach 'my cat.png'\nwho?\n/attach none\nand now?\n"
    async with open_model_api() as api:
        write_files(tmp_path, api)
        done = await everturn("chat", cwd=tmp_path, env=KEY, stdin=typed)
        first, second = (r.body for r in api.requests if b'"messages"' in r.body)

    assert "(goes with your next message: my cat.png)" in done.out
    assert "(1 put back)" in done.out
    assert "none: there is none" in done.out
    assert CAT in first
    assert b"notes.txt" not in first
    assert second.count(CAT) == 1


async def test_files_are_read_with_what_they_are(tmp_path: Path) -> None:
    """Bytes tell more than endings do; and nothing larger than allowed is held in memory."""
    (tmp_path / "photo").write_bytes(png())
    (tmp_path / "page.html").write_text("<p>", encoding="utf-8")
    (tmp_path / "fake.png").write_text("<p>", encoding="utf-8")
    with (tmp_path / "large.bin").open("wb") as large:
        large.truncate(ATTACHMENT_BYTES * 4)
    photo = await read_upload(str(tmp_path / "photo"))
    page = await read_upload(f' "{tmp_path / "page.html"}" ')

    assert (photo.media_type, photo.file_name) == ("image/png", "photo")
    assert (page.media_type, page.file_name) == ("text/html", "page.html")
    for name, why in (("fake.png", "no such image"), ("large.bin", "at most"), ("a\0b", "a\0b")):
        with pytest.raises(InvalidInputError, match=why):
            await read_upload(str(tmp_path / name))


async def test_a_basket_holds_no_more_than_a_message_may(tmp_path: Path) -> None:
    """The eleventh file is refused when it is named, not when the message is sent."""
    file = tmp_path / "a.txt"
    file.write_text("a", encoding="utf-8")
    basket = Basket()
    for _ in range(10):
        await basket.obey(str(file))
    with pytest.raises(InvalidInputError, match="at most 10"):
        await basket.obey(str(file))

    assert len(basket.uploads) == 10
