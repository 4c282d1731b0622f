"""`everturn token`, and what other commands do with one, beside a running gateway."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
from support.command import everturn, start, write_agent

READY = "Ctrl-C stops it."
ENV = {"EVERTURN_API_TOKEN": "a-token-of-the-configuration-0123456789"}


def guarded(folder: Path) -> None:
    """Write an agent, and a configuration in which everybody needs a token."""
    write_agent(folder)
    (folder / "everturn.yaml").write_text('server: {api_token: "${EVERTURN_API_TOKEN:-}"}\n')


async def test_a_token_is_made_used_and_revoked_while_the_gateway_runs(tmp_path: Path) -> None:
    """Nothing is restarted; what a person may with a token, its commands may, and no more."""
    guarded(tmp_path)
    made = await everturn(
        *("token", "create", "alice", "--scope", "talk", "--expires", "10d"), cwd=tmp_path
    )
    token = made.out.strip()
    async with start("serve", "--port", "0", cwd=tmp_path, env=ENV) as running:
        await running.until(READY)
        url = json.loads((tmp_path / ".everturn" / "gateway.json").read_text())["url"]
        alice = {"EVERTURN_TOKEN": token}
        ours = await everturn("run", "1+1", "--json", cwd=tmp_path, env=ENV)
        hers = await everturn("run", "2+2", "--json", cwd=tmp_path, env=alice)
        listed = await everturn("sessions", "list", "--json", cwd=tmp_path, env=alice)
        bob = await everturn("token", "create", "bob", "--scope", "read", "--json", cwd=tmp_path)
        his = {"EVERTURN_TOKEN": json.loads(bob.out)["token"]}
        session = json.loads(hers.out)["session_id"]
        unseen = await everturn("sessions", "show", session, cwd=tmp_path, env=his)
        given = await everturn("sessions", "share", session, "bob", cwd=tmp_path, env=alice)
        seen = await everturn("sessions", "show", session, cwd=tmp_path, env=his)
        forbidden = await everturn("sessions", "delete", session, "-y", cwd=tmp_path, env=alice)
        table = await everturn("token", "list", cwd=tmp_path)
        spent = await everturn("usage", "--principal", "nobody", cwd=tmp_path)
        revoked = await everturn("token", "revoke", "alice", cwd=tmp_path)
        async with httpx2.AsyncClient(base_url=url, timeout=30) as http:
            after = await http.get("/version", headers={"Authorization": f"Bearer {token}"})
        refused = await everturn("sessions", "list", cwd=tmp_path, env=alice)

    assert (made.code, token.startswith("evt_"), "alice may talk" in made.err) == (0, True, True)
    assert (ours.code, hers.code) == (0, 0), hers.err
    assert [row["session_id"] for row in json.loads(listed.out)] == [session]
    assert (unseen.code, seen.code, given.code) == (2, 0, 0), seen.err
    assert given.out.endswith("is shared with: bob\n")
    assert forbidden.code == 2
    assert "operate" in forbidden.err
    assert token not in table.out
    assert spent.out == "no model was called for nobody in the last 7 days\n"
    assert revoked.out == "revoked: alice\n"
    assert after.status_code == 401
    assert refused.code == 2
    assert "EVERTURN_TOKEN" in refused.err
    assert token not in refused.err


async def test_the_doctor_names_tokens_to_look_at(tmp_path: Path) -> None:
    """A token that nobody uses, or that ends tomorrow, is told before it hurts."""
    guarded(tmp_path)
    for arguments in (
        ("soon", "--scope", "read", "--expires", "3d"),
        ("forever", "--scope", "operate", "--agent", "gone"),
        ("fine", "--scope", "talk", "--expires", "90d"),
    ):
        assert (await everturn("token", "create", *arguments, cwd=tmp_path)).code == 0
    wrong = [
        await everturn("token", "create", *arguments, cwd=tmp_path)
        for arguments in (
            ("fine", "--scope", "talk"),
            ("Local", "--scope", "talk"),
            ("schedule", "--scope", "talk"),
            ("x", "--scope", "all"),
            ("x", "--scope", "admin", "--agent", "helper"),
            ("x", "--scope", "talk", "--expires", "never"),
        )
    ]
    file = tmp_path / ".everturn" / "principals" / "tokens.json"
    kept = json.loads(file.read_text())
    for record in kept["tokens"]:
        record["created_at"] = "2026-01-01T00:00:00.000000Z"
    file.write_text(json.dumps(kept))
    file.chmod(0o644)
    told = await everturn("doctor", "--repair", cwd=tmp_path)
    lines = [line.split(maxsplit=2)[2] for line in told.out.splitlines() if " token " in line]

    assert [each.code for each in wrong] == [2] * len(wrong)
    assert any(line.startswith("soon: expires at ") for line in lines)
    assert "forever: never expires, and may operate" in lines
    assert "forever: there is no agent 'gone'" in lines
    assert any(line.startswith("fine: never used since ") for line in lines)
    assert any("require_token" in line for line in lines)
    assert f"{file} is now 0600" in told.out
