"""The search providers: what each is asked, and how its answer is read. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, Literal, TypeAlias, assert_never
from urllib.parse import urlsplit

from msgspec import Struct

from everturn_actors.json_values import as_object, is_list
from everturn_gateway.plugins import ToolSettingsError

SearchProvider: TypeAlias = Literal["brave", "searxng", "tavily"]

_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,100}>")
_ERROR_CHARACTERS = 300


class SearchError(Exception):
    """A search provider gives no answer; the text is for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Who searches the web."""

    provider: SearchProvider
    base_url: str = ""
    "Of the provider's API; empty = its own. searxng has none of its own."
    api_key: str = field(default="", repr=False)
    "Empty = from the environment: BRAVE_API_KEY or TAVILY_API_KEY."


class Hit(Struct, frozen=True, kw_only=True):
    """One page that was found."""

    title: str
    url: str
    snippet: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """One request to a provider."""

    method: Literal["GET", "POST"]
    url: str
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: Mapping[str, object] | None = None
    "Sent as JSON."


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchApi:
    """One provider, set up."""

    provider: SearchProvider
    base_url: str
    key: str = field(default="", repr=False)
    key_variable: str = ""
    "Where its key is found by default; empty = it needs none."

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        host = urlsplit(self.base_url).hostname or ""
        try:
            return host == "localhost" or ip_address(host).is_loopback
        except ValueError:
            return False

    def inquiry(self, query: str, count: int) -> Inquiry:
        """Return the request for up to `count` pages."""
        match self.provider:
            case "brave":
                # Source: https://api-dashboard.search.brave.com/api-reference/web/search/get
                return Inquiry(
                    method="GET",
                    url=f"{self.base_url}/web/search",
                    parameters={
                        "q": query,
                        "count": str(count),
                        "text_decorations": "false",
                        "result_filter": "web",
                    },
                    headers={"x-subscription-token": self.key, "cache-control": "no-cache"},
                )
            case "searxng":
                # Source: https://docs.searxng.org/dev/search_api.html
                return Inquiry(
                    method="GET",
                    url=f"{self.base_url}/search",
                    parameters={"q": query, "format": "json"},
                    headers={"authorization": f"Bearer {self.key}"} if self.key else {},
                )
            case "tavily":
                # Source: https://docs.tavily.com/documentation/api-reference/endpoint/search
                return Inquiry(
                    method="POST",
                    url=f"{self.base_url}/search",
                    headers={"authorization": f"Bearer {self.key}"},
                    body={"query": query, "max_results": count},
                )
            case _:
                assert_never(self.provider)

    def hits(self, answer: object, count: int) -> tuple[Hit, ...]:
        """Return up to `count` pages of an answer, the best first.

        Raises:
            SearchError: It is none.
        """
        found = _mapping(_mapping(answer).get("web")) if self.provider == "brave" else answer
        results = _mapping(found).get("results")
        if not is_list(results):
            # Brave leaves out a kind of result of which there is none.
            if self.provider == "brave" and _mapping(answer).get("type") == "search":
                return ()
            msg = f"{self.provider} answered something that is no list of results"
            raise SearchError(msg)
        snippet = "description" if self.provider == "brave" else "content"
        return tuple(_hits(results, snippet))[:count]

    def failure(self, status: int, answer: object, wait_s: float | None) -> SearchError:
        """Return what is told of a refusal.

        Args:
            status: HTTP status.
            answer: The body, where it was JSON.
            wait_s: How long to wait, where the provider says so.
        """
        why = _reason(answer)
        said = f": {why}" if why else ""
        is_key = status == 422 and "TOKEN" in said  # what Brave answers then
        if status == 403 and self.provider == "searxng":  # what it answers then
            said = ": its settings.yml has to list json under search.formats"
            return SearchError(f"searxng gives no JSON; the owner has to see to that{said}")
        if status in {401, 403} or is_key:
            return SearchError(f"{self.provider} refused the key; the owner has to set another")
        if status == 429:
            later = f"in {wait_s:.0f} s" if wait_s is not None else "later"
            return SearchError(f"{self.provider} had too many searches; try again {later}")
        if status in {432, 433}:  # Tavily: the limit of the plan, or of pay as you go
            return SearchError(f"the plan at {self.provider} is used up{said}")
        if status >= 500:
            return SearchError(f"{self.provider} failed ({status}); try again later")
        return SearchError(f"{self.provider} refused the search ({status}){said}")


_ADDRESSES: Final[Mapping[SearchProvider, str]] = {
    "brave": "https://api.search.brave.com/res/v1",
    "searxng": "",
    "tavily": "https://api.tavily.com",
}
_VARIABLES: Final[Mapping[SearchProvider, str]] = {
    "brave": "BRAVE_API_KEY",
    "searxng": "",
    "tavily": "TAVILY_API_KEY",
}


def api_for(settings: SearchSettings, environ: Mapping[str, str]) -> SearchApi:
    """Return the provider as the settings, and the environment beside them, say.

    Raises:
        ToolSettingsError: It has no address.
    """
    base_url = (settings.base_url or _ADDRESSES[settings.provider]).rstrip("/")
    if not base_url:
        msg = f"search.base_url: {settings.provider} has no address of its own; give yours"
        raise ToolSettingsError(msg)
    variable = _VARIABLES[settings.provider]
    return SearchApi(
        provider=settings.provider,
        base_url=base_url,
        key=(settings.api_key or environ.get(variable, "")).strip(),
        key_variable=variable,
    )


def _hits(results: list[object], snippet: str) -> Iterator[Hit]:
    for each in results:
        fields = _mapping(each)
        url = fields.get("url")
        if isinstance(url, str) and url.startswith(("http://", "https://")):
            yield Hit(
                title=_plain(fields.get("title")), url=url, snippet=_plain(fields.get(snippet))
            )


def _plain(value: object) -> str:
    """Return a text without the tags and entities that some engines leave in it."""
    return html.unescape(_TAG.sub("", value)) if isinstance(value, str) else ""


def _mapping(value: object) -> dict[str, object]:
    return as_object(value)


def _reason(answer: object) -> str:
    """Return what an error says, in the forms that providers use."""
    fields = _mapping(answer)
    nested = _mapping(fields.get("error")) or _mapping(fields.get("detail"))
    texts = [
        value
        for name in ("code", "detail", "error", "message")
        for value in (nested.get(name), fields.get(name))
        if isinstance(value, str) and value.strip()
    ]
    return " ".join(" ".join(texts).split())[:_ERROR_CHARACTERS]
