"""Makes of what a server answers what is used of it, before the protocol's client looks at it.

Imports `mcp`, which takes half a second: nothing but `wire` imports this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import anyio
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import RequestId

from everturn_actors.json_values import Json, is_list
from everturn_gateway.tools.mcp import prompts, resources
from everturn_gateway.tools.mcp.listing import sifted
from everturn_gateway.tools.mcp.results import images_of, result_text
from everturn_gateway.tools.mcp.transports.streams import Incoming, Outgoing

ENTRIES_MOST: Final = 500  # of a page
_AT_ONCE: Final = 20


class Sifting(JSONRPCDispatcher):
    """Makes of lists and results what is used of them, before the client looks at them.

    One wrong entry of a list would cost the client the whole list.
    """

    def __init__(self, incoming: Incoming, outgoing: Outgoing) -> None:
        super().__init__(incoming, outgoing)
        self.faults: list[str] = []
        "Of the lists since they were last taken."

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, object] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: RequestId | None = None,
    ) -> Json:
        """Send a request and return its result."""
        result = await super().send_raw_request(
            method, params, opts, _related_request_id=_related_request_id
        )
        match method:
            case "tools/list":
                return {**result, "tools": await self._sift(result.get("tools"))}
            case "tools/call" if result.get("resultType") != "input_required":
                images = (
                    {"type": "image", "data": data, "mimeType": "image"}
                    for data in images_of(result)
                )
                text = {"type": "text", "text": result_text(result)}
                made: dict[str, object] = {"content": [text, *images]}
                kept = {name: result[name] for name in ("isError", "resultType") if name in result}
                return made | kept
            case resources.LIST | resources.TEMPLATES:
                return resources.sifted_page(method, result)
            case resources.READ:
                return resources.sifted_contents(result)
            case prompts.LIST:
                return prompts.sifted_prompts(result)
            case prompts.GET:
                return prompts.sifted_messages(result)
            case _:
                return result

    async def _sift(self, tools: object) -> list[dict[str, object]]:
        """Return the entries of a list of tools that can be used; others run in between."""
        if not is_list(tools):
            self.faults.append("its list of tools is no list")
            return []
        entries, kept = tools, list[dict[str, object]]()
        if len(entries) > ENTRIES_MOST:
            self.faults.append(
                f"only the first {ENTRIES_MOST} tools on a page of its list are read"
            )
        for first in range(0, min(len(entries), ENTRIES_MOST), _AT_ONCE):
            some, faults = sifted(entries[first : first + _AT_ONCE], first)
            kept += some
            self.faults += faults
            await anyio.lowlevel.checkpoint()
        return kept
