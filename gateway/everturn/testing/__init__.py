"""Doubles and contract suites, for whoever builds on Everturn.

Doubles stand at the outermost edge - the model and the clock - and everything between is real:

>>> import anyio, everturn
>>> from everturn import testing
>>> async def main():
...     model = testing.ScriptedProvider("Four.")
...     async with everturn.open_gateway(everturn.Agent(name="sums", model=model)) as gateway:
...         answer = await gateway.ask("sums", "What is two and two?")
...     print(answer.text, model.requests[0].messages[-1].text)
>>> anyio.run(main)
Four. What is two and two?

A contract suite is a class of tests: subclass it in a test module, say what it is to try, and run
pytest. They need pytest, and no plug-in of it; the doubles need neither.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from everturn.testing._inbound import RecordingHandler
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.testing import ManualClock, ScriptedProvider, calling

if TYPE_CHECKING:  # they load pytest
    from everturn.testing._channels import ChannelContract
    from everturn.testing._keyed import KeyedStoreContract
    from everturn.testing._policies import PolicyContract
    from everturn.testing._providers import ProviderContract
    from everturn.testing._stores import StoreContract
    from everturn.testing._tools import ToolContract

__all__ = [
    "ChannelContract",
    "KeyedStoreContract",
    "ManualClock",
    "MemoryDisk",
    "PolicyContract",
    "ProviderContract",
    "RecordingHandler",
    "ScriptedProvider",
    "StoreContract",
    "ToolContract",
    "calling",
    "open_memory_store",
]

_SUITES = {
    "ChannelContract": "_channels",
    "KeyedStoreContract": "_keyed",
    "PolicyContract": "_policies",
    "ProviderContract": "_providers",
    "StoreContract": "_stores",
    "ToolContract": "_tools",
}
_ASSERTING = (
    *_SUITES.values(),
    "_channel_inbound",
    "_store_lists",
    "_store_logs",
    "_store_results",
)


def __getattr__(name: str) -> object:
    """Return a contract suite; pytest is loaded with the first."""
    if name not in _SUITES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    import pytest

    # So that a failure shows what was compared.
    new = [f"{__name__}.{each}" for each in _ASSERTING if f"{__name__}.{each}" not in sys.modules]
    pytest.register_assert_rewrite(*new)
    return getattr(import_module(f"{__name__}.{_SUITES[name]}"), name)
