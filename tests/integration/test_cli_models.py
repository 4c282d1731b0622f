"""`everturn model`, and where else it is told what refusals taught of a model."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
from support.command import everturn, start, write_agent

from everturn_gateway.clock import SystemClock

KEY = {"OPENAI_API_KEY": "sk-test"}
READY = "Ctrl-C stops it."
SAID = "gpt-5 at https://api.openai.com: maximum context length is 8192 tokens"


def models_file(folder: Path) -> Path:
    """Return the file with what was learnt."""
    return folder / ".everturn" / "models.json"


def write(folder: Path) -> None:
    """Write an agent, and a workspace that learnt something of its model yesterday."""
    write_agent(folder, provider="openai", model="gpt-5")
    models_file(folder).parent.mkdir(mode=0o700)
    observed_at = SystemClock().now() - timedelta(hours=1)
    hint = {
        "said": SAID,
        "learnt_at": observed_at.isoformat(),
        "expires_at": (observed_at + timedelta(hours=24)).isoformat(),
        "times": 1,
    }
    entry: dict[str, Any] = {
        "scale": 1.1,
        "reports": 3,
        "units": 50_000,
        "window_tokens": None,
        "proven_tokens": 5_000,
        "learnt_at": datetime(2026, 1, 1, tzinfo=UTC).isoformat(),
    }
    models = {
        "openai/gpt-5": {**entry, "limit": {**hint, "tokens": 8_192}},
        "openai/gpt-5 at host:8000/v1": {**entry, "no_tools": {**hint, "tokens": 0}},
        "ollama/other": {**entry, "proven_tokens": 0},
    }
    models_file(folder).write_text(json.dumps({"version": 1, "models": models}))


def add_tokenizer(agent: Path) -> None:
    """Let an agent's prompts be counted by a file beside it."""
    agent.with_name("tokenizer.json").write_text("{}")
    told = agent.read_text()
    agent.write_text(told.replace("name: gpt-5", "name: gpt-5\n    tokenizer: tokenizer.json"))


def limits(folder: Path) -> dict[str, tuple[bool, bool]]:
    """Return of which models the file holds a limit, and refused tools."""
    held = json.loads(models_file(folder).read_text())["models"]
    return {
        name: (each.get("limit") is not None, each.get("no_tools") is not None)
        for name, each in held.items()
    }


async def test_what_was_learnt_is_shown_and_told_where_an_agent_is_looked_at(
    tmp_path: Path,
) -> None:
    """Whoever wonders at a small window finds the reason without a running gateway."""
    write(tmp_path)
    before = models_file(tmp_path).read_bytes()
    listed = await everturn("model", "list", cwd=tmp_path, env=KEY)
    shown = await everturn("model", "show", "gpt-5", cwd=tmp_path, env=KEY)
    unknown = await everturn("model", "show", "gpt-9", cwd=tmp_path, env=KEY)
    agent = await everturn("agent", "show", "helper", cwd=tmp_path, env=KEY)
    document = await everturn("agent", "show", "helper", "--json", cwd=tmp_path, env=KEY)
    doctor = await everturn("doctor", cwd=tmp_path, env=KEY)
    add_tokenizer(tmp_path / "agents" / "helper" / "agent.yaml")
    exact = await everturn("model", "show", "openai/gpt-5", cwd=tmp_path, env=KEY)

    assert shown.out.count("near the edge of the window by its provider, where") == 2
    assert exact.out.count("by an estimate; near the edge of the window exactly, by tok") == 1
    assert "tokenizer.json of helper" in exact.out
    assert listed.out.count("openai/gpt-5") == 2
    assert "8,192 until " in listed.out
    assert SAID in shown.out
    assert "openai/gpt-5 at host:8000/v1" in shown.out
    assert (unknown.code, len(unknown.err.splitlines())) == (2, 1)
    assert "window       8,192 tokens" in agent.out
    assert "`everturn model forget openai/gpt-5`" in agent.out
    assert json.loads(document.out)["window_tokens"] == 8_192
    assert "helper: the window counts as 8,192 tokens, not 400,000" in doctor.out
    assert models_file(tmp_path).read_bytes() == before


async def test_it_is_forgotten_for_the_model_and_address_that_are_named(tmp_path: Path) -> None:
    """The rest stays: other addresses, and what was measured."""
    write(tmp_path)
    there = await everturn(
        "model", "forget", "gpt-5", "--endpoint", "http://host:8000/v1", cwd=tmp_path, env=KEY
    )
    after_there = limits(tmp_path)
    everywhere = await everturn("model", "forget", cwd=tmp_path, env=KEY)
    nothing = await everturn("model", "forget", "openai/gpt-5", cwd=tmp_path, env=KEY)
    agent = await everturn("agent", "show", "helper", cwd=tmp_path, env=KEY)

    assert there.out == "forgotten: openai/gpt-5 at host:8000/v1: that it refused tools\n"
    assert after_there["openai/gpt-5"] == (True, False)
    assert everywhere.out == "forgotten: openai/gpt-5: the limit of 8,192 tokens\n"
    assert (nothing.code, nothing.out) == (1, "there is nothing to forget\n")
    assert set(limits(tmp_path).values()) == {(False, False)}
    assert json.loads(models_file(tmp_path).read_text())["models"]["openai/gpt-5"]["reports"] == 3
    assert "window       400,000 tokens" in agent.out


async def test_a_running_gateway_forgets_at_once(tmp_path: Path) -> None:
    """It has the truth in memory, and would write it over what a command wrote."""
    write(tmp_path)
    (tmp_path / "everturn.yaml").write_text(
        "server: {port: 0, api_token: user-token-0123456789, admin_token: admin-token-01234567}\n"
    )
    async with start("serve", cwd=tmp_path, env=KEY) as running:
        await running.until(READY)
        url = json.loads((tmp_path / ".everturn" / "gateway.json").read_text())["url"]
        async with httpx2.AsyncClient(base_url=url, timeout=30) as http:
            bearer = {"Authorization": "Bearer user-token-0123456789"}
            refused = await http.delete("/api/v1/admin/models", headers=bearer)
            metrics = (await http.get("/metrics", headers=bearer)).text
        listed = await everturn("model", "list", "--json", cwd=tmp_path, env=KEY)
        done = await everturn("model", "forget", "gpt-5", cwd=tmp_path, env=KEY)
        after = await everturn("model", "list", "--json", cwd=tmp_path, env=KEY)
        running.process.send_signal(signal.SIGTERM)
        await running.end()

    assert refused.status_code == 403
    assert 'everturn_model_observed_limit_tokens{model="openai/gpt-5"} 8192.0' in metrics
    assert 'everturn_model_tools_refused{model="openai/gpt-5 at host:8000/v1"} 1.0' in metrics
    held = {each["model"]: each["limit"] for each in json.loads(listed.out)}
    assert held["openai/gpt-5"]["tokens"] == 8_192
    assert held["openai/gpt-5"]["in_force"] is True
    assert len(done.out.splitlines()) == 2
    assert [each["limit"] for each in json.loads(after.out)] == [None, None, None]
    assert set(limits(tmp_path).values()) == {(False, False)}
