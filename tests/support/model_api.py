"""A model API on loopback that does what a test tells it to.

    async with open_model_api() as api:
        api.script(Answer(text="Hello"), rate_limited(retry_after="2"))
        ...  # point the code under test at api.url
        assert api.requests[0].json()["model"] == "m"

It speaks OpenAI's formats under `api.url`, and Anthropic's and Ollama's under `api.address`: the
path of a request says which. A request that the real API's documents forbid is refused.

What is not scripted gets `api.default`. Nothing here waits for time unless an answer says so: an
answer that has to come in two halves is held by an `anyio.Event`.

As a process of its own, for load: `PYTHONPATH=tests python -m support.model_api --port 0` prints
its address and serves until it is ended.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import anyio
import anyio.abc
import orjson
from support import completions_format, messages_format, ollama_format, responses_format
from support.answers import Answer
from support.patience import WAIT_S

__all__ = [
    "Answer",
    "ModelApi",
    "Received",
    "open_model_api",
    "overflow",
    "rate_limited",
    "refused",
    "server_error",
    "unauthorized",
    "whole_response",
]

_REASONS = {200: "OK", 307: "Temporary Redirect", 400: "Bad Request", 401: "Unauthorized"}
_ABOUT = ("/v1/models", "/props", "/api/ps", "/api/show", "/api/v0/models")
# What a request would cost; the member that holds it is the last.
# Sources: https://platform.claude.com/docs/en/api/messages/count_tokens, the package `openai`
# (`InputTokenCountResponse`), https://ai.google.dev/api/tokens (read 2026-11-26)
_COUNTING: Mapping[str, Mapping[str, object]] = {
    "/v1/messages/count_tokens": {"input_tokens": 0},
    "/responses/input_tokens": {"object": "response.input_tokens", "input_tokens": 0},
    ":countTokens": {"totalTokens": 0},
}
_PASSED_ON = ("/embeddings", "/audio/speech", "/audio/transcriptions")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format:
    """How an answer is put into bytes, and which requests are none."""

    kind: str
    "The media type of a stream."
    chunks: Callable[[Answer], list[bytes]]
    completion: Callable[[Answer], bytes]
    "The body of an answer that is not streamed."
    problem: Callable[[Any], Answer | None]
    "What a parsed request is refused with."


_EVENTS = "text/event-stream"
_OPENAI = _Format(
    kind=_EVENTS,
    chunks=completions_format.chunks,
    completion=completions_format.completion,
    problem=lambda _body: None,
)
_FORMATS: Mapping[str, _Format] = {
    "/chat/completions": _OPENAI,
    "/responses": _Format(
        kind=_EVENTS,
        chunks=responses_format.chunks,
        completion=responses_format.completion,
        problem=responses_format.problem,
    ),
    "/v1/messages": _Format(
        kind=_EVENTS,
        chunks=messages_format.chunks,
        completion=messages_format.completion,
        problem=messages_format.problem,
    ),
    "/api/chat": _Format(
        kind="application/x-ndjson",
        chunks=ollama_format.chunks,
        completion=ollama_format.completion,
        problem=ollama_format.problem,
    ),
}


@dataclass(slots=True, kw_only=True)
class Received:
    """One request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    left: anyio.Event = field(default_factory=anyio.Event)
    "Set when the client went away before its answer was complete."

    def json(self) -> Any:
        """Return the body, parsed."""
        return orjson.loads(self.body)

    @property
    def newest_text(self) -> str:
        """The content of the newest user message."""
        users = [m for m in self.json()["messages"] if m["role"] == "user"]
        return str(users[-1]["content"])


Default: TypeAlias = Answer | Callable[[Received], Answer]


