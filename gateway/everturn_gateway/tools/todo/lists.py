"""Where the newest to-do list of each session is kept: its call may leave the log."""

from __future__ import annotations

from typing import Final

from everturn_actors.codec import Value
from everturn_actors.documents import Document, Form, form_of
from everturn_actors.ports import KeyedStore
from everturn_actors.todo import TodoItems


class TodoList(Value, frozen=True, kw_only=True):
    """A list, and what it may have been made of."""

    items: TodoItems = ()
    outside: tuple[str, ...] = ()
    "The text from outside that was shown when it was written, by source."


_FORM: Final[Form[TodoList]] = form_of(
    "todo", TodoList, TodoList(), remedy="remove it; the agent writes a new list"
)


class TodoLists:
    """The lists of all sessions."""

    def __init__(self, store: KeyedStore) -> None:
        """Keep them in `store`; nothing is read yet."""
        self._store = store

    async def read(self, session_id: str) -> TodoList:
        """Return the list of a session, empty where it has none.

        Raises:
            JournalError: It cannot be read, or is damaged; the text says where.
        """
        return await self._document(session_id).read()

    async def write(self, session_id: str, todo: TodoList) -> None:
        """Replace the list of a session; return when that is durable.

        Raises:
            JournalError: It cannot be written.
        """
        await self._document(session_id).write(todo)

    async def forget(self, session_id: str) -> None:
        """Keep nothing of a session that is deleted.

        Raises:
            JournalError: It cannot be removed.
        """
        await self._store.delete(_key(session_id))

    def _document(self, session_id: str) -> Document[TodoList]:
        return Document(self._store, _key(session_id), _FORM)


def _key(session_id: str) -> str:
    return f"todo/{session_id}.json"
