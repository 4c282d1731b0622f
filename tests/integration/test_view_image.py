"""An agent looks at images of its workspace: what the model is shown, and what it is told."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import pytest
from anyio import to_thread
from PIL import Image
from support.pictures import PNG_TYPE, png
from support.tables import table
from support.tool_environments import call_tool, tool_environment

from everturn_actors.context.render import render
from everturn_actors.errors import ToolFailedError
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import IncomingMessage, Reply, ToolCall, ToolResult, Upload
from everturn_actors.ports import ToolOutput
from everturn_actors.state.recovery import recover
from everturn_actors.state.validation import sniffed
from everturn_actors.testing import ScriptedProvider, TestService, make_spec, open_test_service
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.images import scaling
from everturn_gateway.tools.images.viewing import READ_BYTES, view_image_tool
from everturn_gateway.tools.policy import GuardedTool, Policy


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The workspace."""
    return workspace_in(tmp_path)


def workspace_in(folder: Path) -> Path:
    """Make a workspace."""
    files = folder / "files"
    files.mkdir()
    return files


def drawn(width: int, height: int, *, kind: str, mode: str = "RGB") -> bytes:
    """Return an image of noise: nothing makes it small."""
    sink = io.BytesIO()
    Image.effect_noise((width, height), 100).convert(mode).save(sink, kind)
    return sink.getvalue()


async def view(tmp_path: Path, path: str) -> ToolOutput:
    """Call the tool, behind the guard that stands before all tools."""
    tool = view_image_tool(tool_environment(tmp_path))
    behind = GuardedTool(tool, agent="test", secrets=SecretRegistry(), policy=Policy())
    return await call_tool(behind, {"path": path})


@table(("name", "data"), [("dot.png", png()), ("odd.dat", png(7))])
async def test_an_image_that_fits_is_shown_as_it_is(tmp_path: Path, name: str, data: bytes) -> None:
    """A screenshot of text must not become unreadable on the way."""
    files = workspace_in(tmp_path)
    (files / name).write_bytes(data)
    output = await view(tmp_path, name)

    assert output.text == f"{name}: 1 x 1 pixels, {len(data)} bytes"
    assert [(each.data, each.file_name) for each in output.images] == [(data, name)]
    assert output.files == ()


@table(
    ("data", "kind"),
    [
        (drawn(2000, 100, kind="PNG"), "image/jpeg"),
        (drawn(1600, 60, kind="PNG", mode="RGBA"), "image/jpeg"),
        (drawn(300, 200, kind="BMP"), "image/jpeg"),
        (drawn(200, 300, kind="TIFF", mode="L"), "image/png"),
    ],
)
async def test_what_models_do_not_take_is_made_one_that_they_do(
    tmp_path: Path, data: bytes, kind: str
) -> None:
    """A provider refuses what is too large or of another kind, and the turn would be lost."""
    files = workspace_in(tmp_path)
    (files / "large").write_bytes(data)
    output = await view(tmp_path, "large")
    [shown] = output.images

    assert output.text.endswith("shown smaller")
    assert len(shown.data) <= scaling.LIMIT_BYTES
    with Image.open(io.BytesIO(shown.data)) as image:
        assert max(image.size) <= scaling.SIDE_PIXELS
    assert sniffed(shown.data) in {kind, "image/png"}


async def test_an_image_that_lies_on_its_side_is_turned(tmp_path: Path, files: Path) -> None:
    """Telephones write down how they were held; models do not look there."""
    sink, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (80, 40)).save(sink, "JPEG", exif=exif)
    (files / "photo.jpg").write_bytes(sink.getvalue())
    [shown] = (await view(tmp_path, "photo.jpg")).images

    with Image.open(io.BytesIO(shown.data)) as image:
        assert image.size == (40, 80)


@table(
    ("path", "why"),
    [
        ("../secret.png", "workspace"),
        ("link.png", "workspace"),
        ("notes.txt", "no image"),
        ("broken.png", "damaged"),
        ("bomb.png", "too many pixels"),
        ("huge.png", "are the most"),
        ("missing.png", "missing"),
        (".", "folder"),
    ],
)
async def test_what_cannot_be_shown_tells_the_model_why(
    tmp_path: Path, path: str, why: str
) -> None:
    """Nothing outside the workspace is seen by a name, and no file brings the gateway down."""
    files = workspace_in(tmp_path)
    (tmp_path / "secret.png").write_bytes(png())
    (files / "link.png").symlink_to(tmp_path / "secret.png")
    (files / "notes.txt").write_text("no picture")
    (files / "broken.png").write_bytes(drawn(300, 300, kind="PNG")[:20_000])
    head = struct.pack(">4sIIBBBBB", b"IHDR", 50_000, 50_000, 8, 0, 0, 0, 0)
    chunk = struct.pack(">I", len(head) - 4) + head + struct.pack(">I", zlib.crc32(head))
    (files / "bomb.png").write_bytes(png()[:8] + chunk + png()[33:])
    with (files / "huge.png").open("wb") as huge:
        huge.truncate(READ_BYTES + 1)

    with pytest.raises(ToolFailedError, match=why):
        await view(tmp_path, path)


