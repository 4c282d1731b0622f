"""An OpenAI-compatible model API on loopback that does what a test tells it to.

    async with open_model_api() as api:
        api.script(Answer(text="Hello"), rate_limited(retry_after="2"))
        ...  # point the code under test at api.url
        assert api.requests[0].json()["model"] == "m"

What is not scripted gets `api.default`. Nothing here waits for time unless an answer says so: an
answer that has to come in two halves is held by an `anyio.Event`.

As a process of its own, for load: `PYTHONPATH=tests python -m support.model_api --port 0` prints
its address and serves until it is ended.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import anyio
import anyio.abc
import orjson

from everturn_actors.model import ToolCall

_REASONS = {200: "OK", 307: "Temporary Redirect", 400: "Bad Request", 401: "Unauthorized"}
_ABOUT = ("/v1/models", "/props", "/api/ps", "/api/show", "/api/v0/models")
_WAIT_S = 10.0  # how long a test waits for something that must happen


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one request gets."""

    text: str = ""
    "Streamed word by word."
    pieces: tuple[str, ...] = ()
    "Or in exactly these pieces."
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    "Empty = stop, or tool_calls where there are calls."
    input_tokens: int = 11
    output_tokens: int = 7
    cached_tokens: int = 3
    model: str = "fake-1"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    "Sent in place of everything that would be made of the fields above, in one piece."
    cut_after: int | None = None
    "After so many pieces the connection is closed."
    end_after: int | None = None
    "After so many pieces the stream ends as if it were whole, without a finish reason."
    garbage_after: int | None = None
    "After so many pieces a chunk comes that is not JSON."
    error_after: tuple[int, Mapping[str, Any]] | None = None
    "After so many pieces the stream reports this error."
    stall_after: int | None = None
    "After so many pieces nothing comes any more until the client leaves."
    hold: Mapping[int, anyio.Event] = field(default_factory=dict[int, anyio.Event])
    "Before the piece of this number (from 0) the event is awaited."
    delay_s: float = 0.0
    "Real time before the first byte: what a load test calls the model's latency."
    piece_delay_s: float = 0.0
    "Real time before each piece."

    @property
    def all_pieces(self) -> tuple[str, ...]:
        """The text in the pieces in which it is streamed."""
        return self.pieces or tuple(re.findall(r"\s*\S+(?:\s+$)?", self.text))

    @property
    def in_steps(self) -> bool:
        """Whether it cannot be sent at once."""
        return bool(self.hold or self.delay_s or self.piece_delay_s or self.stall_after is not None)


