"""Models: remote ones behind their APIs, the embedded one, and two that are none."""

from __future__ import annotations

from everturn_gateway.providers.catalog import Providers, open_providers
from everturn_gateway.providers.errors import ProviderConfigError, WeightsError

__all__ = ["ProviderConfigError", "Providers", "WeightsError", "open_providers"]
