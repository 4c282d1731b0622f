"""What nodes on one database cost while nobody writes, and how soon others have what one held.

    python benchmarks/nodes.py

Starts a PostgreSQL and three gateways on loopback; takes a minute. Nothing is left of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.database import Server, running_server
from support.process import write_workspace

PROGRAM = Path(sys.executable).with_name("everturn")
LEASES = 65  # 64 partitions, and the seat that runs jobs
SETTLED_S, LOOK_S, WAIT_S = 12.0, 20.0, 60.0
_COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'"
_HELD = "SELECT count(*) FROM everturn.lease WHERE until > now() AND node <> '{}'"


def start(folder: Path, server: Server) -> subprocess.Popen[bytes]:
    """Start a node that is called as its folder."""
    if not folder.exists():
        folder.mkdir()
        write_workspace(folder, "http://127.0.0.1:9")
        (folder / "everturn.yaml").write_text(
            f'server: {{port: 0}}\nstore: {{type: postgres, url: "{server.url()}"}}\n'
            f"cluster: {{node: {folder.name}, listen: {folder}/link, secret: 0123456789abcdef}}\n"
        )
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [PROGRAM, "serve"],
            cwd=folder,
            env={**os.environ, "OPENAI_API_KEY": "none"},
            stdout=log,
            stderr=log,
        )


def seconds_until_held(server: Server, *, without: str) -> float:
    """Return how long it takes until others hold all that a node held."""
    began_s = time.monotonic()
    while int(server.psql(_HELD.format(without))) < LEASES:
        assert time.monotonic() - began_s < WAIT_S
        time.sleep(0.05)
    return time.monotonic() - began_s


def commits_of_looks(server: Server) -> int:
    """Return how many of the commits that `idle` counts are its own, where nobody else is there."""
    before = int(server.psql(_COMMITS))
    server.psql("SELECT pg_current_wal_lsn()")
    return int(server.psql(_COMMITS)) - before


def idle(server: Server, nodes: Mapping[str, subprocess.Popen[bytes]], own: int) -> None:
    """Print what nodes do while nobody writes; `own` = see `commits_of_looks`."""

    def cpu_s() -> float:
        used = [psutil.Process(node.pid).cpu_times() for node in nodes.values()]
        return sum(each.user + each.system for each in used)

    commits, cpu, wal = (
        int(server.psql(_COMMITS)),
        cpu_s(),
        server.psql("SELECT pg_current_wal_lsn()"),
    )
    time.sleep(LOOK_S)
    per_s = (int(server.psql(_COMMITS)) - commits - own) / LOOK_S
    share = 100 * (cpu_s() - cpu) / LOOK_S / len(nodes)
    written = float(server.psql(f"SELECT pg_current_wal_lsn() - '{wal}'")) / LOOK_S
    print(f"statements a second, all nodes together: {per_s:.1f}")
    print(f"CPU of each node: {share:.2f} % of a core")
    print(f"write-ahead log: {written / 1000:.1f} KB a second")


def main() -> None:
    """Measure."""
    with running_server() as server, tempfile.TemporaryDirectory() as folder:
        time.sleep(1.0)  # what the server does at its start is over
        own = commits_of_looks(server)
        nodes = {name: start(Path(folder, name), server) for name in "abc"}
        try:
            while server.psql("SELECT to_regclass('everturn.lease') IS NULL") == "t":
                time.sleep(0.1)
            seconds_until_held(server, without="")
            time.sleep(SETTLED_S)
            idle(server, nodes, own)
            print(f"({own} commits of this look are not counted)")
            nodes["b"].kill()
            nodes.pop("b").wait()
            print(f"kill -9: others hold all after {seconds_until_held(server, without='b'):.1f} s")
            nodes["c"].send_signal(signal.SIGTERM)
            took_s = seconds_until_held(server, without="c")
            print(f"SIGTERM: others hold all after {took_s:.1f} s")
        finally:
            for node in nodes.values():
                node.terminate()
            for node in nodes.values():
                node.wait()


if __name__ == "__main__":
    main()
