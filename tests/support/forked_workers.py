"""Workers of pytest-xdist that have nothing to import: children of a process that has.

To collect all tests takes a worker half a minute of CPU where nothing was compiled before, twenty
seconds otherwise, most of it imports. So one process collects them (`_collect`), and forks each
worker: the same modules are there, and the worker only makes its list of tests from them.

pytest-xdist starts what it takes for Python (`python=` in its specification of a worker). That is
this file, which hands its standard streams on (`_ask`) and waits for the worker to end.
"""

from __future__ import annotations

import gc
import os
import select
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_STREAMS = 3


def worker_python(arguments: Sequence[str]) -> str:
    """Return what to start in the place of Python, for each worker of this run.

    Args:
        arguments: Those of pytest.
    """
    address = f"everturn-workers-{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{address}")
    listener.listen()
    held, _ = os.pipe()  # the other sees by it when this process is gone, which holds its end
    for fd in (listener.fileno(), held):
        os.set_inheritable(fd, True)  # noqa: FBT003 - it has no name
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(_STREAMS)]
    command = [
        sys.executable,
        "-P",
        __file__,
        "collect",
        str(listener.fileno()),
        str(held),
        *arguments,
    ]
    os.posix_spawn(sys.executable, command, os.environ, file_actions=quiet)
    listener.close()
    os.close(held)
    return f"{sys.executable} -I -S {Path(__file__)} ask {address}"


def _ask(address: str) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(f"\0{address}")
        socket.send_fds(line, [os.getcwd().encode()], range(_STREAMS))
        for fd in range(_STREAMS - 1):  # whoever reads them sees when the worker ends
            os.close(fd)
        line.recv(1)


class BrokenFiles:
    """A plug-in that forgets each file of tests that could not be read.

    pytest leaves such a module in `sys.modules` as far as it came. A worker would take it for one
    with fewer tests, or none, and nobody would be told: without it the worker tries again and says
    what is wrong.
    """

    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector) -> None:
        """Forget the module where its collection failed."""
        for name, module in [*sys.modules.items()]:
            if getattr(module, "__file__", None) == str(node.path):
                del sys.modules[name]


def _collect(listener: socket.socket, alive: int, arguments: Sequence[str]) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from support.warm_start import begin_nursery, is_of_this_user  # noqa: PLC0415 - who asks for a worker needs none

    del sys.path[0]  # children of the nursery find no tests
    begin_nursery(left_behind=(listener.fileno(), alive))
    import pytest  # noqa: PLC0415 - as above

    pytest.main([*arguments, "-n0", "--collect-only", "-q", "-s"], plugins=[BrokenFiles()])
    sys.path.insert(0, str(Path(__file__).parents[1]))  # pytest has just taken it away
    from support.warm_models import warm_models  # noqa: PLC0415 - as above

    warm_models()
    del sys.path[0]
    gc.collect()
    gc.freeze()
    while True:
        watched: list[socket.socket | int] = [listener, alive]
        ready, _, _ = select.select(watched, [], [], 1)
        while _has_ended():
            pass
        if alive in ready:
            return
        if listener in ready:
            line, _ = listener.accept()
            if not is_of_this_user(line):
                line.close()
                continue
            folder, fds, _, _ = socket.recv_fds(line, 4096, _STREAMS)
            if not os.fork():
                listener.close()
                os.close(alive)
                _work(folder.decode(), fds)
            line.close()
            for fd in fds:
                os.close(fd)


def _has_ended() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _work(folder: str, fds: Sequence[int]) -> None:
    """Be a worker: what `python -c` of execnet does, which the controller then sends more to."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(folder)
    sys.argv = ["-c"]
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the other one has read its end
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    namespace = {"__name__": "__main__", "sys": sys}
    code = 0
    try:
        exec(eval(sys.stdin.readline()), namespace)  # noqa: S102, S307
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        _ask(sys.argv[2])
    else:
        listening, alive = map(int, sys.argv[2:4])
        _collect(socket.socket(fileno=listening), alive, sys.argv[4:])
