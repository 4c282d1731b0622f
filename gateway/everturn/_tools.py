"""Tools: the base of own classes, and functions as tools."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeAlias, TypeVar, overload

from everturn_actors.model import ToolCall, ToolDefinition
from everturn_actors.ports import ToolCapabilities, ToolContext, ToolOutput
from everturn_gateway.late_loading import late

if TYPE_CHECKING:
    from everturn import _functions
else:
    _functions = late("everturn._functions")  # pydantic takes a tenth of a second

P = ParamSpec("P")
R = TypeVar("R")

RunTool: TypeAlias = Callable[[ToolCall, ToolContext], Awaitable[str | ToolOutput]]


class Tool(ABC):
    """Something an agent can do, as a class; for most tools a function with `@tool` is enough.

    To write one:

    1. Subclass it. `definition` says how the model sees it: a name, what it does, and the JSON
       Schema of its arguments.
    2. `capabilities` says how it may be run. Promise only what is true: calls of a `read_only` one
       run side by side, and again after a crash; those of a `repeatable` one run again.
    3. `run` gets one call and where it runs. Check `call.arguments`: it is JSON that a model wrote.
    4. Raise `ToolFailedError` with what the model should read. Anything else counts as a fault.
    5. Set `needs_approval` where a person has to say yes to each call.
    6. Hold it to its contract: `everturn.testing.ToolContract`.
    """

    needs_approval: bool = False
    "Whether each call waits for a person, see `Gateway.approvals`."

    @property
    @abstractmethod
    def definition(self) -> ToolDefinition:
        """How the model sees it. The same each time: it is the head of every request."""

    @property
    def capabilities(self) -> ToolCapabilities:
        """How it may be run; by default as one with effects, within 300 s."""
        return ToolCapabilities()

    @abstractmethod
    async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
        """Run one call and return its result; a plain text is one that is trusted.

        Cancellation ends within a second all that the call began.

        Raises:
            ToolFailedError: With the text that the model should read.
        """


class FunctionTool(Tool, Generic[P, R]):
    """A function that is a tool; `tool` makes it. Called, it is still the function."""

    def __init__(
        self,
        function: Callable[P, R],
        definition: ToolDefinition,
        capabilities: ToolCapabilities,
        run: RunTool,
        *,
        needs_approval: bool,
    ) -> None:
        self._function, self._definition, self._run = function, definition, run
        self._capabilities = capabilities
        self.needs_approval = needs_approval

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self._function(*args, **kwargs)

    @property
    def definition(self) -> ToolDefinition:
        """How the model sees it."""
        return self._definition

    @property
    def capabilities(self) -> ToolCapabilities:
        """How it may be run."""
        return self._capabilities

    async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
        """Run one call.

        Raises:
            ToolFailedError: The arguments do not fit, or the function says so.
        """
        return await self._run(call, context)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str = "",
    needs_approval: bool = False,
    read_only: bool = False,
    repeatable: bool = False,
    timeout_s: float = 300,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str = "",
    needs_approval: bool = False,
    read_only: bool = False,
    repeatable: bool = False,
    timeout_s: float = 300,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a typed function.

    Its docstring tells the model what it does, lines under `Args:` what each argument is, and the
    annotations which values fit. A parameter of type `ToolContext` is not the model's: it gets
    where the call runs. A plain function runs in a thread, one with `async` on the event loop. A
    text or a `ToolOutput` is the result as it is, anything else becomes JSON.

    >>> import everturn
    >>> @everturn.tool(read_only=True)
    ... def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.
    ...
    ...     Args:
    ...         a: The first one.
    ...     '''
    ...     return a + b
    >>> add(2, 3)
    5
    >>> add.definition.name, add.definition.description
    ('add', 'Add two numbers.')
    >>> add.definition.parameters["properties"]["a"]
    {'description': 'The first one.', 'type': 'integer'}

    Args:
        function: The function.
        name: How the model calls it; by default as the function is called.
        needs_approval: Whether each call waits for a person, see `Gateway.approvals`.
        read_only: Whether it changes nothing: calls run side by side, and again after a crash.
        repeatable: Whether running a call twice does no harm: after a crash it runs again.
        timeout_s: Deadline of one call. A plain function that runs on after it is left alone.

    Raises:
        TypeError: A parameter has no annotation, or is one that a model cannot give.
    """

    def make(function: Callable[P, R]) -> FunctionTool[P, R]:
        definition, run = _functions.made_of(function, name)
        capabilities = ToolCapabilities(
            read_only=read_only, repeatable=repeatable, timeout_s=timeout_s
        )
        return FunctionTool(function, definition, capabilities, run, needs_approval=needs_approval)

    return make if function is None else make(function)
