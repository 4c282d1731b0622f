"""What an agent remembers and what it can look up, over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.gateway import HttpGateway, open_http_gateway

MEMORY = "# Ana\nlikes trains <script>"
SKILL = """---
name: greeting
description: How to greet people
allowed-tools: Bash(echo:*)
---
Say hello first.
"""


def write_knowledge(gateway: HttpGateway) -> None:
    """Give the agent notes of each kind, and a skill."""
    home = gateway.config.agents_dir / "test"
    files = {
        home / "memory" / "MEMORY.md": MEMORY,
        home / "memory" / "daily" / "2026-11-20.md": "first",
        home / "memory" / "daily" / "2026-11-21.md": "second",
        gateway.config.workspace / "memory" / "world" / "people.md": "shared",
        home / "skills" / "greeting" / "SKILL.md": SKILL,
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (home / "memory" / "secret.md").symlink_to("/etc/passwd")


async def test_notes_and_skills_are_read(tmp_path: Path) -> None:
    """As the agent would; nothing that lies elsewhere."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        nothing = (await client.get("/api/v1/agents/test/memory")).json()
        no_skill = (await client.get("/api/v1/agents/test/skills")).json()
        write_knowledge(gateway)
        await gateway.library.reload()
        notes: dict[str, Any] = (await client.get("/api/v1/agents/test/memory")).json()
        skills: dict[str, Any] = (await client.get("/api/v1/agents/test/skills")).json()
        (gateway.config.agents_dir / "test/skills/greeting/SKILL.md").unlink()
        gone = (await client.get("/api/v1/agents/test/skills")).json()
        unknown = [
            (await client.get(f"/api/v1/agents/nobody/{what}")).status_code
            for what in ("memory", "skills")
        ]

    assert (nothing, no_skill) == ({"files": []}, {"skills": []})
    assert [(each["path"], each["text"]) for each in notes["files"]] == [
        ("MEMORY.md", MEMORY),
        ("daily/2026-11-21.md", "second"),
        ("daily/2026-11-20.md", "first"),
        ("world/people.md", "shared"),
    ]
    (skill,) = skills["skills"]
    assert (skill["name"], skill["description"]) == ("greeting", "How to greet people")
    assert skill["instructions"].strip() == "Say hello first."
    assert gone["skills"][0]["error"]
    assert unknown == [404, 404]