class ModelApi:
    """The running API."""

    def __init__(self, url: str, *, default: Default, kept: int) -> None:
        self.url = url
        "The base URL, `/v1` included."
        self.address = url.removesuffix("/v1")
        "Without it."
        self.default = default
        self.requests: deque[Received] = deque(maxlen=kept)
        "The newest requests, oldest first, refused ones included."
        self.count = 0
        "Requests since it was opened."
        self.connections = 0
        "Connections since it was opened."
        self.told: dict[str, Any] = {}
        "What it tells about itself by path (`/props`): JSON, or bytes as they are; else a 404."
        self.counts: int | Answer | None = None
        "What it says that a request would cost, by the route of each API; None = it has none."
        self.asked: list[Received] = []
        "Requests for either; they are not among `requests`."
        self._scripted: deque[Answer] = deque()
        self._news = anyio.Event()
        self._encoded: dict[tuple[int, str, bool], tuple[Answer, bytes]] = {}

    def script(self, *answers: Answer) -> None:
        """Give these answers to the next requests, in this order."""
        self._scripted.extend(answers)

    async def received(self, count: int) -> Received:
        """Wait until `count` requests have come since it was opened; return the newest."""
        with anyio.fail_after(WAIT_S):
            while self.count < count:
                await self._news.wait()
        return self.requests[-1]

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        with contextlib.suppress(anyio.BrokenResourceError, anyio.EndOfStream):
            async with stream:
                buffer = b""
                while True:
                    request, buffer = await _receive(stream, buffer)
                    if not await self._answer(stream, request):
                        return

    async def _answer(self, stream: anyio.abc.SocketStream, request: Received) -> bool:
        if request.method == "GET" or request.path in _ABOUT:
            self.asked.append(request)
            about = self._about(request.path)
            await stream.send(whole_response(about, streamed=False))
            return True
        if request.path.endswith(tuple(_COUNTING)):
            self.asked.append(request)
            await stream.send(whole_response(self._counted(request), streamed=False))
            return True
        self.count += 1
        self.requests.append(request)
        self._news.set()
        self._news = anyio.Event()
        path = request.path.partition("?")[0]
        form = next((f for end, f in _FORMATS.items() if path.endswith(end)), None)
        if path.endswith(_PASSED_ON):
            form, answer = _OPENAI, self._scripted.popleft()
        elif form is None:
            form, answer = _OPENAI, refused(404, f"no such path: {request.path}")
        elif problem := form.problem(request.json()):
            answer = problem
        elif self._scripted:
            answer = self._scripted.popleft()
        else:
            answer = self.default if isinstance(self.default, Answer) else self.default(request)
        streamed = b'"stream":true' in request.body or b'"stream": true' in request.body
        try:
            if answer.in_steps and streamed:
                return await self._in_steps(stream, request, answer, form)
            await stream.send(self._at_once(answer, form, streamed=streamed))
        except anyio.BrokenResourceError:
            request.left.set()
            raise
        return answer.cut_after is None

    def _counted(self, request: Received) -> Answer:
        if self.counts is None:
            return refused(404, f"no such path: {request.path}")
        if isinstance(self.counts, Answer):
            return self.counts
        fields = next(f for end, f in _COUNTING.items() if request.path.endswith(end))
        return Answer(body=orjson.dumps({**fields, list(fields)[-1]: self.counts}))

    def _about(self, path: str) -> Answer:
        if path in self.told:
            told = self.told[path]
            return Answer(body=told if isinstance(told, bytes) else orjson.dumps(told))
        return Answer(body=_MODELS) if path == "/v1/models" else refused(404, f"no path {path}")

    def _at_once(self, answer: Answer, form: _Format, *, streamed: bool) -> bytes:
        key = (id(answer), form.kind + form.chunks.__module__, streamed)
        kept = self._encoded.get(key)
        if kept is None:
            kept = (answer, whole_response(answer, form, streamed=streamed))
            self._encoded[key] = kept
        return kept[1]

    async def _in_steps(
        self,
        stream: anyio.abc.SocketStream,
        request: Received,
        answer: Answer,
        form: _Format,
    ) -> bool:
        done = False
        watching = anyio.CancelScope()

        async def notice_leaving() -> None:
            with watching, contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                # A client that waits for its answer sends nothing: any news is that it left.
                await stream.receive()
            if not watching.cancel_called:
                request.left.set()
                tasks.cancel_scope.cancel()

        async def send() -> None:
            nonlocal done
            await stream.send(_head(answer, form.kind, chunked=True))
            for number, chunk in enumerate(form.chunks(answer)):
                if number == answer.stall_after:
                    await anyio.sleep_forever()
                if event := answer.hold.get(number):
                    await event.wait()
                await anyio.sleep(answer.piece_delay_s)
                await stream.send(_framed(chunk))
            # Before the client knows that it may send the next request.
            watching.cancel()
            if answer.cut_after is None:
                await stream.send(b"0\r\n\r\n")
            done = True

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(notice_leaving)
            await anyio.sleep(answer.delay_s)
            try:
                await send()
            except anyio.BrokenResourceError:  # it left between two pieces
                request.left.set()
                watching.cancel()
        return done and answer.cut_after is None


