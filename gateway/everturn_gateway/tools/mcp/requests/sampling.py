"""Lets a server use a model of the agent's, as far as the agent's owner says.

What a server writes is text from outside, and stands in a request of its own: without the agent's
prompt, its tools and anything of its conversations.

Source: https://modelcontextprotocol.io/specification/2025-11-25/client/sampling
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from everturn_actors.errors import ModelError
from everturn_actors.json_values import as_object, is_list
from everturn_actors.model import AnyMessage, ModelRequest, Reply, UserMessage
from everturn_actors.ports import ModelProvider
from everturn_actors.spec import ModelSpec
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.mcp.requests.values import RefusedError, Response
from everturn_gateway.tools.mcp.settings import McpServerSettings
from everturn_gateway.tools.policy.outside.cleaning import clean

MESSAGES_MOST: Final = 100
CHARACTERS_MOST: Final = 200_000  # of one request
_STOPS: Final = {"stop": "endTurn", "length": "maxTokens"}

logger = logging.getLogger(__name__)


class SamplingModel(Struct, frozen=True, kw_only=True):
    """The model that a server may use."""

    provider: ModelProvider
    "Counts what is used, as for every call of the agent."
    model: ModelSpec


class Sampler:
    """Answers what a server asks of a model in one call of a tool."""

    def __init__(
        self,
        settings: McpServerSettings,
        model: SamplingModel | None,
        secrets: SecretRegistry,
        *,
        agent: str,
    ) -> None:
        """Let a server use `model` as far as its settings say; None = not at all."""
        self._settings, self._model, self._secrets = settings, model, secrets
        self._agent = agent
        self.calls = 0
        "How often the model answered."
        self.tokens = 0
        "What that took, in and out together."

    async def sample(self, params: Mapping[str, object]) -> Response:
        """Return the model's answer.

        Raises:
            RefusedError: The owner does not let the server, or there is no answer.
        """
        limits, used = self._settings.sampling, self._model
        if limits is None or used is None:
            msg = "this agent does not let its servers use a model (`sampling` is off)"
            raise RefusedError(msg)
        if self.calls >= limits.max_calls:
            msg = f"a model answers {limits.max_calls} times in one call, and did (`max_calls`)"
            raise RefusedError(msg)
        self.calls += 1
        request = self._request(params, used.model, limits.max_tokens)
        try:
            reply = await used.provider.complete(request, _unseen)
        except ModelError as error:
            raise RefusedError(str(error)) from error
        tokens = reply.usage.input_tokens + reply.usage.output_tokens
        self.tokens += tokens
        fields = {"agent": self._agent, "server": self._settings.name, "tokens": tokens}
        logger.info("MCP server used a model", extra={**fields, "model": used.model.name})
        return {
            "role": "assistant",
            "content": {"type": "text", "text": self._secrets.mask(reply.text)},
            "model": reply.model or used.model.name,
            "stopReason": _STOPS.get(reply.stop_reason, reply.stop_reason),
        }

    def _request(
        self, params: Mapping[str, object], model: ModelSpec, tokens_most: int
    ) -> ModelRequest:
        if params.get("tools"):
            msg = "a model is used without tools here"
            raise RefusedError(msg)
        system, wanted = params.get("systemPrompt"), params.get("maxTokens")
        heat = params.get("temperature")
        messages = params.get("messages")
        known = messages if is_list(messages) else []
        if not 0 < len(known) <= MESSAGES_MOST:
            msg = f"it sends {len(known):,} messages; 1 to {MESSAGES_MOST} are taken"
            raise RefusedError(msg)
        request = ModelRequest(
            model=model.name,
            system=clean(system, self._secrets) if isinstance(system, str) else "",
            messages=tuple(map(self._message, known)),
            max_output_tokens=min(wanted, tokens_most) if isinstance(wanted, int) else tokens_most,
            temperature=heat if isinstance(heat, int | float) and 0 <= heat <= 2 else None,
            purpose=f"for the MCP server {self._settings.name}",
        )
        size = len(request.system) + sum(len(each.text) for each in request.messages)
        if size > CHARACTERS_MOST:
            msg = f"it sends {size:,} characters; {CHARACTERS_MOST:,} are taken at most"
            raise RefusedError(msg)
        return request

    def _message(self, said: object) -> AnyMessage:
        message = as_object(said)
        content = message.get("content")
        parts = [as_object(each) for each in (content if is_list(content) else [content])]
        texts = [each.get("text") for each in parts if each.get("type") == "text"]
        if len(texts) < len(parts):
            msg = "a model reads texts alone here"
            raise RefusedError(msg)
        text = clean("\n".join(each for each in texts if isinstance(each, str)), self._secrets)
        if message.get("role") == "assistant":
            return Reply(text=text)
        return UserMessage(text=text, untrusted=True)


def _unseen(_: str) -> None:
    """Take a piece of an answer that nobody watches come."""
