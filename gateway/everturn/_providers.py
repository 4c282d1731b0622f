"""The base of model providers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from everturn_actors.model import ModelRequest, Reply


class Provider(ABC):
    """Talks to one model.

    To write one:

    1. Subclass it and implement `complete`: one request, one reply.
    2. Hand on each piece of the text with `on_text` as it comes, then return the whole. A model
       that does not stream hands on everything at once.
    3. For what goes wrong raise `ModelAuthError`, `ModelRefusedError`, `RateLimitedError` or
       `ModelTransientError`, with a text that a person may read and that holds no key. Do not try
       again: the turn does, and knows for how long. Anything else that you raise counts as a fault
       of the provider, and fails one call.
    4. Give the object to an agent: `Agent(name=..., model=MyProvider())`; or name it, for agents in
       files: `open_gateway(providers={"mine": MyProvider()})` and `provider: mine`.
    5. Hold it to its contract: `everturn.testing.ProviderContract`.

    >>> import everturn
    >>> class Shouting(everturn.Provider):
    ...     async def complete(self, request, on_text):
    ...         text = request.messages[-1].text.upper()
    ...         on_text(text)
    ...         return everturn.Reply(text=text)
    >>> agent = everturn.Agent(name="loud", model=Shouting())
    """

    @abstractmethod
    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; call `on_text` with each piece of its text as it arrives.

        Several calls may run at the same time. Cancellation ends the call: let it pass.

        Args:
            request: The prompt, the messages, the tools, and the limits.
            on_text: Takes pieces; together they are `Reply.text`.

        Raises:
            ModelError: One of its kinds.
        """
