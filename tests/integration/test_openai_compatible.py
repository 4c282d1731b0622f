"""The OpenAI-compatible adapter against real sockets: our API, llmock, and OpenAI's own client."""

from __future__ import annotations

import json
import ssl
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import openai
import pytest
from anyio.abc import SocketAttribute, SocketStream
from llmock.pytest_plugin import LLMock
from support.model_api import (
    Answer,
    ModelApi,
    open_model_api,
    overflow,
    rate_limited,
    refused,
    server_error,
    unauthorized,
)
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelRefusedError,
    ModelTransientError,
    RateLimitedError,
    TruncatedStreamError,
)
from everturn_actors.model import (
    AnyMessage,
    ModelRequest,
    Reply,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Usage,
    UserMessage,
)
from everturn_actors.ports import ModelProvider
from everturn_actors.spec import ModelSpec
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.providers import open_providers
from everturn_gateway.providers.openai_compatible import OpenAICompatible
from everturn_gateway.providers.transport.endpoints import Endpoint
from everturn_gateway.providers.transport.http_clients import HttpClients
from everturn_gateway.providers.transport.http_session import HttpSession
from everturn_gateway.providers.transport.streaming import Connection

PACKED_BYTES = 32 * 1024 * 1024
KEY = "sk-test-0123456789"
DEADLINE_S = 30.0  # of a silent server
LOOK = ToolDefinition(
    name="look", description="Looks", parameters={"type": "object", "properties": {}}
)


def ignore(_piece: str) -> None:
    """Take a piece of text that does not matter."""


def request(*messages: AnyMessage, **fields: Any) -> ModelRequest:
    """Return a request with these messages."""
    return ModelRequest(
        model="fake-1", system="Be kind.", messages=messages or (UserMessage(text="Hi"),), **fields
    )


@asynccontextmanager
async def open_adapter(
    base_url: str, *, key: str = KEY, registry: SecretRegistry | None = None
) -> AsyncGenerator[ModelProvider]:
    """Open the adapter as the gateway does."""
    async with open_providers(
        environ={"OPENAI_API_KEY": key}, models_dir=Path("none"), registry=registry
    ) as providers:
        yield providers.make(
            ModelSpec(provider="openai", name="fake-1", base_url=base_url), Path("none")
        )


@asynccontextmanager
async def open_impatient(url: str, stall_timeout_s: float) -> AsyncGenerator[ModelProvider]:
    """Open an adapter that gives a silent server less time."""
    clients = HttpClients()
    endpoint = Endpoint(
        address=url.removesuffix("/v1"),
        path="/v1/chat/completions",
        stall_timeout_s=stall_timeout_s,
    )
    try:
        yield OpenAICompatible(Connection(endpoint=endpoint, clients=clients, mask=str))
    finally:
        await clients.aclose()


def open_plain(url: str) -> AbstractAsyncContextManager[ModelProvider]:
    """Open an adapter that asks its server for nothing but replies.

    What is asked behind a reply may come late, and takes the fault of the next test.
    """
    return open_impatient(url, DEADLINE_S)


async def test_a_turn_with_tools_is_sent_and_read() -> None:
    """What the server gets and what the turn gets is the whole contract."""
    async with open_model_api() as api, open_adapter(api.url) as adapter:
        call = ToolCall(call_id="c1", name="look", arguments='{"at":"x"}')
        api.script(Answer(text="One moment. ", calls=(call,), reasoning="hm"))
        reply = await adapter.complete(
            request(
                UserMessage(text="look"),
                Reply(text="", calls=(call,)),
                ToolResult(call_id="c1", name="look", text="a cat"),
                tools=(LOOK,),
                max_output_tokens=50,
                temperature=0.5,
            ),
            ignore,
        )

    assert reply == Reply(
        text="One moment. ",
        reasoning="hm",
        calls=(call,),
        usage=Usage(input_tokens=11, output_tokens=7, cached_tokens=3),
        stop_reason="tool_calls",
        model="fake-1",
    )
    (sent,) = api.requests
    assert (sent.method, sent.path) == ("POST", "/v1/chat/completions")
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.json() == {
        "model": "fake-1",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "max_tokens": 50,
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "look"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"at":"x"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Looks",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
    }


