"""The suite that holds a tool to its contract."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio
import pytest

from everturn.testing._histories import KEY, SESSION_ID, simple_log
from everturn.testing._running import in_loop
from everturn_actors.errors import ToolFailedError
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import ToolCall
from everturn_actors.ports import Tool, ToolContext, ToolOutput

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"What the APIs of models take as a name."
_CANCELLED_S: Final = 1.0


@asynccontextmanager
async def open_tool_context() -> AsyncGenerator[ToolContext]:
    """Open a session of one turn in memory, for calls to run in."""
    async with open_memory_store(MemoryDisk()) as store:
        await store.append(SESSION_ID, simple_log(1), expected_seq=0)
        yield ToolContext(session_id=SESSION_ID, key=KEY, store=store)


class ToolContract:
    """Holds a tool to `everturn_actors.ports.Tool`.

    1. Subclass it in a test module, under a name that begins with `Test`.
    2. Implement `make_tool`, and set `good` to arguments with which a call works.
    3. Set `bad` to arguments that do not fit; those that are no JSON object are tried by default.

    >>> class TestMyTool(ToolContract):
    ...     good = '{"city": "Graz"}'
    ...     def make_tool(self):
    ...         return weather
    """

    good: str = "{}"
    "JSON of arguments with which a call works."
    bad: tuple[str, ...] = ("{", "[]", '"text"')
    "What a model may write by mistake."

    def make_tool(self) -> Tool:
        """Return the tool."""
        raise NotImplementedError

    def test_models_take_its_definition(self) -> None:
        """A name or a schema that an API refuses would stop every turn of the agent."""
        tool = self.make_tool()
        definition = tool.definition

        assert _NAME.fullmatch(definition.name)
        assert definition.description.strip()
        assert definition.parameters.get("type") == "object"
        json.dumps(dict(definition.parameters))

    def test_its_definition_stays_as_it_is(self) -> None:
        """It is the head of every request: where it changes, the provider's cache is lost."""
        tool = self.make_tool()

        assert tool.definition == tool.definition
        assert tool.definition == self.make_tool().definition

    def test_its_deadline_can_be_kept(self) -> None:
        """A call without a deadline could hold its conversation for ever."""
        assert 0 < self.make_tool().capabilities.timeout_s < float("inf")

    @in_loop
    async def test_a_call_has_a_result(self) -> None:
        """A text, or a text and what belongs to it."""
        tool = self.make_tool()
        async with open_tool_context() as context:
            result = await tool.run(self._call(tool, self.good), context)

        assert isinstance(result, str | ToolOutput)

    @in_loop
    async def test_arguments_that_do_not_fit_are_told_to_the_model(self) -> None:
        """Models write nonsense; the error is theirs to read, and no fault of the program."""
        tool = self.make_tool()
        async with open_tool_context() as context:
            for arguments in self.bad:
                with pytest.raises(ToolFailedError) as raised:
                    await tool.run(self._call(tool, arguments), context)

                assert str(raised.value)

    @in_loop
    async def test_a_cancelled_call_ends_within_a_second(self) -> None:
        """Whoever presses stop does not wait for a tool."""
        tool, began = self.make_tool(), 0.0
        async with open_tool_context() as context, anyio.create_task_group() as tasks:
            tasks.start_soon(tool.run, self._call(tool, self.good), context)
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
            began = anyio.current_time()

        assert anyio.current_time() - began < _CANCELLED_S

    @in_loop
    async def test_calls_that_only_read_run_side_by_side(self) -> None:
        """The turn starts them at once; their results must not mix."""
        tool = self.make_tool()
        if not tool.capabilities.read_only:
            pytest.skip("it does not promise that")
        results: list[str | ToolOutput] = []
        async with open_tool_context() as context:

            async def run(number: int) -> None:
                results.append(await tool.run(self._call(tool, self.good, number), context))

            async with anyio.create_task_group() as tasks:
                for number in range(5):
                    tasks.start_soon(run, number)

        assert len(results) == 5

    def _call(self, tool: Tool, arguments: str, number: int = 1) -> ToolCall:
        name = tool.definition.name
        return ToolCall(call_id=f"call-{number}", name=name, arguments=arguments)
