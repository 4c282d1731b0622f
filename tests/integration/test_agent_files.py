"""Files of agents over HTTP: tried, read and replaced, and nothing beyond their folder."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import httpx2
from support.gateway import open_http_gateway
from support.tables import wrong_rows

from everturn_gateway.config.settings import ConsoleConfig, ServerConfig
from everturn_gateway.specs.agent_files import FILE_BYTES_MAX

FILES = "/api/v1/admin/agents/test/files"
VALIDATE = "/api/v1/admin/agents/test/validate"
BAD = "apiVersion: duragent/v1alpha1\nkind: Agent\nmetadata: {name: test}\nspec:\n  modell: {}\n"


@asynccontextmanager
async def editing(
    folder: Path, *, is_open: bool = True, server: ServerConfig | None = None
) -> AsyncGenerator[httpx2.AsyncClient]:
    """Open a gateway, and a client that edits its agent."""
    async with open_http_gateway(folder, server=server) as gateway:
        gateway.config = replace(gateway.config, console=ConsoleConfig(edit_agents=is_open))
        async with gateway.client() as client:
            yield client


async def write(path: Path, text: str) -> None:
    """Write a file of the agent beside the gateway, as an editor does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    await anyio.Path(path).write_text(text)


async def test_a_file_is_read_changed_and_in_force(tmp_path: Path) -> None:
    """The agent that answers next is the new one; a new file needs no version."""
    notes = tmp_path / "agents" / "test" / "docs" / "notes.md"
    async with editing(tmp_path) as client:
        read = await client.get(f"{FILES}/agent.yaml")
        text = read.json()["text"].replace("spec:", "  description: Edited.\nspec:", 1)
        changed = await client.put(
            f"{FILES}/agent.yaml", json={"text": text}, headers={"If-Match": read.headers["etag"]}
        )
        made = await client.put(
            f"{FILES}/docs/notes.md", json={"text": "é\n"}, headers={"If-None-Match": "*"}
        )
        listed = (await client.get(FILES)).json()["files"]
        again = await client.get(f"{FILES}/docs/notes.md")

        # Nobody overwrites what somebody else wrote, by a change, as new, or unread.
        await write(notes, "two")
        body = {"text": "mine"}
        version = {"If-Match": made.headers["etag"]}
        stale = await client.put(f"{FILES}/docs/notes.md", json=body, headers=version)
        new = await client.put(f"{FILES}/docs/notes.md", json=body, headers={"If-None-Match": "*"})
        blind = await client.put(f"{FILES}/docs/notes.md", json=body)

    assert (stale.status_code, new.status_code, blind.status_code) == (412, 412, 428)
    assert await anyio.Path(notes).read_text() == "two"
    assert (read.status_code, changed.status_code, made.status_code) == (200, 200, 200)
    assert (await anyio.Path(tmp_path / "agents/test/agent.yaml").read_text()) == text
    assert listed == ["agent.yaml", "docs/notes.md"]
    assert (again.json()["text"], again.headers["etag"]) == ("é\n", made.headers["etag"])


async def test_what_would_be_wrong_is_told_with_its_line(tmp_path: Path) -> None:
    """Before it stands, and after; the agent goes on as it was."""
    async with editing(tmp_path) as client:
        good = await client.post(VALIDATE, json={"files": {}})
        read = await client.get(f"{FILES}/agent.yaml")
        tried = await client.post(VALIDATE, json={"files": {"agent.yaml": BAD}})
        policy = {"policy.yaml": "apiVersion: duragent/v1alpha1\nkind: Policy\nmode: whatever\n"}
        other = await client.post(VALIDATE, json={"files": policy})
        before = await client.get(f"{FILES}/agent.yaml")
        written = await client.put(
            f"{FILES}/agent.yaml", json={"text": BAD}, headers={"If-Match": read.headers["etag"]}
        )
        agent = await client.get("/api/v1/agents/test")
        standing = await client.post(VALIDATE, json={})

    assert good.json() == {"faults": []}
    assert before.json() == read.json()
    file = str(tmp_path / "agents" / "test" / "agent.yaml")
    for answer in (tried, written, standing):
        assert [file, 5] in [[each["file"], each["line"]] for each in answer.json()["faults"]]
    (fault,) = other.json()["faults"]
    assert fault["file"].endswith("test/policy.yaml")
    assert fault["line"] == 3
    assert agent.status_code == 200


OUTSIDE = [
    "../other/agent.yaml",
    "%2e%2e/other/agent.yaml",
    "..%2fother%2fagent.yaml",
    "%2fetc%2fpasswd",
    "docs/../../x",
    "docs//x",
    ".git/config",
    "out/secret.txt",
    "link.txt",
    "memory/notes.md",
    "a%00b",
    "nothing/",
]


