"""`web_search` against the APIs of its providers on loopback, and what can go wrong there."""

from __future__ import annotations

import logging
from typing import Any, get_args

import anyio
import pytest
from support.patience import WAIT_S
from support.search_servers import KEY, as_json, brave, searxng, tavily
from support.tables import table
from support.tool_environments import call_tool, tool_environment
from support.web_server import (
    Answer,
    WebServer,
    endless,
    in_turn,
    open_web_server,
    page,
    raw,
    stall,
)

from everturn_actors.errors import ToolFailedError
from everturn_actors.ports import ToolOutput
from everturn_gateway.plugins import ToolSettingsError
from everturn_gateway.tools.web import search_tool, searching
from everturn_gateway.tools.web.search_apis import SearchProvider, SearchSettings
from everturn_gateway.tools.web.search_tool import WebSearch
from everturn_gateway.tools.web.tools import web_tools

PATHS: dict[SearchProvider, str] = {
    "brave": "/web/search",
    "searxng": "/search",
    "tavily": "/search",
}
EVERY: tuple[SearchProvider, ...] = get_args(SearchProvider)


def searcher(
    web: WebServer,
    provider: SearchProvider,
    *,
    key: str = KEY,
    environ: dict[str, str] | None = None,
) -> WebSearch:
    """Return the tool, with `web` in place of the provider."""
    settings = SearchSettings(provider=provider, base_url=f"{web.url}/", api_key=key)
    (tool,) = web_tools(tool_environment(environ=environ), fetch=False, search=settings)
    assert isinstance(tool, WebSearch)
    return tool


def results(provider: SearchProvider, count: int) -> list[dict[str, Any]]:
    """Return so many results as the provider writes them."""
    snippet = "description" if provider == "brave" else "content"
    return [
        {"title": f"Page {n}", "url": f"https://site.example/{n}", snippet: f"About {n}."}
        for n in range(1, count + 1)
    ]


def serving(web: WebServer, provider: SearchProvider, found: list[dict[str, Any]]) -> None:
    """Let `web` be the provider and find this."""
    servers = {"brave": brave, "searxng": searxng, "tavily": tavily}
    web.routes[PATHS[provider]] = servers[provider](found)


async def search(tool: WebSearch, query: str = "cod & chips", **arguments: object) -> ToolOutput:
    """Return what the tool says, its refusals included."""
    try:
        return await call_tool(tool, {"query": query, **arguments})
    except ToolFailedError as error:
        return ToolOutput(text=str(error), is_error=True)


# --- finding ---


@table("provider", EVERY)
async def test_what_is_found_is_listed_the_best_first(provider: SearchProvider) -> None:
    """Title, address and a few words: enough to choose what to read."""
    async with open_web_server() as web:
        serving(web, provider, results(provider, 12))
        got = await search(searcher(web, provider))
        three = await search(searcher(web, provider), count=3)

        assert not got.is_error
        assert got.untrusted
        assert "1. Page 1\n   https://site.example/1\n   About 1.\n\n2. Page 2" in got.text
        assert got.text.count("https://") == 5
        assert three.text.count("https://") == 3
        assert "cod" in web.asked[0].path + web.asked[0].body.decode()


@table("provider", EVERY)
async def test_nothing_found_is_no_error(provider: SearchProvider) -> None:
    """The model should try other words, not give up on the tool."""
    async with open_web_server() as web:
        serving(web, provider, [])

        assert await search(searcher(web, provider)) == ToolOutput(
            text="Nothing was found. Try other words."
        )


async def test_markup_and_what_is_no_page_are_left_out_and_long_ones_cut() -> None:
    """Some engines leave tags in, and a result can be anything."""
    async with open_web_server() as web:
        long = "word " * 1_000
        found: list[dict[str, Any]] = [
            {"title": "Fish &amp; <strong>chips</strong>", "url": "https://a.example/"},
            {"title": "bad", "url": "javascript:alert(1)"},
            {"title": "none"},
            {"title": None, "url": "https://b.example/", "content": f"a < b <br/>{long}"},
        ]
        serving(web, "searxng", found)
        text = (await search(searcher(web, "searxng"))).text

        assert "1. Fish & chips\n   https://a.example/\n\n2. (no title)\n" in text
        assert "a < b word" in text
        assert "javascript" not in text
        assert len(text) < 1_000


@table(("provider", "variable"), [("brave", "BRAVE_API_KEY"), ("tavily", "TAVILY_API_KEY")])
async def test_a_key_may_come_from_the_environment(provider: SearchProvider, variable: str) -> None:
    """A key in a file under version control is a key lost."""
    async with open_web_server() as web:
        serving(web, provider, results(provider, 1))
        with_key = await search(searcher(web, provider, key="", environ={variable: KEY}))
        without = await search(searcher(web, provider, key=""))

        assert "Page 1" in with_key.text
        assert without.is_error
        assert f"${variable}" in without.text
        assert len(web.asked) == 1


def test_a_searxng_without_address_is_refused_when_the_agent_is_loaded() -> None:
    """There is no SearXNG that answers everybody."""
    with pytest.raises(ToolSettingsError, match="base_url: searxng has no address"):
        web_tools(tool_environment(), fetch=False, search=SearchSettings(provider="searxng"))


# --- failures ---


@table("provider", ["brave", "tavily"])
async def test_a_refused_key_is_the_owners_to_mend(provider: SearchProvider) -> None:
    """The model can do nothing about it, and must not try for ever."""
    async with open_web_server() as web:
        serving(web, provider, [])
        got = await search(searcher(web, provider, key="another-key"))

        assert got.is_error
        assert f"{provider} refused the key; the owner" in got.text


