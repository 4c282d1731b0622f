"""Faults that single fields of `everturn.yaml` do not show, and what has no effect there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from everturn_gateway.config.channels import channel_notes
from everturn_gateway.config.links import link_faults, link_notes
from everturn_gateway.config.owners import owner_faults, owner_notes
from everturn_gateway.config.providers import provider_notes
from everturn_gateway.config.schemas import FileSettings, ServerSettings
from everturn_gateway.errors import Fault
from everturn_gateway.plugins import Registry
from everturn_gateway.yaml_files import Document, FieldPath


def conflicts(document: Document) -> Iterator[Fault]:
    """Yield which sections cannot stand beside each other."""
    if {"channels", "gateways"} <= document.data.keys():
        message = "is Duragent's name for channels; keep one of the two"
        yield document.fault(("gateways",), message)


def crowding(document: Document, server: ServerSettings) -> Iterator[Fault]:
    """Yield that followers would leave no room for messages."""
    if server.max_followers is not None and server.max_followers >= server.max_connections:
        message = (
            f"must be below server.max_connections ({server.max_connections}), so that messages"
            f" find room beside followers, not '{server.max_followers}'"
        )
        yield document.fault(("server", "max_followers"), message)


def people_faults(document: Document, file: FileSettings, registry: Registry) -> Iterator[Fault]:
    """Yield what is wrong with owners and links."""
    for path, message in (
        *owner_faults(document, file.owners, registry),
        *link_faults(file.links),
    ):
        yield document.fault(path, message)


def notes(document: Document, file: FileSettings, registry: Registry) -> Iterator[str]:
    """Say what stands in the file and has no effect."""
    for path in document.places:
        match path:
            case ("gateways",):
                yield _note(document, path, "is Duragent's name for channels, and is read as them")
            case (
                ("server", "keep_alive_interval_seconds")
                | ("services", "session", "path")
                | ("world_memory", "path")
                | ("sandbox", "mode")
            ):
                yield _note(document, path, "is a setting of Duragent's that has no effect here")
            case _:
                pass
    yield from channel_notes(document, registry)
    yield from provider_notes(document, registry)
    names = [channel.name for channel in (file.gateways or file.channels).values(registry, Path())]
    for path, message in (*owner_notes(file.owners, names), *link_notes(file.links, names)):
        yield _note(document, path, message)


def _note(document: Document, path: FieldPath, message: str) -> str:
    return str(document.fault(path, message))
