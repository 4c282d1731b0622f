"""The boundary around one call of a model: whatever goes wrong behind it is a `ModelError`.

A provider is code that reads what a server sends. A fault in it must cost the call it was made
for: let out, it would end the session, at each of its restarts anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio

from everturn_actors.errors import ModelError
from everturn_actors.faults import is_cancelled, kind_of
from everturn_actors.model import ModelRequest, Reply
from everturn_actors.ports import ModelProvider

logger = logging.getLogger(__name__)


async def reply_of(
    provider: ModelProvider, request: ModelRequest, on_text: Callable[[str], None]
) -> Reply:
    """Return the reply of `provider` to `request`; see `ModelProvider.complete`.

    Raises:
        ModelError: It gave none. Where that is the provider's own fault, the text names its kind
            alone, as what an unforeseen error says may hold a secret; the log has the traceback.
    """
    try:
        return await provider.complete(request, on_text)
    except ModelError:
        raise
    except anyio.get_cancelled_exc_class() as error:
        if is_cancelled():
            raise
        raise _fault(request, error) from error
    except Exception as error:  # a boundary: the provider's own fault, and the turn ends in words
        raise _fault(request, error) from error


def _fault(request: ModelRequest, error: BaseException) -> ModelError:
    logger.error("a model call failed by a fault", extra={"model": request.model}, exc_info=error)
    return ModelError(f"the model's answer could not be read: {kind_of(error)}")