async def test_nothing_outside_of_the_folder_is_read_or_written(tmp_path: Path) -> None:
    """Not by dots, not through links, and not what the agent itself or a program keeps there."""
    folder = tmp_path / "agents" / "test"
    async with editing(tmp_path) as client:
        await write(tmp_path / "elsewhere" / "secret.txt", "secret")
        await write(folder / "memory" / "notes.md", "its own")
        os.symlink(tmp_path / "elsewhere", folder / "out")
        os.symlink(tmp_path / "elsewhere" / "secret.txt", folder / "link.txt")
        before = {each async for each in anyio.Path(tmp_path / "agents").rglob("*")}
        with wrong_rows(len(OUTSIDE)) as row_of:
            for path in OUTSIDE:
                with row_of(path):
                    read = await client.get(f"{FILES}/{path}")
                    wrote = await client.put(
                        f"{FILES}/{path}", json={"text": "x"}, headers={"If-None-Match": "*"}
                    )
                    tried = await client.post(VALIDATE, json={"files": {path: "x"}})
                    listed = (await client.get(FILES)).json()["files"]
                    now = {each async for each in anyio.Path(tmp_path / "agents").rglob("*")}

                    assert read.status_code in {404, 405, 422}
                    assert wrote.status_code in {404, 405, 422}
                    assert tried.status_code in {200, 422}
                    assert listed == ["agent.yaml"]
                    assert now == before
    found = {each.name async for each in anyio.Path(tmp_path).rglob("*") if await each.is_file()}

    assert await anyio.Path(tmp_path / "elsewhere" / "secret.txt").read_text() == "secret"
    assert await anyio.Path(folder / "memory" / "notes.md").read_text() == "its own"
    assert {"x", "passwd", "config"}.isdisjoint(found)


async def test_what_is_no_text_or_a_secret_is_not_shown(tmp_path: Path) -> None:
    """Too large, not UTF-8, or with a secret in it, which could not be written back masked."""
    folder = tmp_path / "agents" / "test"
    secret = "mcp: {servers: [{env: {API_KEY: sk-12345678}}]}\n"
    async with editing(tmp_path) as client:
        await write(folder / "large.md", "x" * (FILE_BYTES_MAX + 1))
        await anyio.Path(folder / "image.png").write_bytes(b"\x89PNG\xff")
        await write(folder / "tools.yaml", secret)
        answers = [
            await client.get(f"{FILES}/{name}") for name in ("large.md", "image.png", "tools.yaml")
        ]
        forced = await client.put(
            f"{FILES}/tools.yaml", json={"text": ""}, headers={"If-Match": '"x"'}
        )
        grown = await client.put(
            f"{FILES}/new.md",
            json={"text": "x" * (FILE_BYTES_MAX + 1)},
            headers={"If-None-Match": "*"},
        )

    assert [each.status_code for each in (*answers, forced, grown)] == [422] * 5
    assert not any("sk-12345678" in each.text for each in (*answers, forced))


async def test_it_is_closed_until_somebody_opens_it(tmp_path: Path) -> None:
    """Whoever writes an agent runs programs. To validate what stands reads alone."""
    async with editing(tmp_path, is_open=False) as client:
        validated = await client.post(VALIDATE, json={})
        answers = [
            await client.post(VALIDATE, json={"files": {"agent.yaml": BAD}}),
            await client.get(FILES),
            await client.get(f"{FILES}/agent.yaml"),
            await client.put(f"{FILES}/agent.yaml", json={"text": BAD}),
        ]
        unknown = await client.post("/api/v1/admin/agents/nobody/validate", json={})

    assert (validated.status_code, unknown.status_code) == (200, 404)
    assert [each.status_code for each in answers] == [403] * 4
    assert "edit_agents" in answers[1].json()["detail"]


async def test_an_agent_with_faults_from_the_start_is_mended(tmp_path: Path) -> None:
    """It has no version that works, and its file is still there to be put right."""
    await write(tmp_path / "agents" / "broken" / "agent.yaml", BAD.replace("test", "broken"))
    path = "/api/v1/admin/agents/broken/files/agent.yaml"
    async with editing(tmp_path) as client:
        read = await client.get(path)
        good = read.json()["text"].replace(
            "modell: {}", "model: {provider: builtin, name: builtin}"
        )
        written = await client.put(
            path, json={"text": good}, headers={"If-Match": read.headers["etag"]}
        )
        agent = await client.get("/api/v1/agents/broken")

    assert (read.status_code, written.json()["faults"], agent.status_code) == (200, [], 200)
