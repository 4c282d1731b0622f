"""The responder that needs nothing: no key, no network, no weights, and no model.

It shows that an installation works: it repeats what it was told, says how much of the conversation
it can see, and calls the tools that it is told to call by name. It is not a language model and says
so. It works on its request alone, so the same request always gets the same reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import anyio.lowlevel
from msgspec import Struct

from everturn_actors.model import (
    AnyMessage,
    ModelRequest,
    Notice,
    Reply,
    ToolCall,
    ToolResult,
    UserMessage,
)

MODEL_NAME: Final = "builtin"
WHAT_IT_IS: Final = (
    "I am Everturn's built-in responder, not a language model: I repeat what you say, and call a"
    " tool where a line says so (say help). To talk to a real model, name one under spec.model in"
    " this agent's agent.yaml; `everturn help models` shows how."
)

_RESULT_CHARS: Final = 4_000  # of one result that is shown
_SAID_CHARS: Final = 300  # of a message that is repeated
_TASK: Final = re.compile(r"\A\[(?:Task from the agent [^\]]*\]|Scheduled task [^\n]*\]\n)")
_HEARD: Final = re.compile(r"\A\[Said here before, not to you:\]\n.*\n\[Now to you:\]\n", re.DOTALL)
_NAME: Final = re.compile(r"\A\[[^\]\n]{1,64}\] ")  # who says it, in a group
_CALL: Final = re.compile(
    r"(?P<then>then )?call (?P<tool>[\w-]+)\s*(?P<arguments>\{.*\})?\s*", re.IGNORECASE | re.DOTALL
)
_NEXT_CALL: Final = re.compile(r"\n\s*(?=(?:then )?call )", re.IGNORECASE)
_HELP: Final = re.compile(r"(?:please )?/?help[?!. ]*", re.IGNORECASE)


class BuiltinResponder:
    """A `ModelProvider` without a model."""

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the reply; hand it on word by word, as a model would."""
        reply = reply_to(request)
        for word in words(reply.text):
            # Others get their turn between two words: this costs time only where they need it.
            await anyio.lowlevel.checkpoint()
            on_text(word)
        return reply


class _IntendedCall(Struct, frozen=True, kw_only=True):
    """A call that the message asks for."""

    tool: str
    arguments: dict[str, object]
    is_later: bool
    "Whether it waits for the results of those before it: its line begins with `then`."


class _CannotError(Exception):
    """The message asks for a call that cannot be made; the message says why."""


def words(text: str) -> list[str]:
    """Cut a text into pieces of one word each, the blanks kept."""
    return re.findall(r"\s*\S+(?:\s+$)?", text)


def reply_to(request: ModelRequest) -> Reply:
    """Return the reply to `request`; the same one every time.

    A message whose lines are `call TOOL {JSON}` becomes those calls, side by side; a line that
    begins with `then call` waits for those before it. A result that is an error ends that, so no
    turn goes on for ever. The results are shown as they are.

    Example:
        call write_file {"path": "a.txt", "content": "hello"}
        then call read_file {"path": "a.txt"}
    """
    user, since = _present(request.messages)
    if user is None:
        return _said(WHAT_IT_IS)
    told = own_words(user.text)
    try:
        steps = list(_steps(list(_intended_calls(told, request))))
    except _CannotError as error:
        return _said(str(error))
    begun = sum(isinstance(message, Reply) and bool(message.calls) for message in since)
    results = [message for message in since if isinstance(message, ToolResult)]
    if begun < len(steps) and not any(result.is_error for result in results):
        return _calling(steps[begun], user, begun, request)
    if results:
        return _said("\n\n".join(map(_shown, results)))
    if _HELP.fullmatch(told):
        return _said(_help(request))
    return _said(_repeated(told, request))


def own_words(text: str) -> str:
    """Return what a message says: without who says it, and what was said before to others."""
    text = _HEARD.sub("", text, count=1)
    return _NAME.sub("", _TASK.sub("", text, count=1), count=1).strip()


def _present(messages: Sequence[AnyMessage]) -> tuple[UserMessage | None, list[AnyMessage]]:
    """Return the newest user message, and what came after it."""
    since: list[AnyMessage] = []
    for message in reversed(messages):
        match message:
            case UserMessage():
                return message, since[::-1]
            case Notice():
                pass
            case _:
                since.append(message)
    return None, since[::-1]


def _intended_calls(told: str, request: ModelRequest) -> Iterator[_IntendedCall]:
    """Read the calls that a message asks for; none where it says anything else.

    Raises:
        _CannotError: A tool that is not offered, or arguments that are no JSON object.
    """
    matches = [_CALL.fullmatch(part) for part in _NEXT_CALL.split(told)]
    offered = {tool.name for tool in request.tools}
    found = [match for match in matches if match is not None]
    for match in found if len(found) == len(matches) else ():
        tool, text = match["tool"], match["arguments"] or "{}"
        if tool not in offered:
            names = ", ".join(sorted(offered)) or "none"
            msg = f"I have no tool {tool}. My tools: {names}."
            raise _CannotError(msg)
        try:
            arguments = json.loads(text)
        except (ValueError, RecursionError) as error:
            msg = f"The arguments of {tool} are not a JSON object: {error}."
            raise _CannotError(msg) from error
        yield _IntendedCall(tool=tool, arguments=arguments, is_later=bool(match["then"]))


def _steps(wanted: Sequence[_IntendedCall]) -> Iterator[list[_IntendedCall]]:
    step: list[_IntendedCall] = []
    for each in wanted:
        if each.is_later and step:
            yield step
            step = []
        step.append(each)
    if step:
        yield step


def _calling(
    wanted: Sequence[_IntendedCall], user: UserMessage, step: int, request: ModelRequest
) -> Reply:
    # The number of the message in the log, where it has one, so that no other turn has these ids.
    message = user.seq or len(request.messages)
    calls = tuple(
        ToolCall(
            call_id=f"builtin_{message}_{step + 1}_{number}",
            name=each.tool,
            arguments=json.dumps(each.arguments, ensure_ascii=False),
        )
        for number, each in enumerate(wanted, start=1)
    )
    return Reply(calls=calls, stop_reason="tool_calls", model=MODEL_NAME)


def _shown(result: ToolResult) -> str:
    text = result.text.strip() or "(nothing)"
    if len(text) > _RESULT_CHARS:
        text = f"{text[:_RESULT_CHARS]}… ({len(text) - _RESULT_CHARS:,} more characters)"
    what = f"{result.name} did not work:" if result.is_error else f"{result.name}:"
    return f"{what}\n{text}" if "\n" in text else f"{what} {text}"


def _help(request: ModelRequest) -> str:
    tools = [f"- call {tool.name}: {_first_sentence(tool.description)}" for tool in request.tools]
    how = (
        'A line with call TOOL {"argument": "value"} calls a tool; then call ... is the next step.'
    )
    return "\n".join((WHAT_IT_IS, *((how, *tools) if tools else ())))


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].partition("; ")[0].rstrip(".")


def _repeated(told: str, request: ModelRequest) -> str:
    line = " ".join(told.split())
    if len(line) > _SAID_CHARS:
        line = f"{line[:_SAID_CHARS]}…"
    seen = sum(isinstance(message, UserMessage) for message in request.messages)
    if seen == 1:
        return f"You said: “{line}”. {WHAT_IT_IS}"
    return f"You said: “{line}”. I can see {seen} messages of yours."


def _said(text: str) -> Reply:
    return Reply(text=text, model=MODEL_NAME)
