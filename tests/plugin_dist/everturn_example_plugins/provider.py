"""A model that says what was said to it, and how it was asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from pydantic import Field

from everturn_actors.model import ModelRequest, Reply, Usage, UserMessage
from everturn_actors.ports import ModelProvider
from everturn_gateway.plugins import KeyedSettings, ProviderPlugin, ProviderSetup
from everturn_gateway.usage import Price, Rates


class EchoSettings(KeyedSettings):
    """`providers.echo`."""

    greeting: str = "You said"
    "What stands before each answer."
    seal: Annotated[str, Field(repr=False)] = ""
    "A secret word."


class Echo:
    """Implements `ModelProvider`."""

    def __init__(self, greeting: str) -> None:
        """Answer with `greeting`, and what was said."""
        self._greeting = greeting

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the newest message."""
        said = [each.text for each in request.messages if isinstance(each, UserMessage)]
        text = f"{self._greeting}: {said[-1] if said else 'nothing'}"
        on_text(text)
        usage = Usage(input_tokens=len(said) * 1000, output_tokens=1000)
        return Reply(text=text, usage=usage)


def _make(setup: ProviderSetup) -> ModelProvider:
    assert isinstance(setup.settings, EchoSettings)
    setup.add_secret(setup.environ.get("ECHO_API_KEY", ""))
    return Echo(setup.settings.greeting)


ECHO: Final = ProviderPlugin(
    name="echo",
    interface=1,
    summary="a model that repeats what was said",
    docs="https://example.org/echo",
    settings=EchoSettings,
    make=_make,
    prices={"echo-1": Price(rates=Rates(input=1000, output=2000))},
    windows=(("echo", 64_000),),
    max_concurrent=3,
)
