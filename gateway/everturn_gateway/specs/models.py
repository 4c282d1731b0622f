"""The models that an agent's file names, and what talks to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from everturn_actors.ports import ModelProvider
from everturn_actors.spec import ModelSpec
from everturn_gateway.errors import ConfigError, GatewayError
from everturn_gateway.specs.loading import MODEL_FIELD, SUMMARIZER_FIELD, AgentFile

MakeProvider: TypeAlias = Callable[[ModelSpec, Path], ModelProvider]


def models(file: AgentFile) -> Mapping[str, ModelSpec]:
    """Return the models of an agent, by the field that names each of them."""
    found = {MODEL_FIELD: file.spec.model}
    if file.summarizer is not None and file.summarizer != file.spec.model:
        found[SUMMARIZER_FIELD] = file.summarizer
    return found


def provider_for(
    file: AgentFile, field: str, model: ModelSpec, make: MakeProvider
) -> ModelProvider:
    """Return what talks to `model`, which `field` names.

    Raises:
        ConfigError: It cannot be used as it is configured; with the place that is at fault.
    """
    try:
        return make(model, file.folder)
    except GatewayError as error:
        faults = error.faults if isinstance(error, ConfigError) else ()
        # Providers call it by the field that mostly names a model.
        message = str(error).replace(f"{MODEL_FIELD}.", f"{field}.")
        raise ConfigError(faults=faults or [file.fault(field, message)]) from error


def check_models(file: AgentFile, make: MakeProvider) -> None:
    """Make sure that every model of an agent can be used as it is configured.

    Raises:
        ConfigError: One cannot; with the place that is at fault.
    """
    for field, model in models(file).items():
        provider_for(file, field, model, make)
