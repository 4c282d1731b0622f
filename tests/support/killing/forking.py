"""Starts gateways quickly: forks them from a process that has imported what they import.

`python -m support.killing.forking` reads requests on its standard input, one JSON object a line,
and says on its standard output what became of them. Before the first fork it has imported the
gateway with aiogram and discord.py, and has no thread and no event loop. A child changes its
folder, environment and output as a shell would, and then runs `main` of the installed command
with `serve`: the same code, only that its modules are there already.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import sys
import threading
from typing import Any, Final, NoReturn

MODULES: Final = (
    "everturn_gateway.__main__",
    "everturn_gateway.commands.serving.serve",
    "everturn_gateway.providers.connected",
    "everturn_channels.telegram",
    "everturn_channels.discord",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.http.h11_impl",
    "uvloop",
    "support.killing.hook.kill_points",
)
LATE: Final = (
    "anyio._backends._asyncio",
    "anyio.streams.tls",
    "encodings.idna",
    "everturn_gateway.channels.bots",
    "httpcore2._async.connection_pool",
    "httpcore2._backends.anyio",
    "pydantic.v1",
    "truststore",
    "typer._click.decorators",
    "uvicorn.lifespan.off",
)
"What libraries load when it is first needed; a version that has it no more loads something else."
_PR_SET_PDEATHSIG: Final = 1
_READ_BYTES: Final = 65_536


class _Server:
    def __init__(self) -> None:
        self._children: set[int] = set()
        self._woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes)

    def serve(self) -> dict[str, Any] | None:
        """Serve until the input ends, None; in a child, return what it was asked for."""
        text = b""
        while True:
            ready, _, _ = select.select([0, self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, _READ_BYTES)
                self._reap()
            if 0 not in ready:
                continue
            data = os.read(0, _READ_BYTES)
            if not data:
                return None
            *lines, text = (text + data).split(b"\n")
            for line in lines:
                asked = json.loads(line)
                if "signal" in asked:
                    if asked["pid"] in self._children:
                        os.kill(asked["pid"], asked["signal"])
                elif self._fork(asked):
                    return dict(asked)

    def _fork(self, asked: dict[str, Any]) -> bool:
        """Fork; return whether this is the child."""
        assert threading.active_count() == 1
        pid = os.fork()
        if not pid:
            return True
        self._children.add(pid)
        _say({"started": asked["name"], "pid": pid})
        return False

    def _reap(self) -> None:
        for pid in tuple(self._children):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            _, status = os.waitpid(pid, 0)
            self._children.discard(pid)
            _say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _say(what: dict[str, Any]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def _become(asked: dict[str, Any], parent: int) -> NoReturn:
    """Be the gateway that was asked for."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.closerange(3, 64)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["env"])
    from support.killing.hook import kill_points  # noqa: PLC0415 - loaded above, as all of it

    kill_points.install_from_environment()
    from everturn_gateway.__main__ import main  # noqa: PLC0415 - loaded above

    sys.argv = ["everturn", "serve"]
    main()
    raise SystemExit(1)


def run() -> None:
    """Import, and fork as asked."""
    for name in MODULES:
        importlib.import_module(name)
    for name in LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()
    parent = os.getpid()
    server = _Server()
    _say({"ready": True})
    asked = server.serve()
    if asked is not None:
        _become(asked, parent)


if __name__ == "__main__":
    run()
