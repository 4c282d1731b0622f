"""The suites that are published, held against what is our own, and against what breaks them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from msgspec.structs import replace
from support.context_policies import POLICIES
from support.suites import hold_to_suite
from support.tables import table

import everturn
from everturn.testing import (
    ChannelContract,
    PolicyContract,
    ProviderContract,
    RecordingHandler,
    ScriptedProvider,
    ToolContract,
    _running,
)
from everturn_actors.errors import ModelAuthError
from everturn_actors.model import ModelRequest, Reply
from everturn_actors.ports import ModelProvider, Tool
from everturn_actors.testing import START
from everturn_gateway.providers.builtin import BuiltinResponder


class Builtin(ProviderContract):
    """What answers where there is no model."""

    @asynccontextmanager
    async def open_provider(self) -> AsyncGenerator[ModelProvider]:
        """Make one."""
        yield BuiltinResponder()


class Scripted(ProviderContract):
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


class FunctionTool(ToolContract):
    """A function as a tool."""

    good = '{"city": "Graz"}'
    bad = (*ToolContract.bad, "{}", '{"city": 1}', '{"city": "Graz", "x": 1}')

    def make_tool(self) -> Tool:
        """Return it."""
        return weather


@table(
    ("suite", "left_out"),
    [
        (Builtin, ["test_a_refusal_is_a_model_error_without_secrets"]),
        (Scripted, []),
        (FunctionTool, []),
    ],
)
def test_models_and_tools_of_our_own_keep_the_contract(
    suite: type, left_out: list[str], tmp_path: Path
) -> None:
    """What answers where there is no model, the published double of one, and a function."""
    hold_to_suite(suite, tmp_path, left_out=left_out)


@table("name", POLICIES)
def test_the_policies_that_are_held_against_each_other_keep_the_contract(
    name: str, tmp_path: Path
) -> None:
    """The one that agents have by default, and each as another program does it."""

    class Held(PolicyContract):
        policy = POLICIES[name]

    fits = Held.policy.promises_fit
    hold_to_suite(Held, tmp_path, left_out=[] if fits else ["test_what_it_promises_to_fit_fits"])


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


# --- channels ---


class Board:
    """What is pinned on a board: a platform in memory."""

    def __init__(self) -> None:
        self.written: dict[str, everturn.Message] = {}
        self.news = anyio.Event()
        self.shown: list[str] = []
        self._numbers = count(1)

    def pin(self, text: str, chat_id: str) -> None:
        """Pin a message."""
        chat, ann = everturn.ChatRef(id=chat_id), everturn.Person(id="ann")
        number = str(next(self._numbers))
        message = everturn.Message(id=number, chat=chat, sender=ann, text=text, at=START)
        self.written[number] = message
        self.news.set()


class Pinboard(everturn.Channel):
    """A channel of two methods, as the base makes it easy."""

    name = "pinboard"

    def __init__(self, board: Board) -> None:
        self.board = board

    async def serve(self, handler: everturn.InboundHandler) -> None:
        """Put what is pinned into the queues; what was taken is taken away."""
        async with everturn.open_chat_queues(handler) as queues:
            handler.connected("@pinboard")
            while True:
                for message in list(self.board.written.values()):
                    await queues.put(self.event(message))
                self.board.news = anyio.Event()
                await self.board.news.wait()

    async def send(self, message: everturn.Outbound) -> str:
        """Pin an answer."""
        label = "(again) " if message.is_repeat else ""
        self.board.shown.append(label + message.payload)
        return str(len(self.board.shown))

    def event(self, message: everturn.Message) -> everturn.PlatformEvent:
        """Return what is handed over."""

        async def confirm() -> None:
            del self.board.written[message.id]

        return everturn.PlatformEvent(
            chat=message.chat.id, id=message.id, events=(message,), confirm=confirm
        )


class ChannelBase(ChannelContract):
    """A channel of two methods keeps the whole contract."""

    channel_type: ClassVar[type[Pinboard]] = Pinboard

    def make_channel(self) -> Pinboard:
        """Make one, on the board that the test has."""
        self.board = getattr(self, "board", None) or Board()
        self.channel = self.channel_type(self.board)
        return self.channel

    async def write(self, text: str, chat_id: str) -> None:
        """Pin a message."""
        self.board.pin(text, chat_id)

    async def unconfirmed(self, handler: RecordingHandler) -> int:
        """Return how many are pinned, and not taken away."""
        del handler
        return len(self.board.written)

    async def shown(self) -> Sequence[str]:
        """Return what is pinned below."""
        return self.board.shown


def test_a_channel_of_two_methods_keeps_the_contract(tmp_path: Path) -> None:
    """The base does the rest; what it has no method for is left out."""
    left_out = [
        "test_a_change_of_what_somebody_wrote_names_the_message",
        "test_a_chat_that_the_bot_was_removed_from_is_gone",
        "test_a_deletion_of_what_somebody_wrote_names_the_message",
        "test_a_lost_answer_is_of_unknown_outcome_and_its_repeat_is_known",
        "test_a_message_of_the_bot_can_be_changed",
        "test_a_platform_that_wants_silence_was_told_nothing",
        "test_a_reaction_on_what_the_bot_said_names_it",
        "test_a_token_that_was_taken_back_needs_its_owner",
        "test_an_outage_loses_nothing",
        "test_files_go_both_ways",
        "test_files_of_one_message_are_one_message",
        "test_what_cannot_be_read_is_told_and_hides_nothing",
    ]
    hold_to_suite(ChannelBase, tmp_path, left_out=left_out)


class Careless(Pinboard):
    """A channel that asks once, and goes on."""

    def event(self, message: everturn.Message) -> everturn.PlatformEvent:
        """Forget it where it cannot be taken."""

        async def forget(_wait_s: float) -> None:
            pass

        return replace(super().event(message), send_back=forget)


class _Careless(ChannelBase):
    channel_type = Careless


def test_a_channel_that_loses_what_cannot_be_taken_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message that was refused never comes again, so the test runs into its deadline."""
    monkeypatch.setattr(_running, "DEADLINE_S", 0.5)
    with pytest.raises((TimeoutError, ExceptionGroup)):
        _Careless().test_what_cannot_be_taken_now_comes_again_in_its_order()
