"""How long a page of the list takes where a database holds a million sessions.

    python benchmarks/node_lists.py [--sessions 1000000]

Starts a PostgreSQL and a gateway on loopback. Ten principals have a tenth each, one has five sessions;
one channel has nearly all sessions, one has three, one has none.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import anyio
import httpx2
from harness import show

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.database import Server, running_server
from support.process import gateway_process, write_workspace

ROUNDS = 30
TOKEN = "benchmark"
_ROWS = """
INSERT INTO everturn.session (id, last_seq, token, updated, agent, channel, summary)
SELECT id, 5, gen_random_uuid(), at, 'helper', channel, convert_to(format(
    '{"session_id":"%s","key":{"channel":"%s","chat":"c%s","agent":"helper"},"status":"active",'
    '"created_at":"2026-11-01T00:00:00Z","updated_at":"2026-11-01T00:00:00Z","principal":"p%s",'
    '"shared_with":[],"labels":{}}', id, channel, n, n % 10), 'UTF8')
FROM (SELECT n, timestamptz '2026-11-01' + n * interval '1 second' AS at,
             CASE WHEN n < 3 THEN 'rare' ELSE 'http' END AS channel,
             to_char(timestamptz '2026-11-01' + n * interval '1 second', 'YYYYMMDD"T"HH24MISS')
                 || '000-' || lpad(to_hex(n), 8, '0') AS id
      FROM generate_series(0, $N - 1) AS n) AS made
"""
_VIEWERS = """
INSERT INTO everturn.viewer SELECT 'p' || (n % 10), id FROM (
    SELECT row_number() OVER (ORDER BY id) - 1 AS n, id FROM everturn.session) AS made
"""
_FEW = "INSERT INTO everturn.viewer SELECT 'few', id FROM everturn.session LIMIT 5"


def fill(server: Server, sessions: int) -> None:
    """Write sessions without events."""
    for statement in (_ROWS.replace("$N", str(sessions)), _VIEWERS, _FEW, "ANALYZE"):
        server.psql(statement)


async def measure(folder: Path, server: Server, sessions: int) -> None:
    """Ask for pages, and print how long they took."""
    write_workspace(folder, "http://127.0.0.1:9")
    (folder / "everturn.yaml").write_text(
        f'server: {{port: 0}}\nstore: {{type: postgres, url: "{server.url()}"}}\n'
    )
    async with gateway_process(folder, imported=None) as gateway, gateway.client() as client:
        await anyio.to_thread.run_sync(fill, server, sessions)
        rows = [
            await page(client, name, query)
            for name, query in (
                ("the first page", ""),
                ("of a channel that nearly all are of", "&channel=http"),
                ("of a channel with three", "&channel=rare"),
                ("of a channel with none", "&channel=telegram"),
            )
        ]
    show(f"a page of 50 of {sessions} sessions", ["page", "rows", "p50, ms", "worst, ms"], rows)


async def page(client: httpx2.AsyncClient, name: str, query: str) -> list[str]:
    """Return a row of the table."""
    took: list[float] = []
    found = 0
    for _ in range(ROUNDS):
        began_s = time.perf_counter()
        response = await client.get(f"/api/v1/sessions?limit=50&order=activity{query}")
        took.append(1000 * (time.perf_counter() - began_s))
        assert response.is_success, response.text
        found = len(response.json()["sessions"])
    took.sort()
    return [name, str(found), f"{took[ROUNDS // 2]:.1f}", f"{took[-1]:.1f}"]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with running_server() as server, tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, Path(folder), server, arguments.sessions)


if __name__ == "__main__":
    main()