@asynccontextmanager
async def open_model_api(
    *, default: Default | None = None, port: int = 0, kept: int = 1000
) -> AsyncGenerator[ModelApi]:
    """Serve on 127.0.0.1 until the block ends."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    taken = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - not Django's
    api = ModelApi(
        f"http://127.0.0.1:{taken}/v1", default=default or Answer(text="All right."), kept=kept
    )
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, api.serve)
        yield api
        tasks.cancel_scope.cancel()


def refused(
    status: int, message: str, *, headers: Mapping[str, str] | None = None, **fields: str
) -> Answer:
    """Return a refusal in OpenAI's form; `fields` are code, type and param."""
    error = {"message": message, "type": None, "param": None, "code": None, **fields}
    return Answer(status=status, headers=headers or {}, body=orjson.dumps({"error": error}))


def rate_limited(*, retry_after: str = "", headers: Mapping[str, str] | None = None) -> Answer:
    """Return a 429."""
    waits = {"retry-after": retry_after} if retry_after else {}
    return refused(
        429, "Rate limit reached", headers={**waits, **(headers or {})}, code="rate_limit_exceeded"
    )


def unauthorized() -> Answer:
    """Return a 401."""
    return refused(401, "Incorrect API key provided", code="invalid_api_key")


def overflow() -> Answer:
    """Return OpenAI's refusal of a request that is too long."""
    return refused(
        400,
        "This model's maximum context length is 8192 tokens."
        " However, your messages resulted in 9001 tokens.",
        type="invalid_request_error",
        param="messages",
        code="context_length_exceeded",
    )


def server_error(status: int = 500) -> Answer:
    """Return a failure of the server."""
    return refused(status, "The server had an error", type="server_error")


def whole_response(answer: Answer, form: _Format = _OPENAI, *, streamed: bool) -> bytes:
    """Return head and body of an answer that is sent at once."""
    if answer.body is not None or answer.status != 200 or not streamed:
        body = form.completion(answer) if answer.body is None else answer.body
        kind = form.kind if streamed else ""
        return _head(answer, kind, chunked=False, size_bytes=len(body)) + body
    frames = b"".join(map(_framed, form.chunks(answer)))
    end = b"0\r\n\r\n" if answer.cut_after is None else b""
    return _head(answer, form.kind, chunked=True) + frames + end


async def _receive(stream: anyio.abc.SocketStream, buffer: bytes) -> tuple[Received, bytes]:
    while b"\r\n\r\n" not in buffer:
        buffer += await stream.receive()
    head, _, rest = buffer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (li.partition(":") for li in lines)
    }
    size_bytes = int(headers.get("content-length", "0"))
    parts, have_bytes = [rest], len(rest)
    while have_bytes < size_bytes:
        parts.append(await stream.receive())
        have_bytes += len(parts[-1])
    body = b"".join(parts)
    request = Received(method=method, path=path, headers=headers, body=body[:size_bytes])
    return request, body[size_bytes:]


def _head(answer: Answer, kind: str, *, chunked: bool, size_bytes: int = 0) -> bytes:
    """Return the head; `kind` is the media type of a stream, empty for what is none."""
    kind = kind if kind and answer.status == 200 else "application/json"
    fields = {
        "content-type": kind,
        **({"transfer-encoding": "chunked"} if chunked else {"content-length": str(size_bytes)}),
        **answer.headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    reason = _REASONS.get(answer.status, "Error")
    return f"HTTP/1.1 {answer.status} {reason}\r\n{lines}\r\n".encode()


def _framed(chunk: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(chunk), chunk)


_MODELS = json.dumps({"object": "list", "data": [{"id": "fake-1", "object": "model"}]}).encode()


async def _main() -> None:
    options = argparse.ArgumentParser(description="A model API for load tests.")
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--text", default="All right.", help="the reply")
    options.add_argument("--piece", default="", help="or this, in one chunk")
    options.add_argument("--chunks", type=int, default=0, help="or so many words")
    options.add_argument("--delay-ms", type=float, default=0, help="before the first byte")
    options.add_argument("--piece-delay-ms", type=float, default=0, help="before each chunk")
    given = options.parse_args()
    answer = Answer(text=given.text, pieces=(given.piece,) if given.piece else ())
    if given.chunks:
        answer = replace(answer, pieces=tuple(f"word{n} " for n in range(given.chunks)))
    answer = replace(
        answer, delay_s=given.delay_ms / 1000, piece_delay_s=given.piece_delay_ms / 1000
    )
    async with open_model_api(default=answer, port=given.port, kept=1) as api:
        print(api.url, flush=True)  # noqa: T201 - the one line that the starter reads
        await anyio.sleep_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(_main, backend_options={"use_uvloop": True})