async def test_each_piece_is_handed_on_before_the_next_is_sent() -> None:
    """People watch the reply being written, not a page after a minute."""
    second = anyio.Event()
    said: list[str] = []

    def hear(piece: str) -> None:
        said.append(piece)
        second.set()  # only what was heard lets the server go on

    async with open_model_api() as api, open_adapter(api.url) as adapter:
        api.script(Answer(pieces=("one ", "two"), hold={1: second}))
        with anyio.fail_after(WAIT_S):
            await adapter.complete(request(), hear)

    assert said == ["one ", "two"]


async def test_connections_are_kept_and_requests_begin_alike() -> None:
    """A handshake takes time, and a prompt that begins as the last one did costs a tenth."""
    # A new connection for each call costs a handshake with a server far away.
    async with open_model_api() as api, open_impatient(api.url, 30) as adapter:
        for _ in range(5):
            await adapter.complete(request(), ignore)

    assert (api.count, api.connections) == (5, 1)

    # Providers charge a tenth for a prompt that begins as the last one did, byte for byte.
    old = UserMessage(text="old")
    async with open_model_api() as api, open_adapter(api.url) as adapter:
        await adapter.complete(request(old), ignore)
        await adapter.complete(request(old, Reply(text="x"), UserMessage(text="new")), ignore)

    first, second = api.requests
    assert second.body.startswith(first.body.partition(b"]}")[0])


ERROR_PARTS: tuple[tuple[Answer, type[ModelError], str], ...] = (
    (unauthorized(), ModelAuthError, "Incorrect API key provided (HTTP 401)"),
    (rate_limited(), RateLimitedError, "Rate limit reached (HTTP 429)"),
    (overflow(), ContextOverflowError, "maximum context length is 8192 tokens"),
    (server_error(), ModelTransientError, "The server had an error (HTTP 500)"),
    (server_error(529), ModelTransientError, "(HTTP 529)"),
    (refused(404, "no such model"), ModelRefusedError, "no such model (HTTP 404)"),
    (Answer(text="a b", cut_after=1), TruncatedStreamError, "broke off"),
    (Answer(text="a b", cut_after=0), ModelTransientError, "the connection broke"),
    (Answer(text="a b", end_after=1), TruncatedStreamError, "without a finish reason"),
    (Answer(text="a b", garbage_after=1), ModelTransientError, "did not parse"),
    (
        Answer(text="a b", error_after=(1, {"message": "overloaded", "code": 503})),
        ModelTransientError,
        "overloaded",
    ),
    (
        Answer(status=307, headers={"location": "http://127.0.0.1:1/elsewhere"}, body=b""),
        ModelRefusedError,
        "answered with a redirect to http://127.0.0.1:1/elsewhere; set base_url",
    ),
    (
        Answer(headers={"content-type": "text/html"}, body=b"<html>Welcome</html>"),
        ModelRefusedError,
        "answered with a web page",
    ),
    (
        Answer(text="", calls=(ToolCall(call_id="c", name="", arguments="{}"),)),
        ModelTransientError,
        "a call that names no tool",
    ),
)


@table(("answer", "kind", "text"), ERROR_PARTS)
async def test_each_failure_has_its_kind_and_the_next_call_works(
    answer: Answer, kind: type[ModelError], text: str
) -> None:
    """The turn decides by the kind; and no failure may spoil the connection for the next call."""
    async with open_model_api() as api, open_adapter(api.url) as adapter:
        api.script(answer)
        with pytest.raises(ModelError) as raised:
            await adapter.complete(request(), ignore)
        reply = await adapter.complete(request(), ignore)

    assert type(raised.value) is kind
    assert str(raised.value).startswith(f"fake-1 at {api.url.removesuffix('/v1')}: ")
    assert text in str(raised.value)
    assert reply.text == "All right."


