"""One question to a running gateway, over HTTP."""

from __future__ import annotations

from typing import Any, Final

import httpx2

from everturn_channels.errors import ClientError
from everturn_gateway.client.answers import TryAgainError, document, refuse
from everturn_gateway.client.http_client import open_client

_ANSWER_S: Final = 10.0  # it reads nothing from disk
UNAVAILABLE: Final = 503


async def ask(url: str, path: str, *, token: str, may_be_unavailable: bool = False) -> Any:  # noqa: ANN401 - a document
    """Return the JSON of what the gateway at `url` says at `path`.

    Args:
        url: Where it listens.
        path: What is asked.
        token: Its API token; empty where it asks for none.
        may_be_unavailable: Whether a 503 is an answer too.

    Raises:
        CoreError: It refuses the request.
        DoorError: It cannot be reached, or its answer is not understood.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        async with open_client(url, headers=headers, silence_s=_ANSWER_S) as http:
            response = await http.get(path)
            is_answer = may_be_unavailable and response.status_code == UNAVAILABLE
            if not response.is_success and not is_answer:
                refuse(response, response.content)
    except (httpx2.TransportError, TryAgainError) as error:
        why = f": {error}" if str(error) else ""
        msg = f"the gateway at {url} cannot be reached{why}"
        raise ClientError(msg) from error
    return document(response.content)
