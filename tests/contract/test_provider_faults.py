"""What goes wrong with an API: each provider's own words, and one meaning for the turn."""

from __future__ import annotations

import logging

import anyio
import pytest
from support.answers import Answer
from support.model_api import open_model_api
from support.patience import WAIT_S
from support.provider_kinds import (
    ANTHROPIC,
    KEY,
    KEYS,
    KINDS,
    OLLAMA,
    OVERFLOWS,
    OWN_FORMATS,
    Kind,
    ignore,
    open_impatient,
    open_kind,
    request,
)
from support.tables import table

from everturn_actors.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelRefusedError,
    ModelTransientError,
    RateLimitedError,
    ToolsRefusedError,
    TruncatedStreamError,
)
from everturn_actors.model import ToolCall
from everturn_gateway.logs import SecretRegistry

each_kind = table("kind", KINDS, ids=lambda kind: kind.title)
each_format = table("kind", OWN_FORMATS, ids=lambda kind: kind.title)


async def failure(kind: Kind, answer: Answer) -> ModelError:
    """Return what a call fails with, having checked that the next one works."""
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        api.script(answer)
        with pytest.raises(ModelError) as raised:
            await adapter.complete(request(), ignore)
        reply = await adapter.complete(request(), ignore)
        where = f"m at {api.address}: "

    assert reply.text == "All right."
    assert str(raised.value).startswith(where)
    return raised.value


@each_kind
@table(
    ("status", "message", "error"),
    [
        (401, "invalid x-api-key", ModelAuthError),
        (404, "no such model", ModelRefusedError),
        (400, "something else is wrong", ModelRefusedError),
        (429, "Too many requests", RateLimitedError),
        (500, "Internal server error", ModelTransientError),
    ],
)
async def test_each_refusal_has_its_kind(
    kind: Kind, status: int, message: str, error: type[ModelError]
) -> None:
    """The turn decides by the kind alone: what to try again, and what to tell whom."""
    raised = await failure(kind, kind.refuse(status, message))

    assert type(raised) is error
    assert message in str(raised)
    assert f"HTTP {status}" in str(raised)


async def test_overloaded_is_tried_again() -> None:
    """Anthropic has a status of its own for it."""
    raised = await failure(ANTHROPIC, ANTHROPIC.refuse(529, "Overloaded"))

    assert type(raised) is ModelTransientError


@each_kind
async def test_the_wait_and_the_request_id_are_passed_on(kind: Kind) -> None:
    """The turn waits as long as it was asked to; support asks for the id first."""
    headers = {"Retry-After": "9", "Request-Id": "req_42"}
    raised = await failure(kind, kind.refuse(429, "Slow down", headers=headers))

    assert isinstance(raised, RateLimitedError)
    assert raised.retry_after_s == 9.0
    assert "(HTTP 429, request req_42)" in str(raised)


@table(("kind", "answer", "window"), OVERFLOWS)
async def test_an_overflow_in_its_own_words_tells_the_window(
    kind: Kind, answer: Answer, window: int | None
) -> None:
    """The window that is named is learnt, and the next request fits."""
    raised = await failure(kind, answer)

    assert isinstance(raised, ContextOverflowError)
    assert raised.window_tokens == window


@each_format
@table(
    ("answer", "error", "text"),
    [
        (Answer(text="a b", cut_after=1), TruncatedStreamError, "broke off"),
        (Answer(text="a b", cut_after=0), ModelTransientError, "the connection broke"),
        (Answer(text="a b", end_after=1), TruncatedStreamError, "without a finish reason"),
        (Answer(text="a b", end_after=0), TruncatedStreamError, "without a finish reason"),
        (Answer(text="a b", garbage_after=1), ModelTransientError, "did not parse"),
        (
            Answer(text="a b", error_after=(1, {"message": "gone"}), headers={"request-id": "r7"}),
            ModelTransientError,
            "gone (request r7)",
        ),
        (
            Answer(status=307, headers={"location": "http://127.0.0.1:1/other"}, body=b""),
            ModelRefusedError,
            "answered with a redirect to http://127.0.0.1:1/other; set base_url",
        ),
        (
            Answer(headers={"content-type": "text/html"}, body=b"<html>Welcome</html>"),
            ModelRefusedError,
            "answered with a web page",
        ),
        (Answer(status=502, body=b"<h1>Bad gateway</h1>"), ModelTransientError, "Bad gateway"),
        (Answer(status=500, body=b""), ModelTransientError, "no explanation"),
        (Answer(body=b"null\n\n"), ModelTransientError, ""),
        (Answer(body=b'data: "text"\n\n"text"\n'), ModelTransientError, ""),
    ],
)
async def test_a_broken_answer_is_never_half_a_reply(
    kind: Kind, answer: Answer, error: type[ModelError], text: str
) -> None:
    """Half a reply looks like a whole one; only what the API says about its end tells."""
    raised = await failure(kind, answer)

    assert isinstance(raised, error)
    assert text in str(raised)


