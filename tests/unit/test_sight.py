"""For how long a model that refused images is sent none."""

from __future__ import annotations

from everturn_actors.errors import ModelRefusedError
from everturn_actors.model import ModelRequest
from everturn_gateway.providers.transport.model_errors import Refusal
from everturn_gateway.providers.transport.sight import BLIND_FOR_S, Sight
from everturn_gateway.providers.transport.streaming import RefusedRequestError

REQUEST = ModelRequest(model="m", system="", messages=(), media={"a.png": b"picture"})


def test_images_are_tried_again_a_day_after_they_were_refused() -> None:
    """The server may have been started anew with a model that sees."""
    now_s = 1_000.0
    sight = Sight(now=lambda: now_s)
    refused = RefusedRequestError(
        Refusal(message="image input is not supported"), ModelRefusedError("no")
    )

    without = sight.without(REQUEST, refused)
    at_once = sight.shown(REQUEST)
    now_s += BLIND_FOR_S
    later = sight.shown(REQUEST)

    assert without is not None
    assert not without.media
    assert not at_once.media
    assert later.media == REQUEST.media
