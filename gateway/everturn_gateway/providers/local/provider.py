"""The embedded model: weights on disk, llama.cpp in a child process, the usual adapter in between.

It starts with the first call (or `warm`), is started again when it died, and never outlives the
gateway.
"""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, cast

import anyio
import orjson
from anyio.abc import ByteReceiveStream, Process, TaskGroup, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Struct

from everturn_actors.errors import ModelRefusedError, ModelTransientError
from everturn_actors.model import ModelRequest, Reply
from everturn_actors.spec import ModelSpec
from everturn_actors.supervisor import attempt
from everturn_gateway.providers.local.weights import installed
from everturn_gateway.providers.openai_compatible import OpenAICompatible
from everturn_gateway.providers.transport.endpoints import OWN_STALL_TIMEOUT_S, Endpoint
from everturn_gateway.providers.transport.http_clients import HttpClients
from everturn_gateway.providers.transport.streaming import Connection

logger = logging.getLogger(__name__)

CONTEXT_TOKENS = 4096  # where the agent gives no window; a longer prompt takes minutes here
REPLY_TOKENS = 512  # where the agent names no max_output_tokens; a small model may never end
START_TIMEOUT_S = 120.0  # loading takes a second or two; large files from slow disks more
STOP_TIMEOUT_S = 2.0
_LAST_WORDS_LINES = 5  # of the engine's log that go into an error
_LINE_LIMIT_BYTES = 64 * 1024

# All that the engine needs of the environment; keys of other providers are not among it.
_PASSED_ON: Final = frozenset(
    ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "SYSTEMROOT")
)

_PULL: Final = "run `everturn local pull`, or name another model in agent.yaml"


class LocalWeights(Struct, frozen=True, kw_only=True):
    """One model file, as agents name it."""

    file: Path
    name: str
    context_tokens: int


def local_weights(model: ModelSpec, folder: Path, models_dir: Path) -> LocalWeights:
    """Return which file an agent means: a `.gguf` path from its folder, or a name `pull` knows."""
    file = (
        folder / Path(model.name).expanduser()
        if model.name.endswith(".gguf")
        else installed(models_dir, model.name)
    )
    return LocalWeights(
        file=file,
        name=file.stem,
        context_tokens=model.context_window or model.max_input_tokens or CONTEXT_TOKENS,
    )


