"""How long a page of the list takes where a database holds a million sessions.

    python benchmarks/node_lists.py [--sessions 1000000]

Starts a PostgreSQL on loopback, opens a gateway on it. One channel has nearly all sessions, one has
three, one has none; ten principals have a tenth each, others 1,000 and five.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import anyio
from harness import show

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.database import Server, running_server
from support.process import write_workspace

from everturn_actors.ports import SessionFilter, SessionStore
from everturn_gateway.app import open_gateway
from everturn_gateway.config.settings import load_config

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
_SEEN = """
INSERT INTO everturn.viewer SELECT '{}', id FROM everturn.session ORDER BY random() LIMIT {}
"""


def fill(server: Server, sessions: int) -> None:
    """Write sessions without events."""
    seen = (_SEEN.format("few", 5), _SEEN.format("some", 1000))
    for statement in (_ROWS.replace("$N", str(sessions)), _VIEWERS, *seen, "ANALYZE"):
        server.psql(statement)


async def measure(folder: Path, server: Server, sessions: int) -> None:
    """Ask the store for pages, and print how long they took."""
    write_workspace(folder, "http://127.0.0.1:9")
    file = folder / "everturn.yaml"
    file.write_text(f'store: {{type: postgres, url: "{server.url()}"}}\n')
    config = load_config(file, environ={})
    async with open_gateway(config, environ={}, watch=False) as gateway:
        await anyio.to_thread.run_sync(fill, server, sessions)
        store = gateway.storage.store
        rows = [
            await page(store, name, wanted)
            for name, wanted in (
                ("the first", SessionFilter()),
                ("of a channel that nearly all are of", SessionFilter(channel="http")),
                ("of a channel with three", SessionFilter(channel="rare")),
                ("of a channel with none", SessionFilter(channel="telegram")),
                ("that a principal with a tenth sees", SessionFilter(seen_by="p3")),
                ("that a principal with 1,000 sees", SessionFilter(seen_by="some")),
                ("that a principal with five sees", SessionFilter(seen_by="few")),
                ("pinned", SessionFilter(pinned=True)),
            )
        ]
    show(f"a page of 50 of {sessions} sessions", ["page", "rows", "p50, ms", "worst, ms"], rows)


async def page(store: SessionStore, name: str, wanted: SessionFilter) -> list[str]:
    """Return a row of the table."""
    took: list[float] = []
    found = 0
    for _ in range(ROUNDS):
        began_s = time.perf_counter()
        found = len(await store.recent(before=None, limit=50, wanted=wanted))
        took.append(1000 * (time.perf_counter() - began_s))
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
