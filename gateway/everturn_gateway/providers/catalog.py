"""Which providers there are, and how an agent's `spec.model` becomes one of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from everturn_actors.ports import ModelProvider, ModelStatisticsStore
from everturn_actors.spec import ModelSpec
from everturn_actors.turn.model_statistics import InMemoryModelStatistics
from everturn_gateway.config.providers import ProviderConfig
from everturn_gateway.errors import GatewayError
from everturn_gateway.late_loading import late
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.plugins import ProviderPlugin, ProviderSetup, installed
from everturn_gateway.providers.errors import ProviderConfigError
from everturn_gateway.providers.fallbacks import Choice, CoolDowns, Fallbacks
from everturn_gateway.providers.key_rings import SHARED, KeyRings
from everturn_gateway.providers.keys import Keys
from everturn_gateway.providers.limits import ConcurrencyLimits, QueueLoad, unnoted
from everturn_gateway.providers.passing_on import PassingOn

if TYPE_CHECKING:
    from everturn_gateway.providers.counting import tokenizing
else:
    tokenizing = late("everturn_gateway.providers.counting.tokenizing")


@runtime_checkable
class _Warms(Protocol):
    async def warm(self) -> None:
        """Start what models need, so that the first message need not wait."""
        ...


@runtime_checkable
class _Closes(Protocol):
    async def aclose(self) -> None:
        """Close all connections."""
        ...


class ProviderParts(Struct, frozen=True, kw_only=True):
    """What providers are made of; see `open_providers`."""

    environ: Mapping[str, str]
    models_dir: Path
    registry: SecretRegistry
    model_statistics: ModelStatisticsStore
    settings: Mapping[str, ProviderConfig]
    on_wait: Callable[[str, float], None]
    own: Mapping[str, ModelProvider]


class Providers:
    """Makes model providers; owns the connections and processes behind them."""

    def __init__(self, given: ProviderParts, tasks: TaskGroup) -> None:
        """Only `open_providers` makes one."""
        self._parts, self._tasks = given, tasks
        settings = given.settings
        self._keys = Keys(
            given.environ, {name: s.api_key_file for name, s in settings.items() if s.api_key_file}
        )
        self._limits = ConcurrencyLimits(
            {name: s.max_concurrent for name, s in settings.items() if s.max_concurrent},
            given.on_wait,
        )
        self._cooling = CoolDowns(anyio.current_time)
        self._key_rings = KeyRings()
        self._shared: dict[str, object] = {SHARED: self._key_rings}
        "What plug-ins share between their models, by their names for it."

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
        if given := self._parts.own.get(model.provider):
            return self._limits.limited(model.provider, given)
        plugin = installed().providers.get(model.provider)
        if plugin is None:
            raise ProviderConfigError(self._absent(model.provider))
        provider, address = self._made(plugin, model, folder)
        if model.tokenizer:
            tokenizer = tokenizing.Tokenizer(folder / model.tokenizer)
            provider = tokenizing.Tokenized(provider, tokenizer)
        return self._limits.limited(model.provider, provider, address, usual=plugin.max_concurrent)

    def _made(
        self, plugin: ProviderPlugin, model: ModelSpec, folder: Path
    ) -> tuple[ModelProvider, str]:
        """Return the provider of a model, and the address that it is called at."""
        settings = self._parts.settings.get(plugin.name)
        setup = ProviderSetup(
            model=model,
            folder=folder,
            settings=settings.section if settings else plugin.settings(),
            environ=self._keys,
            models_folder=self._parts.models_dir,
            statistics=self._parts.model_statistics,
            tasks=self._tasks,
            add_secret=self._parts.registry.add,
            mask=self._parts.registry.mask,
            shared=self._share,
        )
        try:
            return plugin.make(setup), plugin.address(model)
        except GatewayError:
            raise
        except ModuleNotFoundError as error:
            msg = (
                f"provider {plugin.name} needs {error.name}, which is not installed:"
                f" pip install '{plugin.extra or error.name}'"
            )
            raise ProviderConfigError(msg) from error
        except Exception as error:
            # A boundary: the code of others costs the agents that name it.
            msg = f"the plug-in of provider {plugin.name} failed: {type(error).__name__}: {error}"
            raise ProviderConfigError(msg) from error

    def _absent(self, name: str) -> str:
        """Return why there is no provider of this name."""
        providers = installed().providers
        if fault := providers.fault(name):
            return f"spec.model.provider {name!r} is not available: {fault}"
        kinds = ", ".join((*self._parts.own, *providers.names))
        return f"spec.model.provider {name!r} is not available; there are: {kinds}"

    def _share(self, name: str, make: Callable[[], Any]) -> Any:  # the plug-in's own
        if name not in self._shared:
            self._shared[name] = make()
        return self._shared[name]

    @property
    def passing_on(self) -> PassingOn:
        """What sends requests that no agent answers to a provider."""
        found: PassingOn = self._share(
            "passing on",
            lambda: PassingOn(self._keys, self._parts.registry.mask, self._key_rings),
        )
        return found

    def refused_keys(self) -> tuple[str, ...]:
        """Return which keys cannot be used, of providers that have several; a line each."""
        return self._key_rings.refused()

    def queues(self) -> tuple[QueueLoad, ...]:
        """Return how full each queue of calls is now."""
        return self._limits.loads()

    async def warm(self) -> None:
        """Start the local models that agents use, so that the first message need not wait.

        Returns when they answer. One that cannot start is logged; its calls will say why.
        """
        for shared in tuple(self._shared.values()):
            if isinstance(shared, _Warms):
                await shared.warm()

    async def aclose(self) -> None:
        """Close all connections."""
        for shared in tuple(self._shared.values()):
            if isinstance(shared, _Closes):
                await shared.aclose()


@asynccontextmanager
async def open_providers(
    *,
    environ: Mapping[str, str],
    models_dir: Path,
    registry: SecretRegistry | None = None,
    model_statistics: ModelStatisticsStore | None = None,
    settings: Mapping[str, ProviderConfig] | None = None,
    on_wait: Callable[[str, float], None] = unnoted,
    own: Mapping[str, ModelProvider] | None = None,
) -> AsyncGenerator[Providers]:
    """Open the providers; at the end connections are closed and child processes are gone.

    Keys come from `environ`, and from the files that it and `settings` name. Those that are used
    are added to `registry`, which also masks every error text; weights of local models are in
    `models_dir`. `model_statistics` gets the windows of models; `settings` are the owner's, by the
    provider's name; `on_wait` is told of each call that begins: the name of its queue, and how many
    seconds it waited there; `own` are objects of the program that embeds the gateway, by the name
    that agents give them.
    """
    # Connections are closed last: tasks that are being cancelled may still use them.
    async with AsyncExitStack() as last, anyio.create_task_group() as tasks:
        given = ProviderParts(
            environ=environ,
            models_dir=models_dir,
            registry=registry or SecretRegistry(),
            model_statistics=model_statistics or InMemoryModelStatistics(),
            settings=settings or {},
            on_wait=on_wait,
            own=own or {},
        )
        providers = Providers(given, tasks)
        last.push_async_callback(providers.aclose)
        try:
            yield providers
        finally:
            tasks.cancel_scope.cancel()
