"""Which providers there are, and how an agent's `spec.model` becomes one of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup

from everturn_actors.ports import ModelProvider, ModelStatisticsStore
from everturn_actors.spec import ModelSpec
from everturn_actors.turn.model_statistics import InMemoryModelStatistics
from everturn_gateway.config.providers import ProviderConfig
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.providers.builtin import BuiltinResponder
from everturn_gateway.providers.errors import ProviderConfigError
from everturn_gateway.providers.fallbacks import Choice, CoolDowns, Fallbacks
from everturn_gateway.providers.keys import Keys
from everturn_gateway.providers.limits import ConcurrencyLimits, QueueLoad, unnoted
from everturn_gateway.providers.scripted import load_script
from everturn_gateway.providers.transport.endpoints import PROVIDERS, Endpoint, endpoint_for

logger = logging.getLogger(__name__)

KINDS: Final = ("builtin", "local", *PROVIDERS, "scripted")


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
        model_statistics: ModelStatisticsStore,
        settings: Mapping[str, ProviderConfig],
        now: Callable[[], float],
        on_wait: Callable[[str, float], None],
        own: Mapping[str, ModelProvider],
    ) -> None:
        self._environ, self._given = environ, own
        self._models_dir = models_dir
        self._registry = registry
        self._tasks = tasks
        self._model_statistics = model_statistics
        self._keys = Keys(
            environ, {name: s.api_key_file for name, s in settings.items() if s.api_key_file}
        )
        self._limits = ConcurrencyLimits(
            {name: s.max_concurrent for name, s in settings.items() if s.max_concurrent}, on_wait
        )
        self._cooling = CoolDowns(now)
        self._opened: _Connected | None = None

    def make(self, model: ModelSpec, folder: Path) -> ModelProvider:
        """Return the provider for an agent whose files are in `folder`, fallbacks included.

        Nothing is connected or started yet. `scripted` and keys are read from their files: not for
        the event loop.

        Raises:
            ProviderConfigError: There is no such provider, or it lacks something; says what to do.
            ConfigError: The file of `scripted` is not valid; names every place.
        """
        own, *others = (
            Choice(model=each, provider=self._one(each, folder))
            for each in (model, *model.fallbacks)
        )
        return Fallbacks(own, others, cooling=self._cooling) if others else own.provider

    def _one(self, model: ModelSpec, folder: Path) -> ModelProvider:
        if given := self._given.get(model.provider):
            return self._limits.limited(model.provider, given)
        if model.provider in PROVIDERS:
            return self._remote(model)
        return self._limits.limited(model.provider, self._own(model, folder))

    def _own(self, model: ModelSpec, folder: Path) -> ModelProvider:
        """Return a model of this machine."""
        match model.provider:
            case "builtin":
                return BuiltinResponder()
            case "scripted":
                return load_script(folder / (model.base_url or model.name), self._environ)
            case "local":
                return self._connected().local(model, folder)
            case _:
                kinds = ", ".join((*self._given, *KINDS))
                msg = f"spec.model.provider {model.provider!r} is not available; there are: {kinds}"
                raise ProviderConfigError(msg)

    def _remote(self, model: ModelSpec) -> ModelProvider:
        endpoint = endpoint_for(model, self._keys)
        self._registry.add(endpoint.key)
        if endpoint.key and endpoint.address.startswith("http://") and not endpoint.is_loopback:
            logger.warning("key goes out unencrypted", extra={"address": endpoint.address})
        remote = self._connected().remote(model, endpoint)
        return self._limits.limited(model.provider, remote, endpoint.address)

    def queues(self) -> tuple[QueueLoad, ...]:
        """Return how full each queue of calls is now."""
        return self._limits.loads()

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
                model_statistics=self._model_statistics,
            )
        return self._opened


@asynccontextmanager
async def open_providers(
    *,
    environ: Mapping[str, str],
    models_dir: Path,
    registry: SecretRegistry | None = None,
    model_statistics: ModelStatisticsStore | None = None,
    settings: Mapping[str, ProviderConfig] | None = None,
    now: Callable[[], float] = anyio.current_time,
    on_wait: Callable[[str, float], None] = unnoted,
    own: Mapping[str, ModelProvider] | None = None,
) -> AsyncGenerator[Providers]:
    """Open the providers; at the end connections are closed and child processes are gone.

    Keys come from `environ`, and from the files that it and `settings` name. Those that are used
    are added to `registry`, which also masks every error text; weights of local models are in
    `models_dir`. `model_statistics` gets the windows of models; `settings` are the owner's, by the
    provider's name; `now` tells the time in seconds, for models that are left alone after an
    outage; `on_wait` is told of each call that begins: the name of its queue, and how many seconds
    it waited there; `own` are objects of the program that embeds the gateway, by the name that
    agents give them.
    """
    # Connections are closed last: tasks that are being cancelled may still use them.
    async with AsyncExitStack() as last, anyio.create_task_group() as tasks:
        providers = Providers(
            environ=environ,
            models_dir=models_dir,
            registry=registry or SecretRegistry(),
            tasks=tasks,
            model_statistics=model_statistics or InMemoryModelStatistics(),
            settings=settings or {},
            now=now,
            on_wait=on_wait,
            own=own or {},
        )
        last.push_async_callback(providers.aclose)
        try:
            yield providers
        finally:
            tasks.cancel_scope.cancel()