async def test_an_image_that_somebody_sent_is_text_from_outside(
    tmp_path: Path, files: Path
) -> None:
    """Words in a picture can give orders as words in a file can."""
    (files / "sent.png").write_bytes(png())
    site = tool_environment(tmp_path)

    def mark() -> None:
        with (files / "sent.png").open("rb") as file:
            site.marks.mark(file.fileno(), sources=("the page https://evil.example",))

    await to_thread.run_sync(mark)
    output = await call_tool(view_image_tool(site), {"path": "sent.png"})

    assert output.untrusted
    assert output.source == "the file sent.png, with text from: the page https://evil.example"


async def test_without_the_library_small_images_are_shown(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever did not install it can look at most screenshots, and is told how to see the rest."""
    monkeypatch.setattr(scaling, "find_spec", lambda _: None)
    (files / "dot.png").write_bytes(png())
    (files / "photo.bmp").write_bytes(drawn(30, 20, kind="BMP"))
    output = await view(tmp_path, "dot.png")

    assert [each.data for each in output.images] == [png()]
    with pytest.raises(ToolFailedError, match=r"pip install 'everturn\[images\]'"):
        await view(tmp_path, "photo.bmp")


# --- in a conversation ---


def looking(number: int) -> Reply:
    """Return a reply that looks at one image."""
    arguments = f'{{"path": "{number}.png"}}'
    call = ToolCall(call_id=f"c{number}", name="view_image", arguments=arguments)
    return Reply(calls=(call,), stop_reason="tool_calls")


def asking(test: TestService, text: str) -> IncomingMessage:
    """Return a message for the conversation of the test."""
    return IncomingMessage(text=text, key=test.key())


async def test_the_next_request_and_those_after_a_restart_show_the_image(
    tmp_path: Path, files: Path
) -> None:
    """The image belongs to the conversation: the log alone gives the same request again."""
    (files / "1.png").write_bytes(png(1))
    tools = {"view_image": view_image_tool(tool_environment(tmp_path))}
    provider = ScriptedProvider(looking(1), "a dot")
    async with (
        open_file_store(tmp_path / "store") as store,
        open_test_service(store=store, tools=tools, provider=provider) as test,
    ):
        first = await test.service.submit(asking(test, "what is in 1.png?"))
        await first.result()
        shown = provider.requests[1]
    async with (
        open_file_store(tmp_path / "store") as store,
        open_test_service(store=store, tools=tools) as test,
    ):
        await (await test.service.submit(asking(test, "and its colour?"))).result()
        again = test.provider.requests[0]
        loaded = await store.load(first.session_id)
        events = await store.read(first.session_id, after=0, limit=100)
    assert loaded is not None
    recovered, from_zero = recover(loaded.snapshot, loaded.events), recover(None, events)
    assert recovered is not None
    assert from_zero is not None

    assert [*shown.media.values()] == [*again.media.values()] == [png(1)]
    [result] = [m for m in shown.messages if isinstance(m, ToolResult)]
    assert [(a.media_type, a.file_name) for a in result.attachments] == [(PNG_TYPE, "1.png")]
    assert again.messages[: len(shown.messages)] == shown.messages
    assert (
        render(recovered.state.conversation, make_spec()).request
        == render(from_zero.state.conversation, make_spec()).request
    )


async def test_a_result_that_shows_what_is_no_image_is_an_error_to_the_model() -> None:
    """A tool of somebody else's makes a mistake; the provider must not be sent it."""

    class Odd:
        definition = view_image_tool(tool_environment()).definition
        capabilities = view_image_tool(tool_environment()).capabilities

        async def run(self, _call: ToolCall, _context: object) -> ToolOutput:
            return ToolOutput(text="look", images=(Upload(data=b"%PDF-1.7", file_name="a.pdf"),))

    provider = ScriptedProvider(looking(1), "oh")
    async with open_test_service(tools={"view_image": Odd()}, provider=provider) as test:
        await (await test.service.submit(asking(test, "look"))).result()

    [result] = [m for m in provider.requests[1].messages if isinstance(m, ToolResult)]
    assert (result.is_error, result.attachments) == (True, ())
    assert "'a.pdf'" in result.text
    assert "image/png" in result.text
