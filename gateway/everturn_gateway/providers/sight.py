"""Whether a model takes images, as it is found out: by sending some. Pure: no IO."""

from __future__ import annotations

from dataclasses import replace

from everturn_actors.errors import ModelRefusedError, ModelTransientError
from everturn_actors.model import ModelRequest
from everturn_gateway.providers.model_errors import unshown_images
from everturn_gateway.providers.transport import RefusedRequestError


class Sight:
    """What is known of one model's eyes.

    An image that is refused must not end the conversation, in which it stays: the request goes out
    again without images, and the words in their place say that they are not shown.
    """

    def __init__(self) -> None:
        """Begin with a model that may see."""
        self._sees = True

    def shown(self, request: ModelRequest) -> ModelRequest:
        """Return the request as this model can take it."""
        return request if self._sees or not request.media else replace(request, media={})

    def without(self, request: ModelRequest, refused: RefusedRequestError) -> ModelRequest | None:
        """Return the request without images where it was refused for them; else None.

        A model that takes none is not sent any from then on.
        """
        why = unshown_images(refused.refusal) if request.media else ""
        kind = type(refused.error)
        # Ollama calls it a failure of the server.
        if kind is ModelRefusedError or (kind is ModelTransientError and why == "model"):
            self._sees = self._sees and why != "model"
            return replace(request, media={}) if why else None
        return None
