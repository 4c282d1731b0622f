"""Sets fields in a YAML text and leaves all else, comments too, as it stands. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import yaml

from everturn_actors.json_values import as_object, is_object

_PLAIN: Final = re.compile(r"[A-Za-z][\w./-]*(?::[\w./-]+)*", re.ASCII)
_READ_OTHERWISE: Final = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))


Section: TypeAlias = Mapping[str, str | Mapping[str, str]]
"Fields of a mapping: texts, or mappings of texts."


class EditError(ValueError):
    """The text cannot be changed so; it says why."""


def with_fields(text: str, at: Sequence[str], fields: Section) -> str:
    r"""Return the text with these fields in the mapping at `at`; an empty value takes one out.

    Args:
        text: One YAML document.
        at: The names that lead to the mapping; it has at least one field.
        fields: Texts by name; a mapping takes the place of what stands there.

    Raises:
        EditError: There is no such mapping, or its form cannot be changed safely.

    Example:
        >>> with_fields("model:\n  name: a  # mine\n", ["model"], {"name": "b", "base_url": "u"})
        'model:\n  name: b  # mine\n  base_url: u\n'
    """
    mapping = _mapping(text, at)
    known = {key.value: (key, value) for key, value in mapping.value}
    edits: list[tuple[int, int, str]] = []
    added: list[tuple[str, str]] = []
    for name, value in fields.items():
        if name not in known:
            added += [(name, _value(value))] if value else []
        elif value or mapping.flow_style:
            _, old = known[name]
            edits.append((old.start_mark.index, old.end_mark.index, _value(value)))
        else:
            key, old = known[name]
            edits.append((_line_start(text, key.start_mark.index), _next(text, old), ""))
    if added:
        edits.append(_addition(text, mapping, added))
    changed = text
    for start, end, new in sorted(edits, reverse=True):
        changed = f"{changed[:start]}{new}{changed[end:]}"
    _check(text, changed, at, fields)
    return changed


def fields_at(text: str, at: Sequence[str]) -> dict[str, str]:
    """Return the fields of the mapping at `at` that are scalars, as texts.

    Raises:
        EditError: There is no such mapping.
    """
    mapping = _mapping(text, at)
    return {
        key.value: value.value
        for key, value in mapping.value
        if isinstance(key, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode)
    }


def section_in(text: str, at: str, name: str) -> Mapping[str, object]:
    """Return the mapping `name` below the top field `at`; an empty one where there is none.

    Raises:
        EditError: The text is no mapping.
    """
    return as_object(as_object(_top(text).get(at)).get(name))


def with_section(text: str, at: str, name: str, fields: Section) -> str:
    r"""Return the text in which the mapping `name` below the top field `at` has these fields.

    Either is added where it is not there. One that is there keeps its other fields, and so do
    mappings in it.

    Raises:
        EditError: See `with_fields`.

    Example:
        >>> with_section("a: 1\n", "channels", "telegram", {"bot_token": "x"})
        'a: 1\nchannels:\n  telegram:\n    bot_token: x\n'
    """
    told = _top(text)
    section = told.get(at)
    if is_object(section) and name in section:
        there = as_object(section[name])
        inner = {
            n: v for n, v in fields.items() if not isinstance(v, str) and is_object(there.get(n))
        }
        own = {n: value for n, value in fields.items() if n not in inner}
        changed = with_fields(text, (at, name), own)
        for field, values in inner.items():
            changed = with_fields(changed, (at, name, field), values)
        return changed
    lines = [f"{name}:", *(f"  {field}: {_value(value)}" for field, value in fields.items())]
    if section:
        key, _ = _mapping(text, (at,)).value[0]
        start, indent = _below(text, at), " " * key.start_mark.column
        new = "".join(f"{indent}{line}\n" for line in lines)
        changed = text[:start] + new + text[start:]
    elif at in told:
        msg = f"{at} stands there without anything in it; take it out"
        raise EditError(msg)
    else:
        end = "" if not text or text.endswith("\n") else "\n"
        changed = f"{text}{end}{at}:\n" + "".join(f"  {line}\n" for line in lines)
    # Read again as whoever starts the gateway reads it: what it says is what was asked for.
    wanted: dict[str, object] = {**told, at: {**(section or {}), name: dict(fields)}}
    if _told(changed) != wanted:
        msg = f"{at} stands there in a form that is not changed by a program"
        raise EditError(msg)
    return changed


def _value(value: str | Mapping[str, str]) -> str:
    if isinstance(value, str):
        return _scalar(value)
    # In one line, which stands right below whatever indent.
    return f"{{{', '.join(f'{name}: {_scalar(each)}' for name, each in value.items())}}}"


def with_item(text: str, at: str, item: Mapping[str, object]) -> str:
    r"""Return the text with one more item in the list of the top field `at`, before all others.

    The list is added where it is not there.

    Raises:
        EditError: See `with_fields`.

    Example:
        >>> with_item("a: 1\n", "owners", {"name": "me", "accounts": {"chat": "7"}})
        "a: 1\nowners:\n  - name: me\n    accounts: {chat: '7'}\n"
    """
    told = _top(text)
    dumped = yaml.safe_dump(
        dict(item), sort_keys=False, allow_unicode=True, default_flow_style=None
    ).splitlines()
    lines = [f"{'  ' if number else '- '}{line}" for number, line in enumerate(dumped)]
    there = told.get(at)
    if at in told and not there:
        msg = f"{at} stands there without anything in it; take it out"
        raise EditError(msg)
    if there:
        # The new item takes the indent of the first one, which comments may stand above.
        entries = _mapping(text, ()).value
        mark = next(value for key, value in entries if key.value == at).start_mark
        start, indent = _below(text, at), " " * mark.column
    else:
        start, indent = len(text), "  "
        lines = ["" if not text or text.endswith("\n") else "\n", *lines]
    added = "".join(f"{indent}{line}\n" for line in lines if line.strip())
    if not there:
        added = f"{lines[0]}{at}:\n{added}"
    changed = text[:start] + added + text[start:]
    # Read again as whoever starts the gateway reads it: what it says is what was asked for.
    wanted: dict[str, object] = {**told, at: [dict(item), *(there or [])]}
    if _told(changed) != wanted:
        msg = f"{at} stands there in a form that is not changed by a program"
        raise EditError(msg)
    return changed


def _top(text: str) -> dict[str, Any]:  # YAML
    """Return what a document says; an empty one says nothing.

    Raises:
        EditError: It is no mapping.
    """
    read: object = _told(text) or {}
    if not isinstance(read, dict):
        msg = "it is no mapping"
        raise EditError(msg)
    return cast("dict[str, Any]", read)


def _told(text: str) -> Any:  # YAML
    try:
        return _unshared(yaml.safe_load(text))
    except (yaml.YAMLError, RecursionError):
        return ""


def _mapping(text: str, at: Sequence[str]) -> Any:  # a node of PyYAML, without types
    try:
        node: Any = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        msg = f"it is no YAML: {(str(error).splitlines() or ['?'])[0]}"
        raise EditError(msg) from error
    for name in at:
        inner: list[tuple[Any, Any]] = node.value if isinstance(node, yaml.MappingNode) else []
        node = next((value for key, value in inner if key.value == name), None)
    if not isinstance(node, yaml.MappingNode) or not node.value:
        msg = f"there is no mapping {'.'.join(at)}"
        raise EditError(msg)
    return node


def _addition(
    text: str,
    mapping: Any,  # see above
    added: Sequence[tuple[str, str]],
) -> tuple[int, int, str]:
    key, value = mapping.value[0]
    if mapping.flow_style:
        end = value.end_mark.index
        return end, end, "".join(f", {name}: {new}" for name, new in added)
    end = _next(text, value)
    begin = "" if text[:end].endswith("\n") else "\n"
    indent = " " * key.start_mark.column
    return end, end, begin + "".join(f"{indent}{name}: {new}\n" for name, new in added)


def _below(text: str, at: str) -> int:
    """Return where the line after a top field begins: what a comment there is about follows it."""
    return _next(text, next(key for key, _ in _mapping(text, ()).value if key.value == at))


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _next(text: str, node: Any) -> int:  # see above
    """Return where the line after a value begins."""
    # What is nested ends where the next thing begins, which may be lines further down.
    end = (
        node.end_mark.index
        if isinstance(node, yaml.ScalarNode)
        else len(text[: node.end_mark.index].rstrip())
    )
    found = text.find("\n", end)
    return len(text) if found < 0 else found + 1


def _scalar(value: str) -> str:
    is_plain = _PLAIN.fullmatch(value) and value.lower() not in _READ_OTHERWISE
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def _check(before: str, after: str, at: Sequence[str], fields: Section) -> None:
    """Refuse a change that would be more than what was asked for.

    Raises:
        EditError: It would.
    """
    try:
        wanted, found = (_unshared(yaml.safe_load(each)) for each in (before, after))
    except (yaml.YAMLError, RecursionError):
        wanted, found = None, ""
    place = wanted
    for name in at:
        place = place[name] if is_object(place) else None
    if is_object(place):
        for name, value in fields.items():
            if value or (name in place and name in _at(found, at)):
                place[name] = value
            else:
                place.pop(name, None)
    if wanted != found:
        msg = f"{'.'.join(at)} stands there in a form that is not changed by a program"
        raise EditError(msg)


def _unshared(value: object) -> object:
    """Return a copy in which no part is the same object as another one, as aliases make them."""
    return json.loads(json.dumps(value, default=str))


def _at(found: object, at: Sequence[str]) -> Mapping[str, object]:
    for name in at:
        found = as_object(found).get(name)
    return as_object(found)
