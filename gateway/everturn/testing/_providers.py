"""The suite that holds a model provider to its contract."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from everturn.testing._running import in_loop
from everturn_actors.errors import ModelError
from everturn_actors.model import (
    ModelRequest,
    Notice,
    Reply,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UserMessage,
)
from everturn_actors.ports import ModelProvider

SIDE_BY_SIDE = 5


def whole_request(text: str = "Hello there, model") -> ModelRequest:
    """Return a request with everything in it that a request can hold."""
    call = ToolCall(call_id="c1", name="look", arguments='{"at": "x"}')
    return ModelRequest(
        model="m",
        system="Be kind.",
        messages=(
            Notice(text="2 messages are left out"),
            UserMessage(text="look at x"),
            Reply(text="", calls=(call,)),
            ToolResult(call_id="c1", name="look", text="a cat"),
            Reply(text="It is a cat."),
            UserMessage(text=text),
        ),
        tools=(ToolDefinition(name="look", description="Looks", parameters={"type": "object"}),),
        max_output_tokens=100,
        temperature=0.7,
    )


class ProviderContract:
    """Holds a model provider to `everturn_actors.ports.ModelProvider`.

    1. Subclass it in a test module, under a name that begins with `Test`.
    2. Implement `open_provider`: a provider, with whatever it talks to, that answers any request.
    3. Implement `open_refused` with one whose key is refused, and put the key into `secrets`;
       without it that test is skipped.

    >>> class TestMyProvider(ProviderContract):
    ...     def open_provider(self):
    ...         return my_provider_on_a_fake_api()
    """

    secrets: tuple[str, ...] = ()
    "What no error may show."

    def open_provider(self) -> AbstractAsyncContextManager[ModelProvider]:
        """Open a provider that answers."""
        raise NotImplementedError

    def open_refused(self) -> AbstractAsyncContextManager[ModelProvider]:
        """Open a provider whose calls are refused."""
        pytest.skip("open_refused is not implemented")

    @in_loop
    async def test_the_pieces_are_the_text(self) -> None:
        """What people saw while it came is what is stored, and it stands in no log yet."""
        said: list[str] = []
        async with self.open_provider() as provider:
            reply = await provider.complete(whole_request(), said.append)

        assert "".join(said) == reply.text
        assert all(said)
        assert reply.text or reply.calls
        assert reply.seq == 0

    @in_loop
    async def test_calls_run_side_by_side(self) -> None:
        """One provider serves all sessions of its agent; their replies must not mix."""
        replies: dict[int, Reply] = {}
        said: list[list[str]] = [[] for _ in range(SIDE_BY_SIDE)]
        async with self.open_provider() as provider:

            async def call(number: int) -> None:
                replies[number] = await provider.complete(whole_request(), said[number].append)

            async with anyio.create_task_group() as tasks:
                for number in range(SIDE_BY_SIDE):
                    tasks.start_soon(call, number)

        assert ["".join(pieces) for pieces in said] == [
            replies[number].text for number in range(SIDE_BY_SIDE)
        ]

    @in_loop
    async def test_a_cancelled_call_ends_at_once_and_harms_nothing(self) -> None:
        """People press stop; the next message must be answered as if nothing had been."""
        async with self.open_provider() as provider:
            async with anyio.create_task_group() as tasks:

                def stop(_piece: str) -> None:
                    tasks.cancel_scope.cancel()

                tasks.start_soon(provider.complete, whole_request(), stop)
            reply = await provider.complete(whole_request(), lambda _piece: None)

        assert reply.text or reply.calls

    @in_loop
    async def test_a_refusal_is_a_model_error_without_secrets(self) -> None:
        """The turn knows only these, and people read their texts."""
        async with self.open_refused() as provider:
            with pytest.raises(ModelError) as raised:
                await provider.complete(whole_request(), lambda _piece: None)

        assert str(raised.value)
        assert [secret for secret in self.secrets if secret in str(raised.value)] == []
