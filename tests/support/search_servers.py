"""The APIs of search providers on loopback, as strict as their documentation.

Sources, November 2026:
https://api-dashboard.search.brave.com/api-reference/web/search/get (parameters, `web.results`),
https://docs.searxng.org/dev/search_api.html (parameters, 403 for a format that is off),
https://docs.tavily.com/documentation/api-reference/endpoint/search (body, `results`, errors).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio.abc
from support.web_server import Answer, Asked, page

KEY = "key-0123456789"
_BRAVE = {"q", "count", "text_decorations", "result_filter", "offset", "country", "safesearch"}
_SEARXNG = {"q", "format", "pageno", "categories", "engines", "language", "time_range"}
_TAVILY = {"query", "max_results", "search_depth", "topic", "time_range", "include_domains"}


def as_json(value: object, *, status: int = 200, **headers: str) -> Answer:
    """Answer with JSON."""
    fields = {name.replace("_", "-"): text for name, text in headers.items()}
    return page(
        json.dumps(value).encode(), status=status, media_type="application/json", headers=fields
    )


def brave(results: list[dict[str, Any]]) -> Answer:
    """Answer as Brave does: `GET /res/v1/web/search`."""

    def check(asked: Asked) -> tuple[int, object]:
        query = {name: values[0] for name, values in parse_qs(urlsplit(asked.path).query).items()}
        if asked.headers.get("x-subscription-token") != KEY:
            detail = {"code": "SUBSCRIPTION_TOKEN_INVALID", "detail": "The token is invalid."}
            return 422, {"type": "ErrorResponse", "error": {**detail, "status": 422}}
        count = int(query.get("count", "20"))
        is_valid = set(query) <= _BRAVE and 1 <= count <= 20 and 0 < len(query["q"]) <= 400
        if asked.method != "GET" or not is_valid:
            return 422, {"type": "ErrorResponse", "error": {"code": "VALIDATION", "status": 422}}
        found: dict[str, Any] = {"type": "search", "query": {"original": query["q"]}}
        if results:
            found["web"] = {"type": "search", "results": results[:count]}
        return 200, found

    return _checked(check)


def searxng(
    results: list[dict[str, Any]], *, formats: tuple[str, ...] = ("html", "json")
) -> Answer:
    """Answer as a SearXNG does: `GET /search`; it knows no count."""

    def check(asked: Asked) -> tuple[int, object]:
        query = {name: values[0] for name, values in parse_qs(urlsplit(asked.path).query).items()}
        if query.get("format") not in formats:
            return 403, None
        if asked.method != "GET" or not set(query) <= _SEARXNG or not query.get("q"):
            return 400, None
        more: dict[str, Any] = {"answers": [], "infoboxes": [], "unresponsive_engines": []}
        return 200, {"query": query["q"], "number_of_results": 0, "results": results, **more}

    return _checked(check)


def tavily(results: list[dict[str, Any]]) -> Answer:
    """Answer as Tavily does: `POST /search`."""

    def check(asked: Asked) -> tuple[int, object]:
        if asked.headers.get("authorization") != f"Bearer {KEY}":
            return 401, {"detail": {"error": "Unauthorized: missing or invalid API key."}}
        body = json.loads(asked.body)
        is_valid = set(body) <= _TAVILY and 0 <= body.get("max_results", 5) <= 20
        if asked.method != "POST" or not is_valid or not body.get("query"):
            return 400, {"detail": {"error": "Invalid request."}}
        found = results[: body.get("max_results", 5)]
        return 200, {"query": body["query"], "answer": None, "images": [], "results": found}

    return _checked(check)


def _checked(check: Callable[[Asked], tuple[int, object]]) -> Answer:
    async def answer(asked: Asked, stream: anyio.abc.ByteStream) -> None:
        status, value = check(asked)
        if value is None:
            await page(b"<h1>no</h1>", status=status)(asked, stream)
        else:
            await as_json(value, status=status)(asked, stream)

    return answer
