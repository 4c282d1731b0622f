"""The plug-in `todo`."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from everturn_actors.errors import JournalError, ToolFailedError
from everturn_actors.ports import Tool, ToolCapabilities, ToolContext, ToolOutput
from everturn_actors.todo import (
    ITEM_CHARACTERS,
    ITEMS_MAX,
    TODO_TOOL,
    TodoItem,
    TodoStatus,
    todo_lines,
)
from everturn_gateway.plugins import PluginToolSettings, ToolPlan, ToolPlugin, ToolSetup
from everturn_gateway.tools.arguments import Arguments
from everturn_gateway.tools.conversations import sources_behind
from everturn_gateway.tools.function import FunctionTool
from everturn_gateway.tools.todo.lists import TodoList, TodoLists

_CAPABILITIES: Final = ToolCapabilities(repeatable=True, safe=True, timeout_s=60)


class TodoEntry(Arguments):
    """One thing to do."""

    text: Annotated[str, Field(min_length=1, max_length=ITEM_CHARACTERS)]
    status: TodoStatus = "pending"


class WriteTodo(Arguments):
    """What the list says from now on."""

    items: Annotated[tuple[TodoEntry, ...], Field(max_length=ITEMS_MAX)] | None = Field(
        default=None, description="the whole list; leave out to read it"
    )


def todo_tool(lists: TodoLists) -> Tool:
    """Return the tool that keeps the list of a session in `lists`."""

    async def answer(asked: WriteTodo, context: ToolContext) -> ToolOutput:
        try:
            if asked.items is None:
                return _told(await lists.read(context.session_id))
            items = tuple(TodoItem(text=each.text, status=each.status) for each in asked.items)
            todo = TodoList(items=items, outside=sources_behind(context))
            await lists.write(context.session_id, todo)
        except JournalError as error:
            raise ToolFailedError(str(error)) from error
        done = sum(item.status == "done" for item in items)
        return ToolOutput(text=f"noted: {done} of {len(items)} done")

    return FunctionTool(
        TODO_TOOL,
        "Keep the to-do list of this conversation, for work of several steps. Write it whole each"
        " time: before you begin, and whenever something is begun or done. People see it.",
        arguments=WriteTodo,
        capabilities=_CAPABILITIES,
        answer=answer,
    )


def _told(todo: TodoList) -> ToolOutput:
    if not todo.items:
        return ToolOutput(text="the list is empty")
    source = f"a to-do list that was written after reading {', '.join(todo.outside)}"
    is_outside = bool(todo.outside)
    return ToolOutput(
        text=todo_lines(todo.items), untrusted=is_outside, source=source if is_outside else ""
    )


def _make(setup: ToolSetup[PluginToolSettings]) -> tuple[Tool, ...]:
    return (todo_tool(setup.part(TodoLists)),)


TODO: Final = ToolPlugin(
    name=TODO_TOOL,
    interface=1,
    summary="keeps a to-do list for long work, which people see",
    docs="docs/builtin-tools.md",
    plan=lambda request: ToolPlan(settings=request.entries[-1].settings, reaches_out=False),
    make=_make,
)
