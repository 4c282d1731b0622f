"""What `everturn.yaml` says of the store of sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pydantic import create_model

from everturn_gateway.errors import Fault
from everturn_gateway.plugins import Registry, StoreSettings, secret_fields
from everturn_gateway.yaml_files import Document

DEFAULT_STORE: Final = "file"


class AnyStoreSettings(StoreSettings):
    """`store`: which one, and its settings."""

    type: str = DEFAULT_STORE


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Where sessions are kept."""

    type: str = DEFAULT_STORE
    "The name of the plug-in."
    section: StoreSettings = field(default_factory=StoreSettings, repr=False)
    "Its settings, which may hold secrets."

    @property
    def secrets(self) -> tuple[str, ...]:
        """What nothing that people read may show."""
        return tuple(secret_fields(self.section))


def store_model(document: Document, registry: Registry) -> type[StoreSettings]:
    """Return the model of `store`, with the settings of the one that the file names."""
    plugin = registry.stores.get(_type(document))
    if plugin is None:
        return AnyStoreSettings  # `store_faults` says why
    fields: dict[str, Any] = {"type": (str, DEFAULT_STORE)}
    return create_model("StoreSettings", __base__=plugin.settings, **fields)


def store_faults(document: Document, registry: Registry) -> Iterator[Fault]:
    """Yield why the store that the file names cannot be used.

    The gateway does not go on with another one: it would not know any conversation.
    """
    name = _type(document)
    if "store" not in document.data or registry.stores.get(name) is not None:
        return
    fault = registry.stores.fault(name)
    known = ", ".join(registry.stores.names)
    message = str(fault) if fault else f"{name!r} is not available; there are: {known}"
    yield document.fault(("store", "type"), message)


def store_config(section: StoreSettings, document: Document | None) -> StoreConfig:
    """Return the value of a section; None = no file was read."""
    name = DEFAULT_STORE if document is None else _type(document)
    return StoreConfig(type=name, section=section)


def _type(document: Document) -> str:
    data: object = document.data.get("store")
    if not isinstance(data, Mapping):
        return DEFAULT_STORE
    return str(cast("Mapping[str, object]", data).get("type") or DEFAULT_STORE)
