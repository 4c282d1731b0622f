"""Several keys of one provider: which is used, for how long the others rest, and what is told."""

from __future__ import annotations

import logging
from contextlib import aclosing
from pathlib import Path

import pytest
from support.answers import Answer
from support.model_api import ModelApi, open_model_api, rate_limited, unauthorized
from support.provider_kinds import ANTHROPIC, GEMINI, OPENAI, Kind, ignore, request
from support.tables import table

from everturn_actors.errors import ModelAuthError, RateLimitedError
from everturn_actors.spec import ModelSpec
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.providers import open_providers
from everturn_gateway.providers.key_rings import KeyRing, KeyRings
from everturn_gateway.providers.passing_on import PassingOn
from everturn_gateway.providers.transport.endpoints import endpoints_for

FIRST, SECOND = "sk-first-0123456789", "sk-second-0123456789"
KEYS = dict.fromkeys(
    ("OPENAI_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY"), f"{FIRST}, {SECOND}"
)
FOLDER = Path("none")


def used(api: ModelApi) -> list[str]:
    """Return the keys that requests came with, oldest first."""
    headers = [each.headers for each in api.requests]
    sent = [each.get("x-api-key") or each.get("authorization", "") for each in headers]
    return [each.removeprefix("Bearer ") for each in sent]