@each_format
async def test_calls_that_are_cut_off_are_no_calls(kind: Kind) -> None:
    """A tool must never run on half its arguments."""
    call = ToolCall(call_id="c", name="look", arguments='{"at": "the cat"}')
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        api.script(Answer(text="a", calls=(call,), end_after=0))
        with pytest.raises(TruncatedStreamError):
            await adapter.complete(request(), ignore)


@each_format
async def test_a_silent_server_is_given_up(kind: Kind) -> None:
    """A connection that died without a word must not hold a turn until its own deadline."""
    async with (
        open_model_api() as api,
        open_impatient(kind, kind.base_url(api), 0.1) as adapter,
    ):
        api.script(Answer(text="a b", stall_after=1))
        with pytest.raises(ModelTransientError, match=r"sent nothing for 0\.1 seconds"):
            await adapter.complete(request(), ignore)


@each_format
async def test_a_cancelled_call_closes_its_request(kind: Kind) -> None:
    """The provider must stop writing, and stop counting, a reply that nobody wants."""
    begun = anyio.Event()
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        api.script(Answer(text="a b", stall_after=1))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(adapter.complete, request(), lambda _piece: begun.set())
            with anyio.fail_after(WAIT_S):
                await begun.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(WAIT_S):
            await api.requests[0].left.wait()


@each_format
async def test_no_text_shows_the_key(kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    """Servers quote keys and headers back; people paste errors and logs into public places."""
    caplog.set_level(logging.DEBUG, logger="everturn_gateway")
    registry = SecretRegistry()
    registry.add(KEY)  # none is sent to Ollama in the open
    texts: list[str] = []
    async with open_model_api() as api, open_kind(kind, api, registry=registry) as adapter:
        api.script(
            kind.refuse(401, f"bad key {KEY}"),
            Answer(text="a b", error_after=(1, {"message": f"key {KEY}"})),
        )
        for _ in range(2):
            with pytest.raises(ModelError) as raised:
                await adapter.complete(request(), ignore)
            texts.append(str(raised.value))

    assert KEY not in "".join(texts) + repr(adapter) + caplog.text
    assert "bad key ***" in texts[0]


async def test_a_model_that_is_not_there_is_fetched_by_its_owner() -> None:
    """The most common first mistake with Ollama has one remedy."""
    raised = await failure(OLLAMA, OLLAMA.refuse(404, "model 'm' not found"))

    assert str(raised).endswith("fetch it: `ollama pull m`")


async def test_a_model_without_tools_says_so() -> None:
    """The turn goes on without them."""
    said = "registry.ollama.ai/library/m:latest does not support tools"

    assert type(await failure(OLLAMA, OLLAMA.refuse(400, said))) is ToolsRefusedError


async def test_nobody_at_the_address_is_transient_and_says_what_to_do() -> None:
    """Ollama that is not running is the most common first error."""
    async with open_model_api() as api:
        pass
    async with open_kind(OLLAMA, api) as adapter:
        with pytest.raises(ModelTransientError, match=r"cannot be reached .*is Ollama running\?"):
            await adapter.complete(request(), ignore)


@each_format
async def test_a_refusal_in_a_stream_of_200_is_typed(kind: Kind) -> None:
    """Some proxies answer 200 to everything and put the refusal into the stream."""
    error = {"message": "Rate limit reached", "type": "rate_limit_error", "code": 429}
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        api.script(Answer(text="a", error_after=(0, error)))
        with pytest.raises(ModelError) as raised:
            await adapter.complete(request(), ignore)

    # Ollama's errors have a text alone.
    wanted = ModelTransientError if kind is OLLAMA else RateLimitedError
    assert type(raised.value) is wanted


def test_the_keys_of_these_tests_are_those_of_the_providers() -> None:
    """A test that sends no key would pass for the wrong reason."""
    assert set(KEYS) == {f"{kind.name.upper()}_API_KEY" for kind in KINDS if kind is not OLLAMA}
