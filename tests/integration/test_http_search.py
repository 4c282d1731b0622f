"""A search through what was said in all sessions, over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
from support.gateway import HttpGateway, open_http_gateway
from support.shell_agents import running, write_shell_agent

SESSIONS = "/api/v1/sessions"


async def talk(gateway: HttpGateway, *turns: tuple[str, str], agent: str = "test") -> str:
    """Begin a session with messages and their answers; return its id."""
    session_id = await gateway.session(agent)
    async with gateway.client() as client:
        for said, answered in turns:
            gateway.provider.script.append(answered)
            path = f"{SESSIONS}/{session_id}/messages"
            answer = await client.post(path, json={"content": said})
            assert answer.status_code == 200
    return session_id


def is_archived(folder: Path, text: bytes) -> bool:
    """Whether a text stands in the archive of a session."""
    return any(text in each.read_bytes() for each in folder.rglob("events.archive.jsonl"))


async def found(client: httpx2.AsyncClient, q: str, **params: Any) -> list[dict[str, Any]]:
    """Return the hits of a search."""
    answer = await client.get("/api/v1/search", params={"q": q, **params})
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    assert (page["next"], page["searched_to"]) == (None, None)
    hits: list[dict[str, Any]] = page["hits"]
    return hits


async def test_what_was_said_is_found_by_any_of_its_words(tmp_path: Path) -> None:
    """In whatever form they are asked for, the best match first; also after a reset."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        first = await talk(
            gateway,
            ("A flight to Lisbon, please", "Three FLIGHTS go to Lisbon.\nIn the morning."),
            ('And the Stra\u00dfe of Caf\u00e9 A "Brasileira"?', "It is Rua Garrett."),
        )
        second = await talk(gateway, ("Lisbon weather", "Sun" + "x" * 500 + " lisbon " + "y" * 500))
        await client.post(f"{SESSIONS}/{first}/reset")
        hits = await found(client, "lisbon")
        asked = await found(client, "Which flight did I want to Lisbon?")
        phrase = await found(client, '"flights go to"')
        folded = await found(client, "strasse cafe\u0301")
        one = await found(client, "lisbon", session=second, since="2020-01-01")
        none = await found(client, '"go flights"')
        of_other = await found(client, "lisbon", agent="nobody")
        too_old = await found(client, "lisbon", until="2020-01-01")
        log = (await client.get(f"{SESSIONS}/{first}/log", params={"after": 0})).json()["events"]

    assert {(hit["session_id"], hit["role"]) for hit in hits} == {
        (first, "assistant"),
        (first, "user"),
        (second, "assistant"),
        (second, "user"),
    }
    assert {hit["snippet"] for hit in asked[:2]} == {
        "A flight to Lisbon, please",
        "Three FLIGHTS go to Lisbon. In the morning.",
    }
    assert asked[0]["title"] == "A flight to Lisbon, please"
    assert log[phrase[0]["seq"] - 1]["text"].startswith("Three FLIGHTS")
    long = next(hit["snippet"] for hit in hits if hit["snippet"].startswith("…x"))
    assert "lisbon" in long
    assert long.endswith("y…")
    assert [hit["role"] for hit in phrase] == ["assistant"]
    assert [hit["role"] for hit in folded] == ["user"]
    assert {hit["session_id"] for hit in one} == {second}
    assert none == of_other == too_old == []


async def test_calls_and_their_results_are_found_and_archives_are_read(tmp_path: Path) -> None:
    """What an agent did long ago is searched as what was said just now."""
    write_shell_agent(tmp_path)
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        session_id = await gateway.session()
        path = f"{SESSIONS}/{session_id}"
        gateway.provider.script += ["The needle is here.", *(f"reply {n}" for n in range(80))]
        for number in range(81):
            await client.post(f"{path}/messages", json={"content": f"message {number}"})
        old = await found(client, "needle")
        shell = await gateway.session("second")
        gateway.provider.script += [running("echo haystack"), "Done."]
        await client.post(
            f"{SESSIONS}/{shell}/messages",
            json={"content": "go"},
            headers={"Prefer": "respond-async"},
        )
        await gateway.provider.until_called(len(gateway.provider.requests))
        called = await found(client, "bash haystack")

    assert await anyio.to_thread.run_sync(is_archived, tmp_path, b"needle")
    assert [(hit["session_id"], hit["seq"]) for hit in old] == [(session_id, 5)]
    assert {hit["role"] for hit in called} <= {"call"}


async def test_a_search_goes_on_where_it_ended_and_is_refused_where_it_is_none(
    tmp_path: Path,
) -> None:
    """Page by page nothing is told twice, and nothing is left out; or it says what is wrong."""
    wrong: list[dict[str, Any]] = [
        {},
        {"q": ""},
        {"q": " \t"},
        {"q": '""'},
        {"q": "x" * 201},
        {"q": "x", "after": "nonsense"},
        {"q": "x", "limit": 0},
    ]
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        turns = [(f"needle {n}", f"an answer {n}, needle") for n in range(3)]
        ids = [await talk(gateway, *turns) for _ in range(3)]
        hits: list[dict[str, Any]] = []
        pages, after = 0, ""
        while pages == 0 or after:
            params: dict[str, Any] = {"q": "needle", "limit": 4, "after": after}
            page = (await client.get("/api/v1/search", params=params)).json()
            hits, pages, after = [*hits, *page["hits"]], pages + 1, page["next"]
        statuses = [(await client.get("/api/v1/search", params=each)).status_code for each in wrong]
        hostile = [await found(client, q) for q in ("%_*?[", "\U0001f600", "\\u0041", "'--")]

    told = [(hit["session_id"], hit["seq"]) for hit in hits]
    assert pages == 5
    assert len(set(told)) == len(told) == 18
    assert {each for each, _ in told} == set(ids)
    assert statuses == [422] * len(wrong)
    assert hostile == [[]] * 4
