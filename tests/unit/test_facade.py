"""The facade for programs that embed Everturn: light to import, and its examples are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest
from support.tables import table

import everturn
from everturn import ToolContext
from everturn_actors.errors import ToolFailedError
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import ConversationKey, ToolCall

HEAVY = (
    "aiogram",
    "discord",
    "everturn_gateway.app",
    "fastapi",
    "httpx2",
    "orjson",
    "prometheus_client",
    "pydantic",
    "pytest",
    "starlette",
    "uvicorn",
    "yaml",
)
MODULES = [
    importlib.import_module(each.name)
    for each in pkgutil.walk_packages(everturn.__path__, "everturn.")
]


def test_importing_it_loads_the_core_alone() -> None:
    """A program that only names agents must not wait for web frameworks and chat platforms."""
    code = f"import sys, everturn; print([m for m in {HEAVY} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


def test_all_that_is_public_is_there_and_described() -> None:
    """What `from everturn import *` gives is what people read about."""
    missing = [name for name in everturn.__all__ if not hasattr(everturn, name)]
    undescribed = [
        name
        for name in everturn.__all__
        if name != "Decision" and not getattr(everturn, name).__doc__  # an alias has none
    ]

    assert (missing, undescribed) == ([], [])


@table("module", [everturn, *MODULES])
def test_the_examples_in_docstrings_are_true(module: ModuleType) -> None:
    """They are copied; each runs, and prints what it says."""
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)

    assert result.failed == 0


# --- functions as tools ---


@everturn.tool(name="mail", timeout_s=5, repeatable=True)
async def send_mail(
    to: list[str], subject: str, context: ToolContext, schema: str | None = None
) -> dict[str, object]:
    """Send a mail.

    To several people at once.

    Args:
        to: Addresses, each
            once.
        subject: What it is about.
        context: Where it runs.
        schema: Of no matter.

    Returns:
        What was done.
    """
    return {"to": to, "subject": subject, "session": context.session_id, "schema": schema}


async def run(tool: everturn.Tool, arguments: str) -> str:
    """Run one call and return its text."""
    async with open_memory_store(MemoryDisk()) as store:
        key = ConversationKey(channel="test", chat="1", agent="test")
        context = ToolContext(session_id="s", key=key, store=store)
        call = ToolCall(call_id="1", name=tool.definition.name, arguments=arguments)
        result = await tool.run(call, context)
    return result if isinstance(result, str) else result.text


async def test_a_model_sees_and_calls_a_function_as_its_author_wrote_it() -> None:
    """With names, types and descriptions of its own."""
    # A model sees a function as its author wrote it. Names, types and descriptions are those of the
    # function; the context is not told.
    definition = send_mail.definition

    assert definition.name == "mail"
    assert definition.description == "Send a mail.\n\nTo several people at once."
    assert definition.parameters == {
        "type": "object",
        "properties": {
            "to": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Addresses, each once.",
            },
            "subject": {"type": "string", "description": "What it is about."},
            "schema": {"type": "string", "description": "Of no matter."},
        },
        "required": ["to", "subject"],
    }
    assert (send_mail.capabilities.timeout_s, send_mail.capabilities.repeatable) == (5, True)

    # A function gets what the model gave and where it runs. Arguments arrive with their types; what
    # is no text goes back as JSON.
    text = await run(send_mail, '{"to": ["a", "b"], "subject": "s"}')

    assert text == '{"to":["a","b"],"subject":"s","session":"s","schema":null}'


@table(
    ("arguments", "message"),
    [
        ("{", "the arguments are not JSON"),
        ('{"to": "a", "subject": "s"}', "to: Input should be a valid"),
        ('{"to": [], "subject": "s", "x": 1}', "x: Extra inputs are not permitted"),
    ],
)
async def test_arguments_that_do_not_fit_are_told_to_the_model(
    arguments: str, message: str
) -> None:
    """The model reads which field is wrong, and the function is not called."""
    with pytest.raises(ToolFailedError, match=message):
        await run(send_mail, arguments)


def test_a_function_that_no_model_can_call_is_refused_where_it_stands() -> None:
    """The author reads it at once, with the name of the parameter."""
    with pytest.raises(TypeError, match="tool f: parameter x needs a type"):

        @everturn.tool
        def f(x) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - that is the fault
            """Do nothing."""

    with pytest.raises(TypeError, match=r"tool g: .*schema for"):

        @everturn.tool
        def g(x: doctest.DocTest) -> None:
            """Do nothing."""