async def test_a_slow_server_is_waited_for_while_something_is_to_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Comments are no silence, and a whole reply waits for no tail."""
    # A model that thinks for minutes says so with comments: that is no silence.
    body = b": thinking\n\n" * 3 + b'data: {"choices":[{"delta":{"content":"4"},"finish_reason":'
    body += b'"stop"}]}\n\ndata: [DONE]\n\n'
    async with open_model_api() as api, open_adapter(api.url) as adapter:
        api.script(Answer(body=body))

        assert (await adapter.complete(request(), ignore)).text == "4"

    # The text is there; only its usage is missing, and that is worth seconds, not a minute.
    monkeypatch.setattr("everturn_gateway.providers.transport.streaming.TAIL_S", 0.1)
    async with open_model_api() as api, open_adapter(api.url) as adapter:
        api.script(Answer(text="a b", stall_after=3))  # after two words and the finish reason
        with anyio.fail_after(WAIT_S):
            reply = await adapter.complete(request(), ignore)

    assert (reply.text, reply.stop_reason, reply.usage) == ("a b", "stop", Usage())


@table(
    ("variable", "value"),
    [("ALL_PROXY", "socks4://nowhere:1"), ("SSL_CERT_FILE", "/no/such/file")],
)
async def test_an_environment_that_cannot_be_used_is_a_clear_refusal(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """The proxy of a company is set once and wrongly; the session must survive it."""
    monkeypatch.setenv(variable, value)
    async with open_adapter("https://models.invalid/v1") as adapter:
        with pytest.raises(ModelRefusedError, match="proxy or certificates of the environment"):
            await adapter.complete(request(), ignore)


async def test_a_proxy_is_asked_for_other_machines_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is one, it is often the only way out, and Ollama stands on this one."""
    # Ollama on this machine works behind a company's proxy without NO_PROXY.
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with open_model_api() as api, open_adapter(api.url) as adapter:
        assert (await adapter.complete(request(), ignore)).text == "All right."

    # Where there is a proxy, it is often the only way out.
    async with open_model_api() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        async with open_adapter("http://models.invalid/v1") as adapter:
            reply = await adapter.complete(request(), ignore)

    assert reply.text == "All right."
    assert proxy.requests[0].path == "http://models.invalid/v1/chat/completions"


@table("streams", [True, False])
async def test_a_reply_that_only_lost_its_usage_counts(streams: bool) -> None:
    """The text is whole once the finish reason came, whether it came in pieces or at once."""
    chunk = b'data: {"choices":[{"delta":{"content":"4"},"finish_reason":"stop"}]}\n\n'
    whole = b'{"choices":[{"message":{"content":"4"},"finish_reason":"stop"}]}'
    kind = "text/event-stream" if streams else "application/json"
    async with open_model_api() as api, open_adapter(api.url) as adapter:
        api.script(Answer(headers={"content-type": kind}, body=chunk if streams else whole))
        reply = await adapter.complete(request(), ignore)

    assert (reply.text, reply.usage) == ("4", Usage())


async def test_what_a_model_refuses_by_name_is_left_out_from_then_on() -> None:
    """Reasoning models take one temperature, and only the new name of the output limit."""
    fixed = refused(400, "Unsupported value", param="temperature", code="unsupported_value")
    renamed = refused(
        400, "Unsupported parameter", param="max_tokens", code="unsupported_parameter"
    )
    async with open_model_api() as api, open_adapter(api.url) as adapter:
        api.script(fixed, renamed)
        asked = request(max_output_tokens=5, temperature=0.7)
        first = await adapter.complete(asked, ignore)
        second = await adapter.complete(asked, ignore)

    assert first.text == second.text == "All right."
    assert api.count == 4
    for sent in list(api.requests)[2:]:
        assert "temperature" not in sent.json()
        assert "max_tokens" not in sent.json()
        assert sent.json()["max_completion_tokens"] == 5

    # A server that refuses everything must not be asked for ever.
    always = refused(400, "Unsupported", param="temperature", code="unsupported_value")
    async with open_model_api(default=always) as api, open_adapter(api.url) as adapter:
        with pytest.raises(ModelRefusedError, match="Unsupported"):
            await adapter.complete(request(temperature=0.7), ignore)

    assert api.count == 2


