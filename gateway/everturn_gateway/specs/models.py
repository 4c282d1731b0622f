"""The models that an agent's file names, and what talks to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from everturn_actors.ports import ModelProvider, Speaker, Transcriber
from everturn_actors.spec import ModelSpec
from everturn_gateway.errors import ConfigError, GatewayError
from everturn_gateway.specs.loading import MODEL_FIELD, SUMMARIZER_FIELD, AgentFile
from everturn_gateway.usage import DailyLimit

MakeProvider: TypeAlias = Callable[[ModelSpec, Path], ModelProvider]


class Metering(Protocol):
    """Counts what agents use; see `everturn_gateway.usage.Meter`."""

    def metered(
        self, provider: ModelProvider, *, agent: str, model: ModelSpec, limit: DailyLimit
    ) -> ModelProvider:
        """Return `provider` with every call counted."""
        ...

    def unpriced(self, model: ModelSpec) -> Sequence[str]:
        """Return which of a model and its fallbacks have no known price."""
        ...


class Voices(Protocol):
    """Gives agents what they hear and speak with; see `everturn_gateway.voice`."""

    def transcriber(self, agent: str, limit: DailyLimit) -> Transcriber | None:
        """Return what hears voice notes for an agent; None = nothing does."""
        ...

    def speaker(self, agent: str, limit: DailyLimit) -> Speaker | None:
        """Return what speaks for an agent; None = nothing does."""
        ...


def models(file: AgentFile) -> Mapping[str, ModelSpec]:
    """Return the models of an agent, by the field that names each of them."""
    found = {MODEL_FIELD: file.spec.model}
    if file.summarizer is not None and file.summarizer != file.spec.model:
        found[SUMMARIZER_FIELD] = file.summarizer
    for server in file.tool_config.mcp:
        sampling = server.sampling
        if sampling is not None and sampling.model is not None:
            found[f"spec.tools.{server.name}.sampling.model"] = sampling.model
    return found


def provider_for(
    file: AgentFile, field: str, model: ModelSpec, make: MakeProvider
) -> ModelProvider:
    """Return what talks to `model`, which `field` names, and to its fallbacks.

    Raises:
        ConfigError: One of them cannot be used as it is configured; with the place at fault.
    """
    for number, fallback in enumerate(model.fallbacks):  # alone, to know which one is at fault
        _made(file, f"{field}.fallbacks[{number}]", fallback, make)
    return _made(file, field, model, make)


def _made(file: AgentFile, field: str, model: ModelSpec, make: MakeProvider) -> ModelProvider:
    try:
        return make(model, file.folder)
    except GatewayError as error:
        faults = error.faults if isinstance(error, ConfigError) else ()
        # Providers call it by the field that mostly names a model.
        message = str(error).replace(f"{MODEL_FIELD}.", f"{field}.")
        raise ConfigError(faults=faults or [file.fault(field, message)]) from error


def check_limit(file: AgentFile, meter: Metering) -> None:
    """Make sure that an agent's daily limit can be kept.

    Raises:
        ConfigError: It is in dollars, and nobody knows what a model of the agent costs.
    """
    if file.limit.cost_usd is None:
        return
    unknown = sorted({name for model in models(file).values() for name in meter.unpriced(model)})
    if unknown:
        message = (
            f"cannot be kept: no price is known for {', '.join(unknown)};"
            " add it under prices in everturn.yaml, or limit daily_tokens instead"
        )
        raise ConfigError(faults=[file.fault("spec.usage.daily_cost_usd", message)])


def check_models(file: AgentFile, make: MakeProvider, meter: Metering | None = None) -> None:
    """Make sure that every model of an agent can be used as it is configured.

    Raises:
        ConfigError: One cannot, or its daily limit cannot be kept; with the place at fault.
    """
    for field, model in models(file).items():
        provider_for(file, field, model, make)
    if meter is not None:
        check_limit(file, meter)
