"""Which providers there are, and how an agent's `spec.model` becomes one of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup

from everturn_actors.learning import ShortMemory
from everturn_actors.ports import ModelMemory, ModelProvider
from everturn_actors.spec import ModelSpec
from everturn_gateway.observe import SecretRegistry
from everturn_gateway.providers.builtin import BuiltinResponder
from everturn_gateway.providers.endpoints import VENDORS, Endpoint, endpoint_for
from everturn_gateway.providers.errors import ProviderConfigError
from everturn_gateway.providers.scripted import load_script

logger = logging.getLogger(__name__)

KINDS: Final = ("builtin", "local", *VENDORS, "scripted")
_LATER: Final = {
    "anthropic": (
        "Claude models are reached through openrouter for now:"
        " provider: openrouter, name: anthropic/..."
    ),
}


class _Connected(Protocol):
    """The providers that need connections or processes."""

    def remote(self, model: ModelSpec, endpoint: Endpoint) -> ModelProvider: ...
    def local(self, model: ModelSpec, folder: Path) -> ModelProvider: ...
    async def warm(self) -> None: ...
    async def aclose(self) -> None: ...


class Providers:
    """Makes model providers; owns the connections and processes behind them."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        models_dir: Path,
        registry: SecretRegistry,
        tasks: TaskGroup,
        memory: ModelMemory,
    ) -> None:
        self._environ = environ
        self._models_dir = models_dir
        self._registry = registry
        self._tasks = tasks
        self._memory = memory
        self._opened: _Connected | None = None

    def make(self, model: ModelSpec, folder: Path) -> ModelProvider:
        """Return the provider for an agent whose files are in `folder`.

        Nothing is connected or started yet. `scripted` reads its file: not for the event loop.

        Raises:
            ProviderConfigError: There is no such provider, or it lacks something; says what to do.
            ConfigError: The file of `scripted` is not valid; names every place.
        """
        if model.provider == "builtin":
            return BuiltinResponder()
        if model.provider == "scripted":
            return load_script(folder / (model.base_url or model.name), self._environ)
        if model.provider == "local":
            return self._connected().local(model, folder)
        if model.provider not in VENDORS:
            hint = _LATER.get(model.provider, f"there are: {', '.join(KINDS)}")
            msg = f"spec.model.provider {model.provider!r} is not available; {hint}"
            raise ProviderConfigError(msg)
        endpoint = endpoint_for(model, self._environ)
        self._registry.add(endpoint.key)
        if endpoint.key and endpoint.address.startswith("http://") and not endpoint.is_loopback:
            logger.warning("key goes out unencrypted", extra={"address": endpoint.address})
        return self._connected().remote(model, endpoint)

    async def warm(self) -> None:
        """Start the local models that agents use, so that the first message need not wait.

        Returns when they answer. One that cannot start is logged; its calls will say why.
        """
        if self._opened is not None:
            await self._opened.warm()

    async def aclose(self) -> None:
        """Close all connections."""
        if self._opened is not None:
            await self._opened.aclose()

    def _connected(self) -> _Connected:
        if self._opened is None:
            from everturn_gateway.providers.connected import (  # noqa: PLC0415 - the HTTP client takes 80 ms to load; builtin and scripted do without
                ConnectedProviders,
            )

            self._opened = ConnectedProviders(
                environ=self._environ,
                models_dir=self._models_dir,
                registry=self._registry,
                tasks=self._tasks,
                memory=self._memory,
            )
        return self._opened


@asynccontextmanager
async def open_providers(
    *,
    environ: Mapping[str, str],
    models_dir: Path,
    registry: SecretRegistry | None = None,
    memory: ModelMemory | None = None,
) -> AsyncGenerator[Providers]:
    """Open the providers; at the end connections are closed and child processes are gone.

    Keys come from `environ` alone. Those that are used are added to `registry`, which also masks
    every error text; weights of local models are in `models_dir`. `memory` is told the windows of
    models.
    """
    # Connections are closed last: tasks that are being cancelled may still use them.
    async with AsyncExitStack() as last, anyio.create_task_group() as tasks:
        providers = Providers(
            environ=environ,
            models_dir=models_dir,
            registry=registry or SecretRegistry(),
            tasks=tasks,
            memory=memory or ShortMemory(),
        )
        last.push_async_callback(providers.aclose)
        try:
            yield providers
        finally:
            tasks.cancel_scope.cancel()
