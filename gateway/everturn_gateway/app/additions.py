"""What a program that embeds a gateway adds to it as objects, beside what files name. Values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from msgspec import Struct, field

from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.ports import KeyedStore, ModelProvider, SessionStore
from everturn_gateway.specs.declared import DeclaredAgent


class Store(SessionStore, Protocol):
    """All that a gateway keeps."""

    @property
    def keyed(self) -> KeyedStore:
        """What is kept beside sessions."""
        ...


OpenStore: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]
"Opens the store of a gateway; what it gives is used until the context ends."


class Additions(Struct, frozen=True, kw_only=True):
    """Agents, providers and a store that stand in no file."""

    agents: tuple[DeclaredAgent, ...] = ()
    "Beside those of the agents folder; no two have one name."
    providers: Mapping[str, ModelProvider] = field(default_factory=dict[str, ModelProvider])
    "By the name that `spec.model.provider` of an agent gives them; they hide those of Everturn."
    open_store: OpenStore | None = None
    "Where all that is durable lives; None = as the configuration says."


NO_ADDITIONS = Additions()


def open_in_memory() -> AbstractAsyncContextManager[Store]:
    """Open a store in memory; what it holds is gone at the end."""
    return open_memory_store(MemoryDisk())
