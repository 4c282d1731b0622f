"""The plug-in `web`, also called `web_fetch` and `web_search`, which give one of its tools each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

from msgspec import Struct
from pydantic import Field

from everturn_actors.ports import Tool
from everturn_gateway.plugins import (
    PluginToolSettings,
    ToolPlan,
    ToolPlugin,
    ToolRequest,
    ToolSettingsError,
    ToolSetup,
)
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.web import FETCH, SEARCH
from everturn_gateway.tools.web.addresses import read_allowed
from everturn_gateway.tools.web.search_apis import SearchProvider, SearchSettings
from everturn_gateway.tools.web.tools import web_tools
from everturn_gateway.yaml_files import FieldPath, SettingsModel
from everturn_gateway.yaml_files.fields import Address

_KEYS: Final[tuple[tuple[SearchProvider, str], ...]] = (
    ("brave", "BRAVE_API_KEY"),
    ("tavily", "TAVILY_API_KEY"),
)
_NO_SEARCH: Final = (
    "spec.tools: web_search (needs search: a provider to ask, or a key of one in the environment)"
)


class SearchEntry(SettingsModel):
    """Who searches the web."""

    provider: SearchProvider
    base_url: Address | None = None
    "Of the provider's API; searxng has no address of its own."
    api_key: Annotated[str | None, Field(repr=False)] = None
    "By default the environment's BRAVE_API_KEY or TAVILY_API_KEY."


class WebSettings(PluginToolSettings):
    """web_fetch, and web_search where a provider is set."""

    search: SearchEntry | None = None
    allow_private: tuple[str, ...] = ()
    "Hosts and networks beyond the public Internet that may be fetched: wiki.lan, 10.1.0.0/16."


class WebConfig(Struct, frozen=True, kw_only=True):
    """`web_fetch` and `web_search`."""

    fetch: bool
    search: SearchSettings | None
    allow_private: tuple[str, ...]


def _faults(section: WebSettings) -> Iterator[tuple[FieldPath, str]]:
    try:
        read_allowed(section.allow_private)
    except ToolSettingsError as error:
        yield (), str(error)


def _plan(request: ToolRequest) -> ToolPlan:
    """Return what all entries give together: of two that say who searches, the last counts."""
    search: SearchSettings | None = None
    allow_private: tuple[str, ...] = ()
    inactive: tuple[str, ...] = ()
    for entry in request.entries:
        assert isinstance(entry.settings, WebSettings)
        allow_private += entry.settings.allow_private
        if entry.name != FETCH:
            search = _search(entry.settings.search, request.environ) or search
            inactive += () if search else (_NO_SEARCH,)
    fetch = any(entry.name != SEARCH for entry in request.entries)
    there = ((FETCH, fetch), (SEARCH, search is not None))
    return ToolPlan(
        settings=WebConfig(fetch=fetch, search=search, allow_private=allow_private),
        names=tuple(name for name, is_there in there if is_there),
        inactive=inactive,
    )


def _search(section: SearchEntry | None, environ: Mapping[str, str]) -> SearchSettings | None:
    """Return who searches: as it is set, or whose key is there."""
    if section is not None:
        return SearchSettings(
            provider=section.provider,
            base_url=section.base_url or "",
            api_key=section.api_key or "",
        )
    for provider, variable in _KEYS:
        if environ.get(variable):
            return SearchSettings(provider=provider)
    return None


def _make(setup: ToolSetup[WebConfig]) -> tuple[Tool, ...]:
    config = setup.settings
    return web_tools(
        setup.part(ToolEnvironment),
        fetch=config.fetch,
        search=config.search,
        allow_private=config.allow_private,
    )


WEB: Final = ToolPlugin(
    name="web",
    also=(FETCH, SEARCH),
    interface=1,
    summary="fetches pages of the public Internet, and searches them",
    docs="docs/builtin-tools.md",
    settings=WebSettings,
    faults=_faults,
    plan=_plan,
    make=_make,
)
