"""Tools that are searched: whatever is found and called, requests only ever grow at their end."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.examples import examples
from support.tool_doubles import Deed

from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import IncomingMessage, ModelRequest, Reply, ToolCall, ToolResult
from everturn_actors.ports import Tool, ToolCapabilities
from everturn_actors.testing import ScriptedProvider, TestService, open_test_service
from everturn_gateway.tools.searching import SearchingProvider, ToolSearch, ToolSearchConfig
from everturn_gateway.tools.searching.search import call_before, call_behind
from everturn_gateway.tools.toolbox import Toolbox

NAMES = [f"wiki_page_{n}" for n in range(6)]
OF_SERVER = ToolCapabilities(kind="mcp")

searches = st.builds(
    lambda query: ("search_tools", {"query": query}), st.sampled_from(["page", "3", "", "nothing"])
)
uses = st.builds(
    lambda name, text: ("use_tool", {"name": name, "arguments": {"text": text}}),
    st.sampled_from([*NAMES, "own", "gone", "use_tool"]),
    st.text(max_size=5),
)
direct = st.tuples(st.sampled_from([*NAMES, "own", "gone"]), st.just(dict[str, object]()))
steps = st.lists(st.lists(st.one_of(searches, uses, direct), min_size=1, max_size=3), max_size=3)
turns = st.lists(
    st.tuples(steps, st.sets(st.sampled_from(NAMES), min_size=1), st.booleans()),
    min_size=1,
    max_size=4,
)


class _World:
    """An agent whose server comes and goes with tools, over one disk."""

    def __init__(self) -> None:
        self.disk, self.provider, self.calls = MemoryDisk(), ScriptedProvider(), 0
        self.there: set[str] = {*NAMES}

    def tools(self) -> dict[str, Tool]:
        """Return what the agent has now."""
        theirs = {name: Deed(name, capabilities=OF_SERVER) for name in sorted(self.there)}
        return {"own": Deed("own"), **theirs}

    def equip(self, test: TestService) -> None:
        """Give the agent its tools, as a start of the gateway does."""
        config = ToolSearchConfig(mode="always")
        search = ToolSearch(config, window_tokens=1000, places=["the MCP server wiki"])
        self.box = Toolbox(
            self.tools(),
            look=lambda: (self.tools(), ()),
            connect=None,
            guard=lambda tool: tool,
            search=search,
        )
        agent = replace(
            test.agents.agents["test"],
            provider=SearchingProvider(self.provider, self.box),
            tools=self.box,
            deferred=self.box.deferred,
        )
        test.agents.agents["test"] = agent

    def reply(self, calls: list[tuple[str, dict[str, object]]]) -> Callable[[ModelRequest], Reply]:
        """Return a reply that makes calls."""

        def made(_: ModelRequest) -> Reply:
            asked: list[ToolCall] = []
            for name, arguments in calls:
                self.calls += 1
                text = json.dumps(arguments)
                asked.append(ToolCall(call_id=f"c{self.calls}", name=name, arguments=text))
            return Reply(calls=tuple(asked), stop_reason="tool_calls")

        return made


@given(turns)
@examples(20)
async def test_each_request_begins_with_the_one_before(
    script: list[tuple[list[list[tuple[str, dict[str, object]]]], set[str], bool]],
) -> None:
    """Over searches, calls, restarts, and tools that come and go; and each is made again as it was.

    The head is what the provider's cache is keyed by: one byte in it, and all is read anew.
    """
    world = _World()
    left = list(script)
    while left:
        async with open_test_service(provider=world.provider, disk=world.disk) as test:
            world.equip(test)
            while True:
                said, world.there, restarts = left.pop(0)
                await world.box.reload()
                world.provider.script = [*map(world.reply, said), "done"]
                asked = await test.service.submit(IncomingMessage(text="go on", key=test.key()))
                done = await asked.result()
                if restarts or not left:
                    break
            state = await test.service.view(done.session_id)
            (explained,) = await test.service.reader.explain(done.session_id, done.message_seq)

            assert done.text == "done"
            assert state.cache_misses == 0
            assert explained.verdict == "same"
    requests = world.provider.requests
    for before, after in pairwise(requests):
        assert (after.system, after.tools) == (before.system, before.tools)
        assert list(map(_sent, after.messages[: len(before.messages)])) == list(
            map(_sent, before.messages)
        )
    for name in NAMES:
        assert name not in str([tool.name for tool in requests[0].tools])


def _sent(message: object) -> object:
    match message:
        case Reply(text=text, calls=calls):
            return text, calls
        case ToolResult(call_id=call_id, name=name, text=text):
            return call_id, name, text
        case _:
            return getattr(message, "text", None)


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=3))
def test_what_the_model_wrote_is_what_it_reads(arguments: dict[str, object]) -> None:
    """A call goes into the log as the tool's own, and back to the model as its own."""
    written = ToolCall(
        call_id="a",
        name="use_tool",
        arguments=json.dumps(
            {"name": "wiki_look", "arguments": arguments},
            ensure_ascii=False,
            separators=(",", ":"),
        ),
    )
    meant = call_behind(written, {"wiki_look": None})

    assert meant.name == "wiki_look"
    assert json.loads(meant.arguments) == arguments
    assert call_before(meant) == written
