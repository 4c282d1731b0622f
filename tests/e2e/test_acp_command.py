"""`everturn acp`, driven by the official client side of the protocol, as an editor drives it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import anyio
import pytest
from acp import RequestError, image_block, resource_block, text_block
from acp import embedded_text_resource as embedded
from acp.schema import FileEditToolCallContent
from anyio.to_thread import run_sync
from support.command import start, write_agent, write_scripted
from support.editors import Editor, open_editor
from support.json_lines import line, until
from support.patience import WAIT_S
from support.pictures import png
from support.process import gateway_process

DEADLINE_S = WAIT_S
TOOLS = "  tools:\n    - {type: builtin, name: bash}\n    - {type: builtin, name: files}\n"


async def write_helper(folder: Path, text: str) -> None:
    """Write the agent `helper`, with replies or with the built-in responder, and its tools."""
    file = anyio.Path(
        await (run_sync(write_scripted, folder, text) if text else run_sync(write_agent, folder))
    )
    await file.write_text(await file.read_text() + TOOLS)


def call(name: str, **arguments: str) -> str:
    """Return what makes the built-in responder call a tool."""
    return f"call {name} {json.dumps(arguments)}"


async def test_an_editor_talks_sees_calls_and_answers_for_them(tmp_path: Path) -> None:
    """A session as a person has it in an editor: words, an edit, a command, and the past again."""
    await write_helper(tmp_path, "")
    editor, later = Editor(["allow_once", "deny"]), Editor()
    with anyio.fail_after(DEADLINE_S):
        async with open_editor(tmp_path, editor) as agent:
            session = (await agent.new_session(cwd=str(tmp_path))).session_id
            picture = base64.b64encode(png()).decode()
            notes = embedded(uri="file:///p/notes.txt", text="buy milk")
            answered = await agent.prompt(
                session_id=session,
                prompt=[
                    text_block("Look at this."),
                    image_block(picture, "image/png"),
                    resource_block(notes),
                ],
            )
            spoken = editor.said()
            for said in (
                call("write_file", path="a/b.txt", content="hi\n"),
                call("bash", command="touch made"),
                call("bash", command="touch other"),
            ):
                await agent.prompt(session_id=session, prompt=[text_block(said)])
            listed = (await agent.list_sessions(cwd=str(tmp_path))).sessions
            for wrong in ("nobody", "../agents"):
                with pytest.raises(RequestError) as unknown:
                    await agent.load_session(cwd=str(tmp_path), session_id=wrong)
                assert unknown.value.code == -32002
            with pytest.raises(RequestError, match="is not base64"):
                await agent.prompt(session_id=session, prompt=[image_block("%", "image/png")])
        async with open_editor(tmp_path, later, "helper") as agent:
            await agent.load_session(cwd=str(tmp_path), session_id=session)

    root = tmp_path / ".everturn" / "files" / "helper"
    assert answered.stop_reason == "end_turn"
    assert "Look at this." in spoken
    edit, made, refused = editor.calls()
    assert edit.content
    (diff,) = edit.content
    assert isinstance(diff, FileEditToolCallContent)
    assert (diff.path, diff.old_text, diff.new_text) == (str(root / "a/b.txt"), None, "hi\n")
    assert (edit.kind, editor.states(edit)) == ("edit", ["pending", "in_progress", "completed"])
    assert (made.kind, editor.states(made)) == ("execute", ["pending", "in_progress", "completed"])
    assert editor.states(refused) == ["pending", "failed"]
    (asked, options), _ = editor.asked
    assert (asked.tool_call_id, asked.title) == (made.tool_call_id, "bash touch made")
    assert [each.kind for each in options] == ["allow_once", "allow_always", "reject_once"]
    files = await run_sync(lambda: {each.name for each in root.iterdir()})
    assert "made" in files
    assert "other" not in files
    assert [each.session_id for each in listed] == [session]
    assert "buy milk" in later.person()
    assert later.said() == editor.said()
    assert [each.tool_call_id for each in later.calls()] == [
        each.tool_call_id for each in editor.calls()
    ]


async def test_a_to_do_list_is_the_plan(tmp_path: Path) -> None:
    """An editor has a place for it; opened again, the newest list stands there."""
    await write_helper(tmp_path, "")
    file = anyio.Path(tmp_path / "agents" / "helper" / "agent.yaml")
    await file.write_text(await file.read_text() + "    - {type: builtin, name: todo}\n")
    editor, later = Editor(), Editor()
    lists = (
        [{"text": "Boil water", "status": "in_progress"}, {"text": "Brew tea"}],
        [{"text": "Boil water", "status": "done"}, {"text": "Brew tea"}],
        [{"text": ""}],
    )
    with anyio.fail_after(DEADLINE_S):
        async with open_editor(tmp_path, editor) as agent:
            session = (await agent.new_session(cwd=str(tmp_path))).session_id
            for items in lists:
                said = f"call todo {json.dumps({'items': items})}"
                await agent.prompt(session_id=session, prompt=[text_block(said)])
        async with open_editor(tmp_path, later, "helper") as agent:
            await agent.load_session(cwd=str(tmp_path), session_id=session)

    assert editor.plans() == [
        [("Boil water", "in_progress"), ("Brew tea", "pending")],
        [("Boil water", "completed"), ("Brew tea", "pending")],
    ]
    assert later.plans() == editor.plans()
    (wrong,) = editor.calls()
    assert editor.states(wrong)[-1] == "failed"


async def test_a_prompt_is_cancelled_and_outlives_an_editor_that_goes(tmp_path: Path) -> None:
    """Stop means the turn; closing the editor does not."""
    endless = "  - {match: Hello, chunks: [one, two], delay_ms: 600000}\n"
    await write_helper(
        tmp_path, f"replies:\n{endless}  - {{match: Go on, chunks: [one, two], delay_ms: 300}}\n"
    )
    await anyio.Path(tmp_path / "everturn.yaml").write_text("server: {port: 0}\n")
    editor, reasons = Editor(), list[str]()
    with anyio.fail_after(DEADLINE_S):
        async with gateway_process(tmp_path) as gateway, gateway.client() as http:
            async with open_editor(tmp_path, editor) as agent:
                session = (await agent.new_session(cwd=str(tmp_path))).session_id

                async def prompt() -> None:
                    done = await agent.prompt(session_id=session, prompt=[text_block("Hello")])
                    reasons.append(done.stop_reason)

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(prompt)
                    await until(http, session, "turn_started")
                    await agent.cancel(session_id=session)
            async with start("acp", cwd=tmp_path) as running:
                await running.write("[]\n{\n")
                await running.write(line("initialize", {"protocolVersion": 1}))
                shown = await running.until("agentCapabilities")
                prompted = {"sessionId": session, "prompt": [{"type": "text", "text": "Go on"}]}
                await running.write(line("session/prompt", prompted))
                await until(http, session, "turn_started", count=2)
                left = await running.end()
            finished = await until(http, session, "turn_finished", count=2)

    assert reasons == ["cancelled"]
    assert '"code":-32600' in shown
    assert '"code":-32700' in shown
    assert left.code == 0
    assert finished["outcome"] == "answered"
