"""Has a gateway clean and erase."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import orjson

from everturn_channels.errors import ClientError
from everturn_gateway.client.answers import Json
from everturn_gateway.client.api import Api

_ADMIN = "/api/v1/admin"


class MaintenanceClient:
    """What is for whoever runs the gateway."""

    def __init__(self, api: Api) -> None:
        """Ask through `api`."""
        self._api = api

    async def plan(self) -> Json:
        """Return what would be cleaned now, as HTTP tells it."""
        return await self._api.ask("GET", f"{_ADMIN}/clean")

    async def clean(self) -> AsyncGenerator[tuple[str, Json]]:
        """Clean; yield what is told, by its kind: `step`, and at the end `done`.

        Raises:
            ClientError: It cannot be done, or the gateway is lost.
        """
        async for each in self._told(f"{_ADMIN}/clean", {}):
            yield each

    async def erase(self, person: str) -> AsyncGenerator[tuple[str, Json]]:
        """Erase what a person said; yield what is told: `looked`, and at the end `done`.

        Raises:
            InvalidInputError: Nobody is meant.
            ClientError: It cannot be done, or the gateway is lost.
        """
        async for each in self._told(f"{_ADMIN}/erase", {"person": person}):
            yield each

    async def _told(
        self, path: str, body: Mapping[str, object]
    ) -> AsyncGenerator[tuple[str, Json]]:
        kind = ""
        async for message in self._api.stream(path, body):
            if not message.data:
                continue  # how soon to connect again
            kind, data = message.event, orjson.loads(message.data)
            if kind == "failed":
                raise ClientError(str(data["detail"]))
            yield kind, data
        if kind != "done":
            msg = "the gateway went away before it was done; run this again, it goes on"
            raise ClientError(msg)
