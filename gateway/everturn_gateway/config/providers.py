"""What `everturn.yaml` says of providers and prices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import AfterValidator, Field

from everturn_gateway.errors import Fault
from everturn_gateway.usage import Price, Rates
from everturn_gateway.yaml_files import Document, Section

PROVIDERS: Final = (
    "anthropic",
    "builtin",
    "gemini",
    "local",
    "ollama",
    "openai",
    "openrouter",
    "scripted",
)
_KEYLESS: Final = frozenset(("builtin", "local", "scripted"))
_DOLLARS_MAX = 100_000  # for a million tokens; more is a price for one token, or cents


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConfig:
    """How one provider is used."""

    max_concurrent: int | None = None
    "Calls at the same time, of all agents together; None = as the program sees fit."
    api_key_file: Path | None = None
    "Holds its key; absolute. None = the environment has it."


def _file(value: str) -> str:
    if not value.strip():
        msg = "must name a file"
        raise ValueError(msg)
    if value.startswith("~"):
        msg = "~ is not expanded here; write ${HOME}"
        raise ValueError(msg)
    return value


_Count = Annotated[int, Field(ge=1)]
_Dollars = Annotated[float, Field(ge=0, le=_DOLLARS_MAX, allow_inf_nan=False)]


class ProviderSection(Section):
    """`providers.<name>`."""

    max_concurrent: _Count | None = None
    api_key_file: Annotated[str, AfterValidator(_file)] | None = None

    def value(self, base: Path) -> ProviderConfig:
        """Return it; `base` is where its paths are relative to."""
        key_file = None if self.api_key_file is None else base / self.api_key_file
        return ProviderConfig(max_concurrent=self.max_concurrent, api_key_file=key_file)


class _RatesSection(Section):
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


class _LongSection(_RatesSection):
    above_tokens: _Count


class PriceSection(_RatesSection):
    """`prices.<provider>/<name>`: US dollars for a million tokens."""

    long: _LongSection | None = None

    def value(self) -> Price:
        """Return it."""
        if self.long is None:
            return Price(rates=self.rates())
        return Price(
            rates=self.rates(),
            long_above_tokens=self.long.above_tokens,
            long=self.long.rates(),
        )


def provider_faults(document: Document) -> Iterator[Fault]:
    """Yield what is wrong with the names under `providers` and `prices`."""
    for name, section in _entries(document, "providers"):
        if name not in PROVIDERS:
            message = f"is no provider; there are: {', '.join(PROVIDERS)}"
            yield document.fault(("providers", name), message)
        elif name in _KEYLESS and "api_key_file" in section:
            message = f"{name} takes no key"
            yield document.fault(("providers", name, "api_key_file"), message)
    for name, _ in _entries(document, "prices"):
        provider, slash, model = name.partition("/")
        if provider not in PROVIDERS or not slash or not model:
            message = (
                "must be a provider and the name of its model, like openai/gpt-5-mini;"
                f" providers are: {', '.join(PROVIDERS)}"
            )
            yield document.fault(("prices", name), message)
        elif "*" in model[:-1]:
            yield document.fault(("prices", name), "may have one * alone, at its end")


def _entries(document: Document, field: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the sections of a field that holds sections; what is none is told elsewhere."""
    for name, value in _fields(document.data.get(field)).items():
        yield str(name), _fields(value)


def _fields(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