@table("kind", [OPENAI, GEMINI, ANTHROPIC])
async def test_a_key_that_is_not_taken_gives_way_to_the_next(
    kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody waits for it; it is not asked with again; who may see no key sees none."""
    registry = SecretRegistry()
    caplog.clear()  # of the kind before
    async with (
        open_model_api() as api,
        open_providers(environ=KEYS, models_dir=FOLDER, registry=registry) as providers,
    ):
        provider = providers.make(kind.spec(api), FOLDER)
        other = providers.make(kind.spec(api, name="n"), FOLDER)
        api.script(kind.refuse(401, f"no such key: {FIRST}"))
        with caplog.at_level(logging.WARNING):
            reply = await provider.complete(request(), ignore)
        await provider.complete(request(), ignore)
        await other.complete(request(), ignore)
        told = providers.refused_keys()

    assert reply.text
    assert used(api) == [FIRST, SECOND, SECOND, SECOND]
    assert told == (f"{kind.name} at {api.address}: key 1 of 2 is refused; replace it",)
    assert [vars(each)["key"] for each in caplog.records] == ["1 of 2"]
    assert registry.mask(f"{FIRST} {SECOND}") == "*** ***"


async def test_where_all_are_used_too_much_the_first_wait_is_told() -> None:
    """A turn waits no longer than it has to, and nobody is asked with all of them meanwhile."""
    async with (
        open_model_api() as api,
        open_providers(environ=KEYS, models_dir=FOLDER) as providers,
    ):
        provider = providers.make(OPENAI.spec(api), FOLDER)
        api.script(rate_limited(retry_after="40"), rate_limited(retry_after="20"))
        with pytest.raises(RateLimitedError) as limited:
            await provider.complete(request(), ignore)
        api.script(rate_limited(retry_after="30"))
        with pytest.raises(RateLimitedError) as again:
            await provider.complete(request(), ignore)
        refused = providers.refused_keys()

    assert used(api) == [FIRST, SECOND, SECOND]
    assert limited.value.retry_after_s == pytest.approx(20, abs=5)
    assert again.value.retry_after_s == pytest.approx(30, abs=5)
    assert refused == ()


async def test_a_good_key_is_waited_for_and_bad_ones_are_not() -> None:
    """One that is refused stays so; where none is good, the turn fails as with a single key."""
    async with (
        open_model_api() as api,
        open_providers(environ=KEYS, models_dir=FOLDER) as providers,
    ):
        provider = providers.make(OPENAI.spec(api), FOLDER)
        api.script(rate_limited(retry_after="20"), unauthorized())
        with pytest.raises(RateLimitedError) as limited:
            await provider.complete(request(), ignore)
        api.script(unauthorized())
        with pytest.raises(ModelAuthError) as refused:
            await provider.complete(request(), ignore)
        told = providers.refused_keys()

    assert limited.value.retry_after_s == pytest.approx(20, abs=5)
    assert "Incorrect API key" in str(refused.value)
    assert len(told) == 2


async def test_nothing_is_said_twice_where_a_key_fails_in_the_middle() -> None:
    """What was shown cannot be taken back; the next try uses the other key."""
    pieces: list[str] = []
    error = {"message": "Rate limit reached", "code": "rate_limit_exceeded"}
    async with (
        open_model_api() as api,
        open_providers(environ=KEYS, models_dir=FOLDER) as providers,
    ):
        provider = providers.make(OPENAI.spec(api), FOLDER)
        api.script(Answer(text="one two", error_after=(1, error)))
        with pytest.raises(RateLimitedError):
            await provider.complete(request(), pieces.append)
        await provider.complete(request(), ignore)

    assert pieces == ["one"]
    assert used(api) == [FIRST, SECOND]


async def test_one_key_is_asked_as_ever() -> None:
    """Its errors are the provider's own, and nothing is remembered of it."""
    async with (
        open_model_api() as api,
        open_providers(environ={"OPENAI_API_KEY": FIRST}, models_dir=FOLDER) as providers,
    ):
        provider = providers.make(OPENAI.spec(api), FOLDER)
        api.script(rate_limited(), unauthorized())
        with pytest.raises(RateLimitedError) as limited:
            await provider.complete(request(), ignore)
        with pytest.raises(ModelAuthError) as refused:
            await provider.complete(request(), ignore)
        told = providers.refused_keys()

    assert limited.value.retry_after_s is None
    assert str(refused.value).endswith("Incorrect API key provided (HTTP 401)")
    assert used(api) == [FIRST, FIRST]
    assert told == ()


async def test_what_no_agent_answers_uses_the_same_keys() -> None:
    """A key that models were refused with is not tried again for embeddings, nor the reverse."""
    rings = KeyRings()
    async with open_model_api() as api, aclosing(PassingOn(KEYS, str, rings)) as to:

        async def ask() -> int:
            sending = to.answer("openai", api.url, "embeddings", headers={}, body=b"{}")
            async with sending as answer:
                while await answer.read():
                    pass
                return answer.status

        api.script(unauthorized(), Answer(body=b"{}"), Answer(body=b"{}"), rate_limited())
        statuses = [await ask(), await ask(), await ask()]

    assert used(api) == [FIRST, SECOND, SECOND, SECOND]
    assert statuses == [200, 200, 429]
    assert rings.refused() == (f"openai at {api.address}: key 1 of 2 is refused; replace it",)


def test_a_key_comes_back_after_its_rest_and_is_used_until_it_fails() -> None:
    """The one in use stays in use; a call that began before a failure says nothing any more."""
    now = 0.0
    ring = KeyRing("openai at https://h", 3, lambda: now)
    begun = ring.begin(0)
    ring.failed(0, RateLimitedError("", retry_after_s=60))
    ring.took(0, begun)
    after_first = ring.order()
    ring.took(1, ring.begin(1))
    now = 61.0
    rested = ring.order()
    ring.failed(1, ModelAuthError(""))
    ring.failed(2, RateLimitedError("", retry_after_s=5))
    ring.failed(0, RateLimitedError("", retry_after_s=9))
    all_rest = ring.order(), ring.wait_s()
    refused = ring.refused()
    now = 700.0
    ring.took(1, ring.begin(1))

    assert after_first == [1, 2]
    assert rested == [1, 2, 0]
    assert all_rest == ([2], 5.0)
    assert refused == ("openai at https://h: key 2 of 3 is refused; replace it",)
    assert ring.refused() == ()


@table(
    "text, keys",
    [
        ("sk-1", ["sk-1"]),
        (" sk-1 ,sk-2,\n,sk-1 ", ["sk-1", "sk-2"]),
        (",", [""]),
    ],
)
def test_keys_are_separated_by_commas(text: str, keys: list[str]) -> None:
    """Each once, in their order; a comma too many is no key."""
    model = ModelSpec(provider="openai", name="m", base_url="https://h/v1")

    endpoints = endpoints_for(model, {"OPENAI_API_KEY": text})

    assert [each.key for each in endpoints] == keys
    assert len({each.address for each in endpoints}) == 1
