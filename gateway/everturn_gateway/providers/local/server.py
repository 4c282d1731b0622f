"""The process in which the local model runs: llama.cpp's own HTTP server, for its parent alone.

Run as `python -m everturn_gateway.providers.local.server`. Its first line on stdin says what to
serve (JSON: model, alias, key, threads, context_tokens, parent_pid); its one line on stdout says
where it listens ({"address": …}) or why it cannot ({"error": …}). It ends when stdin does, and on
Linux also with its parent, however that ends.

A process of its own, because the engine's threads spin, its failures abort, and neither may
happen to the gateway.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from importlib import import_module
from typing import Any, TextIO

from everturn_gateway.providers.local.weights import missing_engine

_PR_SET_PDEATHSIG = 1  # Source: prctl(2)


def main() -> int:
    """Serve until the parent is gone."""
    # The engine prints to descriptor 1 as it likes: the parent's line gets one of its own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    _die_with(int(order["parent_pid"]))
    try:
        server = _serve(order)
    except ImportError as error:
        return _tell(answers, error=f"{missing_engine() or error}")
    except (RuntimeError, ValueError, OSError) as error:
        return _tell(answers, error=str(error))
    _tell(answers, address=server.listening_address)
    sys.stdin.read()
    # Without clean-up: the engine would first finish what it is generating.
    os._exit(0)


def _serve(order: dict[str, Any]) -> Any:  # the engine has no types
    engine: Any = import_module("xllamacpp")  # an extra, without types
    params = engine.CommonParams()
    params.model.path = order["model"]
    params.model_alias = {order["alias"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [order["key"]]
    params.n_ctx = order["context_tokens"]
    params.n_parallel = 1  # one after another: a second slot would halve the speed of both
    params.cpuparams.n_threads = order["threads"]
    params.cpuparams_batch.n_threads = order["threads"]
    params.ui = False
    params.endpoint_slots = False
    params.offline = True
    params.verbosity = 1  # errors
    return engine.Server(params)


def _die_with(parent_pid: int) -> None:
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(0)  # it was gone before it could take us along


def _tell(answers: TextIO, **line: str) -> int:
    print(json.dumps(line), file=answers, flush=True)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
