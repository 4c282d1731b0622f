"""The tool `todo`: a list for long work, which the model keeps and people see."""

from __future__ import annotations

from everturn_gateway.tools.todo.lists import TodoLists
from everturn_gateway.tools.todo.reminder import TodoReminder

__all__ = ["TodoLists", "TodoReminder"]