async def test_what_is_packed_a_thousandfold_comes_in_pieces_of_bounded_size() -> None:
    """A server may send little that becomes much; others are served while it is read."""
    packer, heard = zlib.compressobj(wbits=31), anyio.Event()
    plain = [b"first", b" " * PACKED_BYTES]
    first = packer.compress(plain[0]) + packer.flush(zlib.Z_SYNC_FLUSH)
    rest = packer.compress(plain[1]) + packer.flush()
    pieces: list[bytes] = []

    async def answer(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + first)
            await heard.wait()
            await stream.send(rest)

    def take(piece: bytes) -> None:
        pieces.append(piece)
        heard.set()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - not Django's
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        address = f"http://127.0.0.1:{port}"
        certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        session = HttpSession(address, certificates=certificates, proxy=None)
        with anyio.fail_after(WAIT_S):
            async with session.request("GET", "/", headers={}, silence_s=30) as got:
                await got.hand_on(take)
        await session.aclose()
        tasks.cancel_scope.cancel()

    assert b"".join(pieces) == b"".join(plain)
    assert max(map(len, pieces)) < PACKED_BYTES / 16


# --- against OpenAI's own client ---


async def official(api: ModelApi, answer: Answer) -> Reply:
    """Return an answer as the official client reads it."""
    api.script(answer)
    text, calls, usage, finish_reason = "", dict[int, list[str]](), Usage(), ""
    async with openai.AsyncOpenAI(
        base_url=api.url, api_key=KEY, max_retries=0, timeout=WAIT_S
    ) as client:
        stream = await client.chat.completions.create(
            model="fake-1",
            messages=[{"role": "user", "content": "Hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish_reason = choice.finish_reason or finish_reason
                for piece in choice.delta.tool_calls or ():
                    call = calls.setdefault(piece.index, ["", "", ""])
                    call[0] += piece.id or ""
                    if piece.function:
                        call[1] += piece.function.name or ""
                        call[2] += piece.function.arguments or ""
            if chunk.usage and chunk.usage.prompt_tokens_details:
                usage = Usage(
                    input_tokens=chunk.usage.prompt_tokens,
                    output_tokens=chunk.usage.completion_tokens,
                    cached_tokens=chunk.usage.prompt_tokens_details.cached_tokens or 0,
                )
    return Reply(
        text=text,
        calls=tuple(ToolCall(call_id=c[0], name=c[1], arguments=c[2]) for c in calls.values()),
        usage=usage,
        stop_reason=finish_reason,
        model="fake-1",
    )


@table(
    "answer",
    [
        Answer(text="Grüße an 🌍, “alle”\n\n\u2028 und \x7f."),
        Answer(pieces=("", "a", "", " b"), finish_reason="length"),
        Answer(
            text="Both: ",
            calls=(
                ToolCall(call_id="call_a", name="look", arguments='{"at": "x\\n\\u00e9"}'),
                ToolCall(call_id="call_b", name="look", arguments="{}"),
            ),
        ),
        Answer(text="I", finish_reason="content_filter", cached_tokens=0),
    ],
    ids=["unicode", "empty pieces", "calls", "filtered"],
)
async def test_the_same_bytes_are_read_as_the_official_client_reads_them(answer: Answer) -> None:
    """An independent reading of the same stream: text, calls, usage and finish reason agree."""
    async with open_model_api() as api, open_adapter(api.url) as adapter:
        theirs = await official(api, answer)
        api.script(answer)
        ours = await adapter.complete(request(), ignore)

    assert ours == theirs


# --- judged by llmock ---


async def answered(
    adapter: ModelProvider, asked: ModelRequest, *, tries: int = 4
) -> Reply | ModelError:
    """Call as a turn does: again on what is retryable, after the wait that was asked for."""
    failure: ModelError | None = None
    for attempt in range(tries):
        try:
            return await adapter.complete(asked, ignore)
        except ModelError as error:
            failure = error
            if not error.retryable:
                break
            # Not for synchronisation: llmock judges whether and how long the client waited.
            await anyio.sleep(error.retry_after_s or 0.25 * 2**attempt)
    assert failure is not None
    return failure


RECOVERED: tuple[tuple[str, Callable[[LLMock], object]], ...] = (
    ("rate limit", lambda mock: mock.rate_limit(times=2, retry_after=0.2)),
    ("500", lambda mock: mock.fail(500)),
    ("503", lambda mock: mock.fail(503)),
    ("disconnect", lambda mock: mock.disconnect(after_chunks=2)),
    ("truncate", lambda mock: mock.truncate(after_chunks=2)),
    # Paced: sent at once, all of it is away before the mock can see that the client left.
    ("corrupt", lambda mock: mock.pace(50).corrupt(after_chunks=2)),
    ("slow first token", lambda mock: mock.slow_first_token(0.2)),
)


@table("fault", [fault for _, fault in RECOVERED], ids=[n for n, _ in RECOVERED])
async def test_llmock_finds_nothing_wrong_with_a_recovered_fault(
    llmock: LLMock, fault: Callable[[LLMock], object]
) -> None:
    """A judge that is not ours: it knows what clients get wrong."""
    llmock.reset()
    fault(llmock)
    llmock.reply("The whole reply in one piece of work.", times=None)
    async with open_plain(llmock.base_url()) as adapter:
        reply = await answered(adapter, request())

    assert isinstance(reply, Reply)
    assert reply.text == "The whole reply in one piece of work."
    llmock.assert_resilient(strict=True)


async def test_llmock_sees_no_retry_of_what_cannot_succeed(llmock: LLMock) -> None:
    """A refused key is not right the second time; the words are as the real provider's."""
    faults: dict[Callable[[], object], type[ModelError]] = {
        partial(llmock.fail, 400): ModelRefusedError,
        partial(llmock.fail, 401): ModelAuthError,
        partial(llmock.fail, 404): ModelRefusedError,
        llmock.context_overflow: ContextOverflowError,
    }
    async with open_plain(llmock.base_url()) as adapter:
        for fault, kind in faults.items():
            llmock.reset()
            fault()
            assert type(await answered(adapter, request())) is kind
            llmock.assert_resilient(strict=True)


async def test_calls_of_tools_come_as_llmock_streams_them(llmock: LLMock) -> None:
    """Its calls are as the real provider streams them, broken ones as well."""
    # Its calls are as the real provider streams them.
    llmock.call_tool("look", {"at": "the cat"})
    async with open_plain(llmock.base_url()) as adapter:
        asked = UserMessage(text="look at the cat")
        first = await adapter.complete(request(asked, tools=(LOOK,)), ignore)
        results = tuple(
            ToolResult(call_id=call.call_id, name=call.name, text="asleep") for call in first.calls
        )
        last = await adapter.complete(request(asked, first, *results, tools=(LOOK,)), ignore)

    assert [(call.name, call.arguments) for call in first.calls] == [("look", '{"at": "the cat"}')]
    assert first.stop_reason == "tool_calls"
    assert last.text
    assert last.usage.input_tokens > 0
    llmock.assert_resilient(strict=True)

    # The turn tells the model what was wrong with them; the adapter mends and hides nothing.
    llmock.reset()
    llmock.call_tool("look", {"at": "x"}).break_tool_call("malformed_arguments")
    async with open_plain(llmock.base_url()) as adapter:
        reply = await adapter.complete(request(tools=(LOOK,)), ignore)

    with pytest.raises(ValueError, match=r"\w"):
        json.loads(reply.calls[0].arguments)


async def test_llmock_stall_is_left_in_time(llmock: LLMock) -> None:
    """It notices a client that sits through a silence."""
    llmock.stall(seconds=3)
    async with open_impatient(llmock.base_url(), 0.3) as adapter:
        assert isinstance(await answered(adapter, request()), Reply)

    llmock.assert_resilient(strict=True)


async def test_a_call_after_the_providers_closed_is_refused() -> None:
    """Who outlives the block that owns the connections gets an error, not a leak."""
    async with open_model_api() as api:
        async with open_adapter(api.url) as adapter:
            await adapter.complete(request(), ignore)
        with pytest.raises(RuntimeError, match="closed"):
            await adapter.complete(request(), ignore)