async def test_a_searxng_that_gives_no_json_says_where_to_set_it() -> None:
    """It is off by default, and the error of the server does not tell."""
    async with open_web_server() as web:
        web.routes["/search"] = searxng([], formats=("html",))

        assert "search.formats" in (await search(searcher(web, "searxng"))).text


async def test_a_short_pause_is_kept_and_a_long_one_is_told() -> None:
    """The small plans answer one search a second; two in one reply are no reason to fail."""
    async with open_web_server() as web:
        busy: dict[str, Any] = {"type": "ErrorResponse", "error": {"code": "RATE_LIMITED"}}
        good = as_json({"type": "search", "web": {"results": results("brave", 1)}})
        now, later = as_json(busy, status=429, retry_after="0"), as_json(busy, status=429)
        reset = as_json(busy, status=429, x_ratelimit_reset="0, 1419704")
        minutes = as_json(busy, status=429, retry_after="90")
        cases: list[tuple[Answer, str, int]] = [
            (in_turn(now, good), "Page 1", 2),
            (in_turn(reset, good), "Page 1", 2),
            (now, "try again in 0 s", 2),
            (minutes, "try again in 90 s", 1),
            (later, "try again later", 1),
        ]
        for answer, said, times in cases:
            web.routes["/web/search"] = answer
            web.asked.clear()

            assert said in (await search(searcher(web, "brave"))).text
            assert len(web.asked) == times


@table(
    ("answer", "said"),
    [
        (page(b"<h1>oops</h1>", status=500), "tavily failed (500); try again later"),
        (as_json({"detail": {"error": "plan limit"}}, status=432), "used up: plan limit"),
        (as_json({"detail": "bad days"}, status=400), "refused the search (400): bad days"),
        (page(b"{"), "not JSON"),
        (page(b"[]"), "no list of results"),
        (page(b'{"results": 7}'), "is no list of results"),
        (page(b"", status=302, headers={"location": "http://169.254.169.254/"}), "(302)"),
        (raw(b"SSH-2.0-x\r\n"), "cannot be reached"),
        (endless, "more than 2,097,152 bytes"),
    ],
)
async def test_whatever_a_provider_answers_is_told_in_words(answer: Answer, said: str) -> None:
    """The model goes on without it, and knows why."""
    async with open_web_server() as web:
        web.routes["/search"] = answer
        got = await search(searcher(web, "tavily"))

        assert got.is_error
        assert said in got.text


async def test_a_provider_that_does_not_answer_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A turn must not hang on a search: neither on silence, nor on drops."""
    async with open_web_server() as web:
        web.routes["/search"] = stall
        monkeypatch.setattr(searching, "_TIMEOUT_S", 0.05)
        silent = await search(searcher(web, "tavily"))
        monkeypatch.setattr(searching, "_TIMEOUT_S", 20)
        monkeypatch.setattr(search_tool, "DEADLINE_S", 0.05)
        late = await search(searcher(web, "tavily"))

        assert silent.text == late.text == "tavily did not answer within 0.05 s"


async def test_a_cancelled_search_hangs_up_at_once() -> None:
    """`/stop` has to work within a second."""
    async with open_web_server() as web:
        web.routes["/search"] = stall
        with anyio.fail_after(WAIT_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(search, searcher(web, "tavily"))
                await web.until_asked()
                tasks.cancel_scope.cancel()
            await web.left.wait()


async def test_a_key_that_comes_back_in_an_error_is_masked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What the model reads, people in a chat may read."""
    caplog.set_level(logging.DEBUG, logger="everturn_gateway")
    async with open_web_server() as web:
        web.routes["/search"] = as_json({"detail": f"no plan for {KEY}"}, status=400)
        tool = searcher(web, "tavily")
        got = await search(tool)

        assert "no plan for ***" in got.text
        assert KEY not in got.text + caplog.text + repr(tool._api)


@table("arguments", [{"query": ""}, {"query": "x" * 401}, {"query": "x", "count": 21}])
async def test_what_no_provider_takes_is_refused_before_it_is_asked(
    arguments: dict[str, object],
) -> None:
    """It costs nothing to say which argument is wrong."""
    async with open_web_server() as web:
        with pytest.raises(ToolFailedError, match=r"query|count"):
            await call_tool(searcher(web, "tavily"), arguments)
        assert web.asked == []


async def test_searches_of_one_reply_go_one_after_the_other() -> None:
    """Side by side they would all but one be refused."""
    async with open_web_server() as web:
        together, most = 0, 0

        async def count(asked: Any, stream: Any) -> None:
            nonlocal together, most
            together += 1
            most = max(most, together)
            await anyio.wait_all_tasks_blocked()
            await as_json({"results": []})(asked, stream)
            together -= 1

        web.routes["/search"] = count
        tool = searcher(web, "tavily")
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(search, tool)

        assert (most, len(web.asked)) == (1, 3)


def test_its_traits_say_that_it_reads_and_that_it_reaches_outside() -> None:
    """What is searched for goes to a company: somebody is asked."""
    (tool,) = web_tools(tool_environment(), fetch=False, search=SearchSettings(provider="brave"))

    assert (tool.capabilities.kind, tool.capabilities.read_only, tool.capabilities.safe) == (
        "builtin",
        True,
        False,
    )
