"""The first requests that a gateway gets: the API is loaded with them."""

from __future__ import annotations

from pathlib import Path

import anyio
from support.gateway import open_http_gateway

PROBES = ("/livez", "/readyz", "/metrics")
CLIENTS = 8


async def test_all_who_come_first_are_answered(tmp_path: Path) -> None:
    """Whoever watches, whoever talks: none of them sees that others wait for the API, too.

    Probes are answered before the routes are known, and take the one method that these say.
    """
    answers: list[tuple[str, int]] = []
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:

        async def ask(path: str) -> None:
            answers.append((path, (await client.get(path)).status_code))

        async with anyio.create_task_group() as tasks:
            for path in (*["/version"] * CLIENTS, *PROBES):
                tasks.start_soon(ask, path)
        posted = {path: await client.post(path) for path in PROBES}
        described = (await client.get("/openapi.json")).json()["paths"]

    assert sorted(answers) == sorted([("/version", 200)] * CLIENTS + [(p, 200) for p in PROBES])
    assert described.keys() >= {*PROBES, "/version"}
    for path, answer in posted.items():
        assert (path, answer.status_code, answer.headers["allow"]) == (path, 405, "GET")
