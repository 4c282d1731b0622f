"""What `everturn.yaml` says of providers and prices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, create_model

from everturn_actors.json_values import as_object
from everturn_gateway.errors import Fault
from everturn_gateway.plugins import KeyedSettings, ProviderSettings, Registry, secret_fields
from everturn_gateway.usage import Price, Rates
from everturn_gateway.yaml_files import Document, SettingsModel

_DOLLARS_MAX = 100_000  # for a million tokens; more is a price for one token, or cents


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConfig:
    """How one provider is used."""

    section: ProviderSettings
    "All that its owner set, for its plug-in."
    folder: Path
    "The folder of the configuration, absolute."

    @property
    def max_concurrent(self) -> int | None:
        """Calls at the same time, of all agents together; None = as the program sees fit."""
        return self.section.max_concurrent

    @property
    def api_key_file(self) -> Path | None:
        """Holds its key; absolute. None = the environment has it."""
        name = self.section.api_key_file if isinstance(self.section, KeyedSettings) else None
        return None if name is None else self.folder / name

    @property
    def secrets(self) -> tuple[str, ...]:
        """What nothing that people read may show."""
        return tuple(secret_fields(self.section))


class ProvidersSettings(SettingsModel):
    """`providers`: a section for each. Its fields are those that are installed."""

    def values(self, folder: Path) -> dict[str, ProviderConfig]:
        """Return what is set, by the names of providers; `folder` is that of the configuration."""
        return {
            name: ProviderConfig(section=section, folder=folder)
            for name, section in self
            if isinstance(section, ProviderSettings)
        }


def providers_model(document: Document, registry: Registry) -> type[ProvidersSettings]:
    """Return the model of `providers`, with the settings of the plug-ins that the file names.

    Of the others it knows the names. What one that cannot be used would read, is not looked at.
    """
    providers, named = registry.providers, _fields(document.data.get("providers"))
    fields: dict[str, Any] = {}
    for name in dict.fromkeys((*providers.names, *map(str, named))):
        plugin = providers.get(name) if name in named else None
        if plugin is not None:
            settings: Any = plugin.settings
            fields[name] = (settings | None, None)
        elif name in providers.names or providers.fault(name) is not None:
            fields[name] = (Any, None)
    return create_model("ProvidersSettings", __base__=ProvidersSettings, **fields)


_Count = Annotated[int, Field(ge=1)]
_Dollars = Annotated[float, Field(ge=0, le=_DOLLARS_MAX, allow_inf_nan=False)]


class _RatesSettings(SettingsModel):
    input: _Dollars
    output: _Dollars
    cached: _Dollars | None = None
    cache_write: _Dollars | None = None

    def rates(self) -> Rates:
        return Rates(
            input=self.input,
            output=self.output,
            cached=self.cached,
            cache_write=self.cache_write,
        )


class _LongSettings(_RatesSettings):
    above_tokens: _Count


class PriceSettings(_RatesSettings):
    """`prices.<provider>/<name>`: US dollars for a million tokens."""

    long: _LongSettings | None = None

    def value(self) -> Price:
        """Return it."""
        if self.long is None:
            return Price(rates=self.rates())
        return Price(
            rates=self.rates(),
            long_above_tokens=self.long.above_tokens,
            long=self.long.rates(),
        )


def price_faults(document: Document, registry: Registry) -> Iterator[Fault]:
    """Yield what is wrong with the names under `prices`."""
    known = registry.providers.names
    for name, _ in _entries(document, "prices"):
        provider, slash, model = name.partition("/")
        if provider not in known or not slash or not model:
            message = (
                "must be a provider and the name of its model, like openai/gpt-5-mini;"
                f" providers are: {', '.join(known)}"
            )
            yield document.fault(("prices", name), message)
        elif "*" in model[:-1]:
            yield document.fault(("prices", name), "may have one * alone, at its end")


def provider_notes(document: Document, registry: Registry) -> Iterator[str]:
    """Yield a line for each provider that is set up and cannot be used."""
    for name, _ in _entries(document, "providers"):
        if fault := registry.providers.fault(name):
            yield str(document.fault(("providers", name), f"has no effect: {fault}"))


def _entries(document: Document, field: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the sections of a field that holds sections; what is none is told elsewhere."""
    for name, value in _fields(document.data.get(field)).items():
        yield str(name), _fields(value)


def _fields(value: object) -> Mapping[str, object]:
    return as_object(value)
