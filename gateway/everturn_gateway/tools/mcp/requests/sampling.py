"""Lets a server use the agent's model, as far as the agent's owner says."""

from __future__ import annotations

from collections.abc import Mapping

from everturn_actors.ports import ToolContext
from everturn_gateway.tools.mcp.requests.values import RefusedError, Response


class NoSampler:
    """Lets no server use a model; implements `Sampler`."""

    async def sample(self, params: Mapping[str, object], context: ToolContext) -> Response:
        """Refuse it.

        Raises:
            RefusedError: Always.
        """
        msg = "this agent does not let its servers use a model (`sampling` is off)"
        raise RefusedError(msg)