class LocalServer:
    """The child process of one model file. The only one that starts and stops it."""

    def __init__(
        self,
        weights: LocalWeights,
        *,
        environ: Mapping[str, str],
        tasks: TaskGroup,
        on_secret: Callable[[str], None],
    ) -> None:
        self._weights = weights
        self._environ = environ
        self._tasks = tasks
        self._on_secret = on_secret
        self._starting = anyio.Lock()
        self._endpoint: Endpoint | None = None

    @property
    def context_tokens(self) -> int:
        """The window that the model is started with."""
        return self._weights.context_tokens

    async def ready(self) -> Endpoint:
        """Return where the model answers; start it where it does not run.

        Raises:
            ModelRefusedError: It cannot run here; the text says what to do.
            ModelTransientError: It did not start in time.
        """
        async with self._starting:
            if self._endpoint is not None:
                return self._endpoint
            if not await anyio.Path(self._weights.file).is_file():
                msg = f"the local model has no weights at {self._weights.file}: {_PULL}"
                raise ModelRefusedError(msg)
            try:
                with anyio.fail_after(START_TIMEOUT_S):
                    started: Endpoint | Exception = await self._tasks.start(
                        self._run, name="local model"
                    )
            except TimeoutError:
                msg = f"the local model did not start within {START_TIMEOUT_S:g} seconds"
                raise ModelTransientError(msg) from None
            if isinstance(started, OSError):
                msg = f"the process of the local model cannot be started: {started}"
                raise ModelTransientError(msg) from started
            if isinstance(started, Exception):
                raise started
            return started

    async def _run(self, *, task_status: TaskStatus[Endpoint | Exception]) -> None:
        """Run the process; say when it is ready, or why it never was.

        A fault after that ends the process, and nothing else: the next call starts another.
        """
        is_ready = False

        def ready(endpoint: Endpoint) -> None:
            nonlocal is_ready
            is_ready = True
            task_status.started(endpoint)

        failure = await attempt(partial(self._live, ready))
        if failure is not None and is_ready:
            fields = {"model": self._weights.name}
            logger.error("local model failed", extra=fields, exc_info=failure)
        elif failure is not None:
            task_status.started(failure)

    async def _live(self, on_ready: Callable[[Endpoint], None]) -> None:
        """Run the process from its start to its end."""
        key = secrets.token_urlsafe(32)
        self._on_secret(key)
        process = await anyio.open_process(
            # -P: what lies in the working directory must not be imported in place of a package.
            [sys.executable, "-P", "-m", "everturn_gateway.providers.local.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={k: v for k, v in self._environ.items() if k in _PASSED_ON},
            start_new_session=True,  # Ctrl-C in the terminal is for the gateway
        )
        said: deque[str] = deque(maxlen=_LAST_WORDS_LINES)
        ready = False
        answer: dict[str, str] = {}
        try:
            async with anyio.create_task_group() as reading:
                if process.stderr is not None:
                    reading.start_soon(_keep_last_lines, process.stderr, said)
                answer = await self._handshake(process, key)
                if "address" in answer:
                    ready = True
                    logger.info(
                        "local model ready",
                        extra={"model": self._weights.name, "pid": process.pid},
                    )
                    self._endpoint = Endpoint(
                        address=answer["address"],
                        path="/v1/chat/completions",
                        key=key,
                        stall_timeout_s=OWN_STALL_TIMEOUT_S,
                    )
                    on_ready(self._endpoint)
                await process.wait()
        finally:
            self._endpoint = None
            with anyio.move_on_after(STOP_TIMEOUT_S, shield=True):
                await _end(process)
        reason = answer.get("error") or f"its process ended with {process.returncode}"
        if not ready:
            words = f" ({'; '.join(said)})" if said else ""
            msg = f"the local model {self._weights.file} cannot be loaded: {reason}{words}"
            raise ModelRefusedError(msg)
        logger.warning(
            "local model ended", extra={"model": self._weights.name, "reason": reason, "said": said}
        )

    async def _handshake(self, process: Process, key: str) -> dict[str, str]:
        """Tell the process what to serve; return its one line, nothing where it died before."""
        order = {
            "model": str(self._weights.file),
            "alias": self._weights.name,
            "key": key,
            "threads": threads(),
            "context_tokens": self._weights.context_tokens,
            "parent_pid": os.getpid(),
        }
        if process.stdin is None or process.stdout is None:
            raise AssertionError  # they were asked for as pipes
        try:
            await process.stdin.send(orjson.dumps(order) + b"\n")
            lines = BufferedByteReceiveStream(process.stdout)
            line = await lines.receive_until(b"\n", _LINE_LIMIT_BYTES)
        except (anyio.BrokenResourceError, anyio.IncompleteRead):
            return {}
        return cast("dict[str, str]", orjson.loads(line))


class LocalModel:
    """A `ModelProvider` and `WindowSource` on a `LocalServer`.

    Knows no tools: a model this small cannot use them.
    """

    def __init__(
        self,
        server: LocalServer,
        *,
        name: str,
        clients: HttpClients,
        mask: Callable[[str], str],
    ) -> None:
        self._server = server
        self._name = name
        self._clients = clients
        self._mask = mask
        self._endpoint: Endpoint | None = None
        self._adapter: OpenAICompatible | None = None

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; see `ModelProvider.complete`."""
        endpoint = await self._server.ready()
        if self._adapter is None or self._endpoint != endpoint:
            if self._endpoint is not None:  # of a process that is gone
                await self._clients.drop(self._endpoint.address)
            self._endpoint = endpoint
            self._adapter = OpenAICompatible(
                Connection(endpoint=endpoint, clients=self._clients, mask=self._mask)
            )
        small = replace(
            request,
            model=self._name,
            tools=(),
            max_output_tokens=request.max_output_tokens or REPLY_TOKENS,
        )
        return await self._adapter.complete(small, on_text)

    async def window_tokens(self) -> int | None:
        """Return the window that the model is started with."""
        return self._server.context_tokens


def threads() -> int:
    """Return how many threads the engine gets: all cores but one.

    With a thread on every core, anything else that runs makes them wait for each other spinning,
    and the model writes ten times slower.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, cores - 1)


async def _keep_last_lines(stream: ByteReceiveStream, said: deque[str]) -> None:
    rest = b""
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for piece in stream:
            *lines, rest = (rest + piece).split(b"\n")
            rest = rest[-_LINE_LIMIT_BYTES:]
            said.extend(line.decode("utf-8", "replace").strip() for line in lines if line.strip())


async def _end(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    await process.aclose()
