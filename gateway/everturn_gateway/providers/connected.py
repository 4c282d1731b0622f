"""The providers behind connections and processes, and what they share."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import anyio

from everturn_actors.context.estimation.hints import with_window
from everturn_actors.errors import ModelError
from everturn_actors.spec import ModelSpec
from everturn_gateway.late_loading import late
from everturn_gateway.plugins import ProviderSetup
from everturn_gateway.providers.errors import ProviderConfigError
from everturn_gateway.providers.inquiry import Asked, Inquiring, Inquiry
from everturn_gateway.providers.key_rings import SHARED, KeyRings, Rotating
from everturn_gateway.providers.local.provider import (
    LocalModel,
    LocalServer,
    LocalWeights,
    local_weights,
)
from everturn_gateway.providers.openai_compatible import OpenAICompatible
from everturn_gateway.providers.transport.endpoints import Endpoint
from everturn_gateway.providers.transport.http_clients import HttpClients
from everturn_gateway.providers.transport.streaming import Connection
from everturn_gateway.providers.transport.wire import SentBytes

if TYPE_CHECKING:
    from everturn_gateway.providers import anthropic, ollama, responses
else:
    anthropic = late("everturn_gateway.providers.anthropic")
    ollama = late("everturn_gateway.providers.ollama")
    responses = late("everturn_gateway.providers.responses")

logger = logging.getLogger(__name__)


class ConnectedProviders:
    """Makes them; one pool of connections for each address, one process for each model file."""

    def __init__(self, setup: ProviderSetup) -> None:
        """Take what all models have in common from the setup of one of them."""
        self._environ = setup.environ
        self._models_dir = setup.models_folder
        self._add_secret, self._mask = setup.add_secret, setup.mask
        self._tasks = setup.tasks
        self._model_statistics = setup.statistics
        self._key_rings: KeyRings = setup.shared(SHARED, KeyRings)
        self._clients, self._sent = HttpClients(), SentBytes()
        self._servers: dict[LocalWeights, LocalServer] = {}
        self._inquiries: dict[tuple[Endpoint, str], Inquiry] = {}

    def remote(self, model: ModelSpec, endpoints: Sequence[Endpoint]) -> Inquiring:
        """Return a model behind an API, whose endpoints differ in their keys.

        Raises:
            ProviderConfigError: The environment says something of its server that is not valid.
        """
        endpoint = endpoints[0]
        inquiry = self._inquiries.setdefault(
            (endpoint, model.name),
            Inquiry(model_statistics=self._model_statistics, tasks=self._tasks),
        )
        return Inquiring(self._asked(model, endpoints), model=model, inquiry=inquiry)

    def _asked(self, model: ModelSpec, endpoints: Sequence[Endpoint]) -> Asked:
        adapters = [self._adapter(model, each) for each in endpoints]
        if len(adapters) == 1:
            return adapters[0]
        keys = tuple(each.key for each in endpoints)
        ring = self._key_rings.of(model.provider, endpoints[0].address, keys)
        return Rotating(adapters, ring)

    def _adapter(self, model: ModelSpec, endpoint: Endpoint) -> Asked:
        connection = Connection(endpoint=endpoint, clients=self._clients, mask=self._mask)
        match endpoint.api:
            case "openai":
                return OpenAICompatible(connection, model=model.name, sent=self._sent)
            case "responses":
                return responses.Responses(connection, model=model.name, sent=self._sent)
            case "anthropic":
                return anthropic.Anthropic(connection, model=model.name)
            case "ollama":
                keep_alive = ollama.keep_alive_of(self._environ)
                return ollama.Ollama(connection, model=model, keep_alive=keep_alive)
            case _:
                assert_never(endpoint.api)

    def local(self, model: ModelSpec, folder: Path) -> LocalModel:
        """Return a model in a process of this gateway.

        Raises:
            ProviderConfigError: The agent gives an address.
        """
        if model.base_url:
            msg = "spec.model.base_url does not go with provider local; name a file or a model"
            raise ProviderConfigError(msg)
        weights = local_weights(model, folder, self._models_dir)
        server = self._servers.get(weights)
        if server is None:
            server = self._servers[weights] = LocalServer(
                weights,
                environ=self._environ,
                tasks=self._tasks,
                on_secret=self._add_secret,
            )
        told = with_window(self._model_statistics.of(model), weights.context_tokens)
        self._model_statistics.record(model, told)
        return LocalModel(server, name=weights.name, clients=self._clients, mask=self._mask)

    async def warm(self) -> None:
        """Start the local models one after another, so that loading does not slow itself down."""
        for weights, server in tuple(self._servers.items()):
            try:
                await server.ready()
            except ModelError as error:
                logger.warning(
                    "local model not ready", extra={"model": weights.name, "reason": str(error)}
                )

    async def aclose(self) -> None:
        """Close the connections; the processes end with their task group."""
        with anyio.CancelScope(shield=True):
            await self._clients.aclose()
