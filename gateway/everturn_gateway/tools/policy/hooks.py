"""Guards that refuse a call, and notes that go with a result. Pure.

Source: the hooks of Duragent's format v1alpha1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never, cast

import yaml
from msgspec import Struct, field

from everturn_actors.json_values import is_list, is_object
from everturn_actors.model import Conversation, Reply, ToolCall, ToolResult
from everturn_gateway.late_loading import late
from everturn_gateway.tools.policy.rules.patterns import read_glob

if TYPE_CHECKING:
    from everturn_gateway.tools.policy import subjects
else:
    subjects = late("everturn_gateway.tools.policy.subjects")

_SCALAR_CHARACTERS: Final = 200  # longer texts are texts
_NO_VALUE: Final = (ValueError, LookupError, AttributeError, RecursionError)
"What PyYAML raises for texts that only look like a value: `2026-13-45`, `0x_`, `!!bool maybe`."


class DependsOn(Struct, frozen=True, kw_only=True):
    """Refuses a call where another one has not gone well before, in this conversation."""

    match: str
    "The calls it guards: tool, or tool:action; `*` matches the rest."
    prior: str
    "What must have been called, written alike."
    match_arg: str = ""
    "The argument that must be the same in both; empty = none."


class SkipDuplicate(Struct, frozen=True, kw_only=True):
    """Refuses a call that was made in this turn, and went well."""

    match: str
    match_args: tuple[str, ...] = ()
    "The arguments that make two calls the same; empty = all."


class AfterTool(Struct, frozen=True, kw_only=True):
    """A note to the model that goes with the result of a call that went well."""

    match: str
    message: str
    unless: Mapping[str, object] = field(default_factory=dict[str, object])
    "No note where one of these arguments has this value; a text counts as what YAML makes of it."


Guard: TypeAlias = DependsOn | SkipDuplicate


def refusal(guards: tuple[Guard, ...], call: ToolCall, conversation: Conversation) -> str:
    """Return why the first guard refuses a call, in words for the model; empty where none does."""
    names = subjects.call_names(call)
    for guard in guards:
        if not _matches(guard.match, names):
            continue
        match guard:
            case DependsOn():
                reason = _missing(guard, call, conversation)
            case SkipDuplicate():
                reason = _repeated(guard, call, conversation)
            case _:
                assert_never(guard)
        if reason:
            return reason
    return ""


def notes(hooks: tuple[AfterTool, ...], call: ToolCall) -> tuple[str, ...]:
    """Return what goes with the result of a call that went well."""
    if not hooks:
        return ()
    names, arguments = subjects.call_names(call), subjects.arguments_of(call)
    return tuple(
        hook.message
        for hook in hooks
        if _matches(hook.match, names)
        and not any(
            name in arguments and _is_same(arguments[name], value)
            for name, value in hook.unless.items()
        )
    )


def _missing(guard: DependsOn, call: ToolCall, conversation: Conversation) -> str:
    """Return why a call that has to come first is missing; empty where it is there."""
    wanted = subjects.arguments_of(call).get(guard.match_arg)
    for earlier, result in _answered(conversation):
        # A call that failed has not prepared anything.
        if result.is_error or not _matches(guard.prior, subjects.call_names(earlier)):
            continue
        if not guard.match_arg or subjects.arguments_of(earlier).get(guard.match_arg) == wanted:
            return ""
    same = f" with the same {guard.match_arg} ({json.dumps(wanted)})" if guard.match_arg else ""
    return f"{call.name} needs a call of {guard.prior}{same} before it; make that call first"


def _repeated(guard: SkipDuplicate, call: ToolCall, conversation: Conversation) -> str:
    """Return why a call is one too many; empty where it is the first."""
    own = _identity(guard, call)
    for earlier in _made_this_turn(conversation, call.call_id):
        # By its arguments as values: their order and blanks mean nothing.
        if earlier.name == call.name and _identity(guard, earlier) == own:
            return f"this call of {call.name} was made in this turn already; use its result"
    return ""


def _identity(guard: SkipDuplicate, call: ToolCall) -> tuple[object, ...]:
    """Return what makes two calls the same one."""
    arguments = subjects.arguments_of(call)
    # All of them count where the file names none.
    if not guard.match_args:
        return (arguments,)
    chosen = {name: arguments[name] for name in guard.match_args if name in arguments}
    return (arguments.get("action"), chosen)


def _answered(conversation: Conversation) -> Iterator[tuple[ToolCall, ToolResult]]:
    """Yield the calls that have a result, newest turn first."""
    current = conversation.current
    if current is not None:
        if current.step is not None and current.step.reply is not None:
            yield from _with_results(current.step.reply, current.step.results)
        for step in reversed(current.steps):
            yield from zip(step.reply.calls, step.results, strict=True)
    for turn in reversed(conversation.turns):
        for step in reversed(turn.steps):
            yield from zip(step.reply.calls, step.results, strict=True)


def _with_results(
    reply: Reply, results: Mapping[str, ToolResult]
) -> Iterator[tuple[ToolCall, ToolResult]]:
    for call in reply.calls:
        if result := results.get(call.call_id):
            yield call, result


def _made_this_turn(conversation: Conversation, call_id: str) -> Iterator[ToolCall]:
    """Yield the calls of the running turn before `call_id` that went well, or may yet.

    Of the calls of one reply, which may run side by side, the first one counts.
    """
    current = conversation.current
    if current is None:
        return
    for step in current.steps:
        for call, result in zip(step.reply.calls, step.results, strict=True):
            if not result.is_error:
                yield call
    if current.step is None or current.step.reply is None:
        return
    for call in current.step.reply.calls:
        # What stands behind it in the same reply comes later, and may refer to this one.
        if call.call_id == call_id:
            return
        answer = current.step.results.get(call.call_id)
        # One that is under way counts: it may run beside this one.
        if answer is None or not answer.is_error:
            yield call


def _matches(pattern: str, names: tuple[str, ...]) -> bool:
    return any(map(read_glob(pattern).matches, names))


def _is_same(value: object, wanted: object) -> bool:
    """Return whether an argument is what a file says: the file's values are texts."""
    if value == wanted and isinstance(value, bool) == isinstance(wanted, bool):
        return True
    if is_object(value) and is_object(wanted):
        return value.keys() == wanted.keys() and all(_is_same(value[k], wanted[k]) for k in value)
    if is_list(value) and isinstance(wanted, list | tuple):
        others = cast("Sequence[object]", wanted)
        return len(value) == len(others) and all(map(_is_same, value, others))
    if not isinstance(wanted, str) or len(wanted) > _SCALAR_CHARACTERS or "\n" in wanted:
        return False
    return not isinstance(value, str | dict | list) and _scalar(wanted) == (type(value), value)


def _scalar(text: str) -> tuple[type, object]:
    try:
        found: object = yaml.safe_load(text)
    except (yaml.YAMLError, *_NO_VALUE):
        found = text
    return type(found), found
