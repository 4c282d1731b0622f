"""The settings of plug-ins in an agent's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from everturn_gateway.errors import Fault
from everturn_gateway.plugins.base import Remarks
from everturn_gateway.yaml_files import Document, FieldPath, check_part

SettingsT = TypeVar("SettingsT", bound=BaseModel)


def read_settings(
    document: Document,
    data: Mapping[str, object],
    model: type[SettingsT],
    *,
    at: FieldPath,
    ask: Callable[[Any], Remarks],
) -> tuple[SettingsT | None, tuple[Fault, ...]]:
    """Return the settings of a plug-in, None where there is a fault; and every fault.

    Args:
        document: The agent's file.
        data: What stands there for the plug-in.
        model: Of its settings.
        at: Where it stands.
        ask: Says what is wrong with settings beyond single fields.
    """
    # A boundary: the code of others must not keep the gateway from saying what else is wrong.
    try:
        section, faults = check_part(document, data, model, at=at)
        if section is not None:
            faults = tuple(document.fault((*at, *path), text) for path, text in ask(section))
    except Exception as error:  # noqa: BLE001 - see above
        message = f"its plug-in failed: {type(error).__name__}: {error}"
        return None, (document.fault(at, message),)
    return (None if faults else section), faults
