"""Fields of what a platform and strangers sent: of the wanted type, or empty. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from everturn_actors.json_values import as_list, is_object

Json: TypeAlias = Mapping[str, object]
"A JSON object."

_NOTHING: Final[Json] = {}


def text_of(data: object, *path: str) -> str:
    """Return the text at a path of fields; empty where there is none.

    >>> text_of({"info": {"mimetype": "image/png"}}, "info", "mimetype")
    'image/png'
    """
    value = at(data, *path)
    return value if isinstance(value, str) else ""


def number_of(data: object, *path: str) -> int | None:
    """Return the whole number at a path of fields; None where there is none."""
    value = at(data, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def object_of(data: object, *path: str) -> Json:
    """Return the object at a path of fields; an empty one where there is none."""
    value = at(data, *path)
    return value if is_object(value) else _NOTHING


def objects_of(data: object, *path: str) -> Sequence[Json]:
    """Return the objects of a list at a path of fields; what is none is left out."""
    return [each for each in as_list(at(data, *path)) if is_object(each)]


def texts_of(data: object, *path: str) -> Sequence[str]:
    """Return the texts of a list at a path of fields; what is none is left out."""
    return [each for each in as_list(at(data, *path)) if isinstance(each, str)]


def at(data: object, *path: str) -> object:
    """Return what stands at a path of fields; None where nothing does."""
    for name in path:
        if not is_object(data):
            return None
        data = data.get(name)
    return data
