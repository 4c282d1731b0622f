"""Whether a model takes images, as it is found out: by sending some. Pure: no IO."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import anyio

from everturn_actors.errors import ModelRefusedError, ModelTransientError
from everturn_actors.model import ModelRequest
from everturn_gateway.providers.transport.model_errors import unshown_images
from everturn_gateway.providers.transport.streaming import RefusedRequestError

BLIND_FOR_S: Final = 24 * 3600.0


class Sight:
    """What is known of one model's eyes.

    An image that is refused must not end the conversation, in which it stays: the request goes out
    again without images, and the words in their place say that they are not shown.
    """

    def __init__(self, now: Callable[[], float] = anyio.current_time) -> None:
        """Begin with a model that may see; `now` tells the time in seconds."""
        self._now = now
        self._blind_until = 0.0

    def shown(self, request: ModelRequest) -> ModelRequest:
        """Return the request as this model can take it."""
        if not request.media or self._now() >= self._blind_until:
            return request
        return replace(request, media={})

    def without(self, request: ModelRequest, refused: RefusedRequestError) -> ModelRequest | None:
        """Return the request without images where it was refused for them; else None.

        A model that takes none is not sent any for a day: what serves it then may be another.
        """
        why = unshown_images(refused.refusal) if request.media else ""
        kind = type(refused.error)
        # Ollama calls it a failure of the server.
        if kind is ModelRefusedError or (kind is ModelTransientError and why == "model"):
            if why == "model":
                self._blind_until = self._now() + BLIND_FOR_S
            return replace(request, media={}) if why else None
        return None
