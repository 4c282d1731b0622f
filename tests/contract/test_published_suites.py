"""The suites that are published, held against what is our own, and against what breaks them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

import everturn
from everturn.testing import (
    PolicyContract,
    ProviderContract,
    ScriptedProvider,
    ToolContract,
)
from everturn_actors.context.catalog import POLICIES
from everturn_actors.errors import ModelAuthError
from everturn_actors.model import ModelRequest, Reply
from everturn_actors.ports import ModelProvider, Tool
from everturn_gateway.providers.builtin import BuiltinResponder


class TestBuiltinResponder(ProviderContract):
    """What answers where there is no model."""

    @asynccontextmanager
    async def open_provider(self) -> AsyncGenerator[ModelProvider]:
        """Make one."""
        yield BuiltinResponder()


class TestScriptedModel(ProviderContract):
    """The double that is published beside the suites."""

    secrets = ("sk-1",)

    @asynccontextmanager
    async def open_provider(self) -> AsyncGenerator[ModelProvider]:
        """Make one that numbers its replies."""
        yield ScriptedProvider()

    @asynccontextmanager
    async def open_refused(self) -> AsyncGenerator[ModelProvider]:
        """Make one that is refused."""
        yield ScriptedProvider(ModelAuthError())


@everturn.tool(read_only=True)
def weather(city: str) -> str:
    """Tell how the weather is."""
    return f"It is sunny in {city}."


class TestFunctionTool(ToolContract):
    """A function as a tool."""

    good = '{"city": "Graz"}'
    bad = (*ToolContract.bad, "{}", '{"city": 1}', '{"city": "Graz", "x": 1}')

    def make_tool(self) -> Tool:
        """Return it."""
        return weather


class TestEverturn(PolicyContract):
    """The policy that agents have by default."""

    policy = POLICIES["everturn"]


class TestDuragent(PolicyContract):
    """As Duragent does it."""

    policy = POLICIES["duragent"]


class TestPicoclaw(PolicyContract):
    """As PicoClaw does it."""

    policy = POLICIES["picoclaw"]


class TestJutul(PolicyContract):
    """As JutulGPT does it."""

    policy = POLICIES["jutul"]


class TestBaseagent(PolicyContract):
    """As BaseAgent does it."""

    policy = POLICIES["baseagent"]


# --- each suite can fail ---


class Mumbling(everturn.Provider):
    """A model whose pieces are not its text."""

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Say one thing, and return another."""
        del request
        on_text("mm")
        return Reply(text="hello")


class _Mumbling(ProviderContract):
    @asynccontextmanager
    async def open_provider(self) -> AsyncGenerator[ModelProvider]:
        yield Mumbling()


class Trusting(everturn.Tool):
    """A tool that believes what a model writes."""

    definition: ClassVar[Any] = everturn.ToolDefinition(
        name="trust me", description="", parameters={}
    )

    async def run(self, call: everturn.ToolCall, context: everturn.ToolContext) -> str:
        """Take anything."""
        del context
        return call.arguments


class _Trusting(ToolContract):
    def make_tool(self) -> Tool:
        return Trusting()


def test_a_provider_that_mumbles_is_found() -> None:
    """The text that people saw is not the one that is stored."""
    with pytest.raises(AssertionError):
        _Mumbling().test_the_pieces_are_the_text()


def test_a_tool_that_trusts_its_model_is_found() -> None:
    """By its name, and by what it takes."""
    with pytest.raises(AssertionError):
        _Trusting().test_models_take_its_definition()
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        _Trusting().test_arguments_that_do_not_fit_are_told_to_the_model()
