"""What is run from elsewhere: who is let in, looks at channels, the log, and the live states."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from urllib.parse import quote

import httpx2
from support.gateway import open_http_gateway
from support.logging_to import logging_to

from everturn_actors.journal.keyed import FileKeyedStore
from everturn_channels.access.pairing import PENDING_KEY
from everturn_channels.adapter import Person
from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.logs import RecentLog, SecretRegistry

USER, ADMIN = "u" * 40, "a" * 40
SERVER = ServerConfig(api_token=USER, admin_token=ADMIN)
PAIRING = "/api/v1/pairing"
ACTS = "/api/v1/admin/pairing"
LOG = "/api/v1/admin/log"
EVIL = "Ann <b>\u202e"


def kind(answer: httpx2.Response) -> str:
    """Return which problem an answer is."""
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["type"]).rpartition(":")[2]


# --- pairing ---


async def test_a_stranger_is_let_in_and_out_again(tmp_path: Path) -> None:
    """The whole way over HTTP; what the bot asks at the next message is what was decided."""
    async with (
        open_http_gateway(tmp_path, server=SERVER) as gateway,
        gateway.client(token=ADMIN) as admin,
    ):
        odd = Person(id="@ann:example.org", name=EVIL)
        code = await gateway.pairing.ask("matrix", odd)
        listed = (await admin.get(PAIRING)).json()
        let_in = await admin.post(f"{ACTS}/approve", json={"code": str(code).lower()})
        again = await admin.post(f"{ACTS}/approve", json={"code": code})
        is_in = await gateway.pairing.is_paired("matrix", odd.id)
        known = (await admin.get(PAIRING)).json()
        path = f"{ACTS}/matrix/{quote(odd.id, safe='')}"
        out, twice = await admin.delete(path), await admin.delete(path)
        is_out = not await gateway.pairing.is_paired("matrix", odd.id)

    (waiting,) = listed["waiting"]
    assert (waiting["code"], waiting["sender"], waiting["channel"]) == (code, odd.id, "matrix")
    assert waiting["name"].startswith("Ann <b>")
    assert let_in.json()["sender"] == again.json()["sender"] == odd.id
    assert is_in
    assert known["waiting"] == []
    assert [(each["sender"], each["by"]) for each in known["approved"]] == [
        (odd.id, "http:admin_token")
    ]
    assert (out.status_code, twice.status_code, kind(twice)) == (204, 404, "unknown-pairing")
    assert is_out


async def test_somebody_who_was_turned_away_gets_no_other_code(tmp_path: Path) -> None:
    """Not by asking again, and not by the gateway's restart; others do."""
    ann, bob = Person(id="7", name="Ann"), Person(id="8", name="Bob")
    async with (
        open_http_gateway(tmp_path) as gateway,
        gateway.client() as client,
    ):
        code = await gateway.pairing.ask("telegram", ann)
        denied = await client.post(f"{ACTS}/deny", json={"code": code})
        again = await gateway.pairing.ask("telegram", ann)
        listed = (await client.get(PAIRING)).json()
        unknown = await client.post(f"{ACTS}/deny", json={"code": "nothing"})
        no_code = await client.post(f"{ACTS}/deny", json={})
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        later = await gateway.pairing.ask("telegram", ann)
        other = await gateway.pairing.ask("telegram", bob)
        # Damaged on disk: not as if nobody waited.
        await FileKeyedStore(gateway.config.workspace).put(PENDING_KEY, b"[")
        damaged = await client.get(PAIRING)

    assert denied.json()["name"] == "Ann"
    assert (again, later) == (None, None)
    assert other is not None
    assert listed["waiting"] == []
    assert (unknown.status_code, kind(unknown)) == (404, "unknown-pairing")
    assert no_code.status_code == 422
    assert (damaged.status_code, kind(damaged)) == (507, "not-written")


async def test_the_administration_is_for_the_admin_token(tmp_path: Path) -> None:
    """The API token looks, and the refusal says which token is needed."""
    asked = (
        ("POST", f"{ACTS}/approve"),
        ("POST", f"{ACTS}/deny"),
        ("DELETE", f"{ACTS}/telegram/7"),
        ("POST", "/api/v1/admin/channels/telegram/check"),
        ("GET", LOG),
    )
    async with (
        open_http_gateway(tmp_path, server=SERVER) as gateway,
        gateway.client(token=USER) as user,
    ):
        reader = await gateway.token("reader", "read")
        limited = await gateway.token("limited", "operate", agents=("test",))
        for method, path in asked:
            refused = await user.request(method, path, json={"code": "x"})
            assert (refused.status_code, kind(refused)) == (403, "insufficient-scope"), path
            assert refused.json()["scope"] == "admin"
        looked = await user.get(PAIRING)
        async with gateway.client(token=reader) as client:
            read = await client.get(PAIRING)
        async with gateway.client(token=limited) as client:
            narrow = await client.get(PAIRING)

    assert looked.status_code == 200
    assert (kind(read), kind(narrow)) == ("insufficient-scope", "limited-to-agents")


# --- the log ---


async def test_the_log_is_read_from_elsewhere_without_secrets(tmp_path: Path) -> None:
    """Levels and places in it as asked for; fields and tracebacks come along."""
    secrets, own = SecretRegistry(), logging.getLogger("everturn_gateway.test")
    secrets.add("s3cr3t-word")
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        with logging_to(gateway.recent_log, secrets):
            own.warning("the door is %s", "open", extra={"key": "a s3cr3t-word b", "count": 2})
            before = (await client.get(LOG, params={"level": "warning"})).json()
            own.info("only info")
            own.error("it failed", exc_info=ValueError("s3cr3t-word " + "x" * 20_000))
            for number in range(1200):
                own.warning("line %s", number)
        seen = {"after": before["last"], "limit": 1000}
        after = (await client.get(LOG, params={**seen, "level": "warning"})).json()
        newest = (await client.get(LOG, params={"limit": 2})).json()["records"]
        nothing = (await client.get(LOG, params={"after": after["last"]})).json()
        refused = await client.get(LOG, params={"level": "loud"})

    (first,) = before["records"]
    assert (first["message"], first["level"]) == ("the door is open", "warning")
    assert first["logger"] == "everturn_gateway.test"
    assert first["fields"] == {"key": "a *** b", "count": 2}
    assert len(after["records"]) <= 1000
    assert "s3cr3t" not in json.dumps([before, after])
    assert [each["message"] for each in newest] == ["line 1198", "line 1199"]
    assert (nothing["records"], nothing["last"]) == ([], after["last"])
    assert refused.status_code == 422


def test_what_is_kept_of_the_log_is_bounded() -> None:
    """A record with a page of HTML, or with a thousand fields, costs no more than its share."""
    recent = RecentLog()
    own = logging.getLogger("everturn_gateway.test")
    fields = {f"field{number}": "x" * 10_000 for number in range(100)}
    with logging_to(recent, SecretRegistry()):
        own.warning("y" * 100_000, extra=fields)
    (entry,) = recent.since()

    assert len(entry.message) == 2000
    assert len(entry.fields) == 20
    assert max(len(str(value)) for value in entry.fields.values()) == 500
