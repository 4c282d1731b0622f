"""The description of a model provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from anyio.abc import TaskGroup
from pydantic import Field

from everturn_actors.ports import ModelProvider, ModelStatisticsStore
from everturn_actors.spec import ModelSpec
from everturn_gateway.plugins.base import Plugin
from everturn_gateway.usage.prices import Price
from everturn_gateway.yaml_files import SettingsModel
from everturn_gateway.yaml_files.fields import FilePath

T = TypeVar("T")


class ProviderSettings(SettingsModel):
    """`providers.NAME` of `everturn.yaml`; a provider may add settings in a subclass."""

    max_concurrent: Annotated[int, Field(ge=1)] | None = None
    "Calls at the same time, of all agents together; by default as the program sees fit."


class KeyedSettings(ProviderSettings):
    """The same, for a provider that takes a key."""

    api_key_file: FilePath | None = None
    "Holds the key; by default the environment has it."


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSetup:
    """What a provider is made of, for one model of one agent."""

    model: ModelSpec
    folder: Path
    "The agent's."
    settings: ProviderSettings
    environ: Mapping[str, str] = field(repr=False)
    "The gateway's environment; keys from files stand in it under their variable."
    models_folder: Path
    "Where weights of local models are kept."
    statistics: ModelStatisticsStore
    "What is known of models: record a window here where the provider tells it."
    tasks: TaskGroup
    "Of the gateway: what runs beside the calls ends with it."
    add_secret: Callable[[str], None] = field(repr=False)
    "Tells a key, so that nothing that is written shows it."
    mask: Callable[[str], str]
    "Takes secrets out of a text; for the words of errors."
    shared: Callable[[str, Callable[[], Any]], Any]
    """Returns what models share, made at the first call: a pool of connections, by a name of one's
    own. Where it has `aclose`, that is awaited at the end; `warm` is awaited at the start."""


def _no_address(_model: ModelSpec) -> str:
    return ""


def _never(_model: ModelSpec) -> bool:
    return False


class ProviderPlugin(Plugin, frozen=True, kw_only=True):
    """Models that agents may name in `spec.model.provider`; entry points of `everturn.providers`.

    Example:
        >>> ACME = ProviderPlugin(
        ...     name="acme",
        ...     interface=1,
        ...     settings=KeyedSettings,
        ...     prices={"acme-1": Price(rates=Rates(input=1, output=2))},
        ...     windows=(("acme", 64_000),),
        ...     make=lambda setup: load_acme(setup),
        ... )
    """

    settings: type[ProviderSettings] = ProviderSettings
    make: Callable[[ProviderSetup], ModelProvider]
    """Makes the provider of one model; nothing is connected or started yet. Called in a thread.

    Raises:
        ProviderConfigError: It lacks something; says what to do.
    """
    prices: Mapping[str, Price] = msgspec.field(default_factory=dict[str, Price])
    "What the vendor takes for a model by this name, at its own address."
    is_free: Callable[[ModelSpec], bool] = _never
    "Whether calls to a model cost nothing but this machine's time, or are given away."
    windows: tuple[tuple[str, int], ...] = ()
    """Parts of lower-cased names of models, and their windows in tokens; the first match counts."""
    compacts: Callable[[ModelSpec], bool] = _never
    "Whether a model can put a summary of its provider's own in the place of a conversation."
    compacts_where: str = ""
    "How a model is named that can, for people, where not all of them do."
    cache_life_s: float = 0
    "For how long it caches the beginning of a request; 0 = it does not, or nobody knows."
    max_concurrent: int | None = None
    "Calls at the same time where its owner says nothing; None = so many at each address."
    address: Callable[[ModelSpec], str] = _no_address
    """Where a model is called: scheme, host and port; empty = in this process.

    Raises:
        ProviderConfigError: Its settings name no address.
    """
    usual_model: str = ""
    "What a new agent names where its owner names no model; empty = the owner has to."
    calls_tools: bool = True
    "Whether its models can call tools; otherwise they are offered none."
    is_model: bool = True
    """Whether what answers is a language model. Otherwise it writes no summaries, and is offered
    the tool `recall_context` only where its agent asks for it."""

    @property
    def key_variable(self) -> str:
        """The environment variable that holds its key; empty = it takes none."""
        return key_variable(self.name) if issubclass(self.settings, KeyedSettings) else ""

    def needed_key(self, model: ModelSpec) -> str:
        """Return the environment variable without which a model cannot be called; empty for none.

        What is called at a plain `http:` address is the owner's own server, which may ask for none.
        """
        return "" if self.address(model).startswith("http:") else self.key_variable

    def window(self, model: str) -> int | None:
        """Return the window of a model in tokens, by its name; None = it is not known."""
        lowered = model.lower()
        return next((tokens for part, tokens in self.windows if part in lowered), None)


def key_variable(provider: str) -> str:
    """Return the environment variable that holds the key of a provider."""
    return f"{provider.upper().replace('-', '_')}_API_KEY"
