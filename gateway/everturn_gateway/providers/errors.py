"""Errors of the providers that the operator has to act on."""

from __future__ import annotations

from everturn_gateway.errors import ConfigError, GatewayError


class ProviderConfigError(ConfigError):
    """The agent's model cannot be used as it is configured."""


class WeightsError(GatewayError):
    """The weights of the local model could not be fetched."""
