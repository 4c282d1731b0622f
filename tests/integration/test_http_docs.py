"""The commands of `docs/http-api.md` do what the page says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import anyio
import pytest
from support.gateway import open_http_gateway

from everturn_gateway.http.problems import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "http-api.md"
_COMMANDS = re.compile(r"```sh\n(.*?)```", re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page's commands are curl's")
async def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    """Readers paste these; the one error among them is the one that the page shows."""
    page = await anyio.Path(PAGE).read_text()
    commands = "\n".join(_COMMANDS.findall(page)).replace("assistant", "test")
    async with open_http_gateway(tmp_path) as gateway:
        script = "set -eu\n" + commands.replace("http://127.0.0.1:8080", gateway.base_url)
        run = await anyio.run_process(["/bin/bash", "-c", script], check=False)
    output = run.stdout.decode()

    assert run.returncode == 0, output + run.stderr.decode()
    assert output.count("urn:everturn:problem:") == 1
    assert "urn:everturn:problem:invalid-input" in output
    assert "preference-applied: respond-async" in output
    assert "idempotent-replayed: true" in output
    assert "event: done" in output
    assert output.count("event: session_started") == 1
    assert '"object":"chat.completion"' in output
    assert "x-everturn-ignored: temperature" in output


async def test_every_route_and_kind_of_problem_is_on_the_page(tmp_path: Path) -> None:
    """What is there and not told cannot be used; what is told and not there misleads."""
    page = await anyio.Path(PAGE).read_text()
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        document = (await client.get("/openapi.json")).json()
    rows = re.findall(r"^\| (\d{3}) \| ([a-z, -]+) \|", page, re.MULTILINE)
    told = {(kind, int(status)) for status, kinds in rows for kind in kinds.split(", ")}

    assert {path for path in document["paths"] if f"{path}`" not in page} == set()
    assert {(name, kind.status) for name, kind in KINDS.items()} - told == {
        ("invalid-request", 400),  # under /v1 alone, where it is a code of OpenAI's errors
        ("model-failed", 502),  # a model's error outside of a turn, which no route lets happen
    }
    assert told - {(name, kind.status) for name, kind in KINDS.items()} == {
        ("not-found", 404),
        ("method-not-allowed", 405),  # both are what HTTP itself names so
    }
