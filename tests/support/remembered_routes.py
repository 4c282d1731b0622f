"""What FastAPI finds out about an endpoint is the same for every gateway of a process.

It reads signatures and makes validators for each of ninety routes, 0.15 s of CPU for each API, and
the tests make some hundreds of them. So an endpoint of the same code is read once in a process. The
endpoint itself, which belongs to a gateway, is never kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from types import FunctionType
from typing import Any

from fastapi import routing
from fastapi.dependencies.models import Dependant

_FIELDS = 1000
"More than an API has; a type that is made anew for each gateway must not pile up."


@cache
def remember_routes() -> None:
    """Let routes share what they can, from now on in this process."""
    names: dict[str, Any] = vars(routing)
    read: Callable[..., Dependant] = names["get_dependant"]
    known: dict[tuple[object, ...], tuple[object, Dependant]] = {}

    def get_dependant(*, path: str, call: Callable[..., Any], **more: Any) -> Dependant:
        if not isinstance(call, FunctionType):
            return read(path=path, call=call, **more)
        key = (call.__code__, path, *more.items())
        defaults = (call.__defaults__, call.__kwdefaults__)
        if (kept := known.get(key)) and kept[0] == defaults:
            return _copy(kept[1], call)
        found: Dependant = read(path=path, call=call, **more)
        if _is_everybodys(found):
            known[key] = (defaults, _copy(found, None))
        return found

    names["create_model_field"] = lru_cache(_FIELDS)(names["create_model_field"])
    names["get_dependant"] = get_dependant


def _copy(dependant: Dependant, call: Callable[..., Any] | None) -> Dependant:
    return replace(
        dependant,
        call=call,
        path_params=[*dependant.path_params],
        query_params=[*dependant.query_params],
        header_params=[*dependant.header_params],
        cookie_params=[*dependant.cookie_params],
        body_params=[*dependant.body_params],
        dependencies=[*dependant.dependencies],
    )


def _is_everybodys(dependant: Dependant) -> bool:
    """Whether what it depends on are functions of modules, and so of no gateway."""
    return all(
        isinstance(each.call, FunctionType)
        and each.call.__closure__ is None
        and _is_everybodys(each)
        for each in dependant.dependencies
    )
