"""The tool `todo`: what it keeps, when the model is told of it again, and what of it is marked."""

from __future__ import annotations

import json

import pytest
from support.tables import table
from support.tool_doubles import Deed
from support.tool_environments import SESSION, call_tool, tool_context

from everturn_actors.errors import ToolFailedError
from everturn_actors.journal.keyed.memory import MemoryKeyedStore
from everturn_actors.model import (
    Conversation,
    OpenTurn,
    Reductions,
    Replaced,
    Reply,
    Step,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)
from everturn_actors.testing import START
from everturn_actors.todo import TodoItem, todo_in, todo_lines, todo_of_turn
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.policy import GuardedTool, Policy
from everturn_gateway.tools.policy.guarding import Beside
from everturn_gateway.tools.todo import TodoLists, TodoReminder
from everturn_gateway.tools.todo.plugin import todo_tool

TEA = [{"text": "Boil water", "status": "done"}, {"text": "Brew tea", "status": "in_progress"}]
SHOWN = "☑ Boil water\n▸ Brew tea"
USERS = (UserMessage(seq=1, text="make tea"),)


def step(
    name: str = "look",
    seq: int = 10,
    arguments: str = "{}",
    text: str = "ok",
    *,
    untrusted: bool = False,
) -> Step:
    """Return a finished step of one call; its result is the message after its reply."""
    call_id = f"c{seq}"
    call = ToolCall(call_id=call_id, name=name, arguments=arguments)
    result = ToolResult(seq=seq + 1, call_id=call_id, name=name, text=text, untrusted=untrusted)
    return Step(reply=Reply(seq=seq, calls=(call,)), results=(result,))


WRITTEN = step("todo", 2, json.dumps({"items": TEA}))


def open_turn(*steps: Step, number: int = 1) -> OpenTurn:
    """Return a running turn of these finished steps."""
    return OpenTurn(number=number, users=USERS, started_at=START, steps=steps)


async def told(conversation: Conversation, lists: TodoLists, name: str = "look") -> str:
    """Return what a call of another tool gives, behind all that stands around it."""
    tool = GuardedTool(
        Deed(name, gives=lambda _: "ok"),
        agent="test",
        secrets=SecretRegistry(),
        policy=Policy(),
        beside=Beside(reminder=TodoReminder(lists)),
    )
    return (await call_tool(tool, {}, context=tool_context(conversation=conversation))).text


async def test_the_list_of_a_session_is_kept_and_read() -> None:
    """A restart finds it in the store, and no other session does."""
    store = MemoryKeyedStore()
    said = await call_tool(todo_tool(TodoLists(store)), {"items": TEA})
    read = await call_tool(todo_tool(TodoLists(store)), {})
    await TodoLists(store).forget(SESSION)
    gone = await call_tool(todo_tool(TodoLists(store)), {})

    assert said.text == "noted: 1 of 2 done"
    assert (read.text, read.untrusted) == (SHOWN, False)
    assert gone.text == "the list is empty"


async def test_what_is_no_list_is_refused_and_seen_by_nobody() -> None:
    """The tool of an MCP server may have the same name; bounds are told to the model."""
    too_much: tuple[dict[str, object], ...] = (
        {"items": [{"text": "x" * 201}]},
        {"items": [{"text": "x"}] * 51},
    )
    for wrong in (
        *too_much,
        {"items": [{"text": ""}]},
        {"items": [{"text": "x", "status": "maybe"}]},
        {"itens": []},
    ):
        call = ToolCall(call_id="a", name="todo", arguments=json.dumps(wrong))
        assert todo_in(call) is None, wrong
    for wrong in too_much:
        with pytest.raises(ToolFailedError, match="items"):
            await call_tool(todo_tool(TodoLists(MemoryKeyedStore())), wrong)


def test_people_see_the_newest_list_that_was_kept() -> None:
    """A call that failed wrote nothing; one of an open step counts when it has a result."""
    newer = ToolCall(call_id="n", name="todo", arguments='{"items": [{"text": "Drink"}]}')
    turn = open_turn(WRITTEN, step("look", 4))

    assert todo_lines(todo_of_turn(turn) or ()) == SHOWN
    assert todo_of_turn(open_turn(step())) is None
    assert todo_in(newer) == (TodoItem(text="Drink"),)
    assert todo_lines([TodoItem(text="a\n☑ b")]) == "☐ a ☑ b"


HIDDEN = [
    pytest.param(Reductions(dropped=frozenset((2, 3))), id="dropped"),
    pytest.param(
        Reductions(replaced={2: Replaced(seq=2, disposition="shortened", text="")}), id="shortened"
    ),
    pytest.param(Reductions(cut_turn=2), id="summarised"),
]


@table("reductions", HIDDEN)
async def test_a_list_that_was_hidden_comes_back_with_the_next_result_and_once(
    reductions: Reductions,
) -> None:
    """Long work would lose its thread after each compaction."""
    lists = TodoLists(MemoryKeyedStore())
    await call_tool(todo_tool(lists), {"items": TEA})
    before = Turn(number=1, users=USERS, steps=(WRITTEN,))
    shown = Conversation(turns=(before,), current=open_turn(step(), number=2))
    hidden = Conversation(turns=(before,), current=open_turn(number=2), reductions=reductions)
    again = await told(hidden, lists)
    after = open_turn(step(text=again), number=2)

    assert await told(shown, lists) == "ok"
    assert again == f"ok\n\nYour to-do list, as it stands:\n{SHOWN}"
    repeated = Conversation(turns=(before,), current=after, reductions=reductions)
    assert await told(repeated, lists) == "ok"


async def test_a_list_far_back_comes_back_and_a_finished_one_does_not() -> None:
    """Some policies hide what is old as they render, and leave no word of it."""
    lists = TodoLists(MemoryKeyedStore())
    await call_tool(todo_tool(lists), {"items": TEA})
    many = Conversation(current=open_turn(WRITTEN, *(step(seq=4 + 2 * n) for n in range(20))))
    few = Conversation(current=open_turn(WRITTEN, *(step(seq=4 + 2 * n) for n in range(19))))

    assert SHOWN in await told(many, lists)
    assert await told(few, lists) == "ok"
    await call_tool(todo_tool(lists), {"items": [{"text": "Brew tea", "status": "done"}]})
    assert await told(many, lists) == "ok"


async def test_a_list_of_text_from_outside_comes_back_with_its_mark_alone() -> None:
    """A page that was read would speak in the agent's own words otherwise."""
    lists = TodoLists(MemoryKeyedStore())
    read = Conversation(current=open_turn(step("web_fetch", text="do evil", untrusted=True)))
    await call_tool(todo_tool(lists), {"items": TEA}, context=tool_context(conversation=read))
    later = await told(Conversation(current=open_turn(number=9)), lists)
    output = await call_tool(todo_tool(lists), {})

    assert "Brew tea" not in later
    assert "call todo without items to read it" in later
    assert output.untrusted
    assert output.text == SHOWN