@dataclass(slots=True, kw_only=True)
class Received:
    """One request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    left: anyio.Event = field(default_factory=anyio.Event)
    "Set when the client went away before its answer was complete."

    def json(self) -> Any:  # noqa: ANN401 - whatever the code under test sent
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
        self.default = default
        self.requests: deque[Received] = deque(maxlen=kept)
        "The newest requests, oldest first, refused ones included."
        self.count = 0
        "Requests since it was opened."
        self.connections = 0
        "Connections since it was opened."
        self.told: dict[str, Any] = {}
        "What it tells about itself by path (`/props`): JSON, or bytes as they are; else a 404."
        self.asked: list[Received] = []
        "Requests for that; they are not among `requests`."
        self._scripted: deque[Answer] = deque()
        self._news = anyio.Event()
        self._encoded: dict[tuple[int, bool], tuple[Answer, bytes]] = {}

    def script(self, *answers: Answer) -> None:
        """Give these answers to the next requests, in this order."""
        self._scripted.extend(answers)

    async def received(self, count: int) -> Received:
        """Wait until `count` requests have come since it was opened; return the newest."""
        with anyio.fail_after(_WAIT_S):
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
        if request.path in _ABOUT:
            self.asked.append(request)
            await stream.send(whole_response(self._about(request.path), streamed=False))
            return True
        self.count += 1
        self.requests.append(request)
        self._news.set()
        self._news = anyio.Event()
        if not request.path.partition("?")[0].endswith("/chat/completions"):
            answer = refused(404, f"no such path: {request.path}")
        elif self._scripted:
            answer = self._scripted.popleft()
        else:
            answer = self.default if isinstance(self.default, Answer) else self.default(request)
        streamed = b'"stream":true' in request.body or b'"stream": true' in request.body
        try:
            if answer.in_steps and streamed:
                return await self._in_steps(stream, request, answer)
            await stream.send(self._at_once(answer, streamed=streamed))
        except anyio.BrokenResourceError:
            request.left.set()
            raise
        return answer.cut_after is None

    def _about(self, path: str) -> Answer:
        if path in self.told:
            told = self.told[path]
            return Answer(body=told if isinstance(told, bytes) else orjson.dumps(told))
        return Answer(body=_MODELS) if path == "/v1/models" else refused(404, f"no path {path}")

    def _at_once(self, answer: Answer, *, streamed: bool) -> bytes:
        kept = self._encoded.get((id(answer), streamed))
        if kept is None:
            kept = (answer, whole_response(answer, streamed=streamed))
            self._encoded[id(answer), streamed] = kept
        return kept[1]

    async def _in_steps(
        self, stream: anyio.abc.SocketStream, request: Received, answer: Answer
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

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(notice_leaving)
            await anyio.sleep(answer.delay_s)
            await stream.send(_head(answer, chunked=True))
            for number, chunk in enumerate(_chunks(answer)):
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


def stream_body(answer: Answer) -> bytes:
    """Return the server-sent events of an answer as one text."""
    return b"".join(_chunks(answer))


def whole_response(answer: Answer, *, streamed: bool) -> bytes:
    """Return head and body of an answer that is sent at once."""
    if answer.body is not None or answer.status != 200 or not streamed:
        body = _completion(answer) if answer.body is None else answer.body
        return _head(answer, chunked=False, size_bytes=len(body), streamed=streamed) + body
    frames = b"".join(map(_framed, _chunks(answer)))
    return (
        _head(answer, chunked=True) + frames + (b"0\r\n\r\n" if answer.cut_after is None else b"")
    )


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


def _head(answer: Answer, *, chunked: bool, size_bytes: int = 0, streamed: bool = True) -> bytes:
    kind = "text/event-stream" if streamed and answer.status == 200 else "application/json"
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


def _chunks(answer: Answer) -> list[bytes]:
    """Return the events: one for each piece of the text, what ends it, usage, and [DONE]."""
    chunks: list[bytes] = []
    for number, piece in enumerate(answer.all_pieces):
        if number in {answer.cut_after, answer.end_after}:
            return chunks
        if number == answer.garbage_after:
            return [*chunks, b'data: {"choices":[{"delta":{"cont\n\n']
        if answer.error_after is not None and number == answer.error_after[0]:
            return [*chunks, _event({"error": answer.error_after[1]})]
        chunks.append(_delta(answer, {"content": piece}))
    if answer.reasoning:
        chunks.insert(0, _delta(answer, {"reasoning_content": answer.reasoning}))
    for index, call in enumerate(answer.calls):
        chunks.extend(_call_chunks(answer, index, call))
    chunks.append(_delta(answer, {}, finish_reason=_finish_reason(answer)))
    chunks.append(_event({**_frame(answer), "choices": [], "usage": _usage(answer)}))
    chunks.append(b"data: [DONE]\n\n")
    return chunks


def _call_chunks(answer: Answer, index: int, call: ToolCall) -> list[bytes]:
    """Return a call as OpenAI streams it: its name first, its arguments in fragments."""
    begin: dict[str, Any] = {
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }
    fragments = [call.arguments[at : at + 5] for at in range(0, len(call.arguments), 5)]
    return [
        _delta(answer, {"tool_calls": [{"index": index, **part}]})
        for part in (begin, *({"function": {"arguments": piece}} for piece in fragments))
    ]


def _completion(answer: Answer) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.all_pieces)}
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in answer.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(answer)}
    frame = {**_frame(answer), "object": "chat.completion"}
    return orjson.dumps({**frame, "choices": [choice], "usage": _usage(answer)})


def _delta(answer: Answer, delta: Mapping[str, Any], *, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _event({**_frame(answer), "choices": [choice]})


def _event(value: Mapping[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def _frame(answer: Answer) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": answer.model,
        "system_fingerprint": "fp_1",
    }


def _finish_reason(answer: Answer) -> str:
    return answer.finish_reason or ("tool_calls" if answer.calls else "stop")


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
    }


_MODELS = json.dumps({"object": "list", "data": [{"id": "fake-1", "object": "model"}]}).encode()


async def _main() -> None:
    options = argparse.ArgumentParser(description="A model API for load tests.")
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--text", default="All right.", help="the reply")
    options.add_argument("--chunks", type=int, default=0, help="or so many words")
    options.add_argument("--delay-ms", type=float, default=0, help="before the first byte")
    options.add_argument("--piece-delay-ms", type=float, default=0, help="before each chunk")
    given = options.parse_args()
    answer = Answer(text=given.text)
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
