"""Values as JSON and YAML give them, narrowed to what can be asked of them. Pure.

What came from outside is an `object` until somebody has looked. A parser gives names of fields as
texts, which a type checker cannot know: it is said here, once.
"""

from __future__ import annotations

from typing import TypeAlias, TypeGuard

Json: TypeAlias = dict[str, object]
"An object of JSON."


def is_object(value: object) -> TypeGuard[Json]:
    """Whether it is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Whether it is a list."""
    return isinstance(value, list)


def as_object(value: object) -> Json:
    """Return it where it is an object, else an empty one.

    >>> as_object({"a": 1}), as_object("a")
    ({'a': 1}, {})
    """
    return value if is_object(value) else {}


def as_list(value: object) -> list[object]:
    """Return it where it is a list, else an empty one."""
    return value if is_list(value) else []
