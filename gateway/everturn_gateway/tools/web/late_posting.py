"""Loads what posts to webhooks with the first result that goes to one: it brings an HTTP client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio.to_thread

from everturn_gateway.late_loading import late
from everturn_gateway.tools.web.addresses import read_allowed
from everturn_gateway.tools.web.reaching import Reaching

if TYPE_CHECKING:
    from everturn_gateway.tools.web import posting
else:
    posting = late("everturn_gateway.tools.web.posting")


class LatePoster:
    """Implements `Poster` by a `WebPoster`."""

    def __init__(self, reaching: Reaching) -> None:
        self._reaching = reaching
        self._poster: posting.WebPoster | None = None

    async def post(self, url: str, data: Mapping[str, object], *, key: str) -> None:
        """Send `data` once, with `key` as its `Idempotency-Key`.

        Raises:
            WebhookError: It was not taken; the text names no more than the host.
        """
        if self._poster is None:
            self._poster = await anyio.to_thread.run_sync(self._load)
        await self._poster.post(url, data, key=key)

    def _load(self) -> posting.WebPoster:
        return posting.WebPoster(self._reaching)


def make_poster(allow_private: tuple[str, ...]) -> LatePoster:
    """Return what posts to the public Internet, and to the hosts and networks of `allow_private`.

    Raises:
        ToolSettingsError: One of them is neither a host nor a network.
    """
    return LatePoster(Reaching(read_allowed(allow_private)))
