"""What all plug-ins have in common: one frozen value that says everything about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import Any, Final, TypeAlias

from msgspec import Struct
from pydantic import BaseModel

from everturn_gateway.yaml_files import FieldPath

INTERFACE: Final = 1
"""The version of the interface that this Everturn offers.

It changes when a plug-in that was written for the one before would not work any more.
"""


def secret_fields(settings: BaseModel) -> Iterator[str]:
    """Yield the texts in fields that are declared with `Field(repr=False)`, sections within too."""
    for name, info in type(settings).model_fields.items():
        value: object = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from secret_fields(value)
        elif not info.repr and isinstance(value, str) and value:
            yield value


Remarks: TypeAlias = Iterable[tuple[FieldPath, str]]
"Fields, as paths from the section on, and what is to be said of each; () = the section itself."


def no_remarks(_settings: object) -> Remarks:
    """Say nothing of any settings."""
    return ()


def nothing_to_say() -> tuple[str, ...]:
    """Return no lines."""
    return ()


class Plugin(Struct, frozen=True, kw_only=True):
    """What Everturn knows of a plug-in before it is used. Describe one of its subclasses.

    The module that holds the value is imported whenever the plug-in is named in a configuration,
    or whenever somebody asks what there is. It has to be quick to import: what is heavy belongs
    into the functions, which are called only where the plug-in is used.
    """

    name: str
    "By which configurations call it; the same as that of the entry point."
    interface: int
    "The version of the interface it was written for: `INTERFACE` as it was then, a number."
    settings: type[BaseModel]
    """What its owner may set. The texts under the fields are their descriptions in the schema.

    A field with `Field(repr=False)` holds a secret.
    """
    summary: str = ""
    "What it is, in half a line."
    docs: str = ""
    "Where its documentation stands: an address, or a path in this repository."
    extra: str = ""
    "What has to be installed to use it, as pip takes it: `everturn[telegram]`; empty = nothing."
    libraries: tuple[str, ...] = ()
    "Import names of what `extra` brings; they are looked for, and not loaded."
    secrets: Callable[[Any], Iterable[str]] = secret_fields
    "Given settings, what nothing that people read may show."
    check: Callable[[], Iterable[str]] = nothing_to_say
    """What `doctor` says of it, a line each, whether it is used or not; quick, and without network.

    A line that begins with `problem: ` needs its owner. Called in a thread.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """What its entry points may be called."""
        return (self.name,)

    def missing(self) -> str:
        """Return the first of `libraries` that is not installed; empty where all are.

        Looks for files: not for the event loop.
        """
        return next((name for name in self.libraries if find_spec(name) is None), "")
