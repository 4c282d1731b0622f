"""What is to be said of plug-ins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from everturn_gateway.plugins import Plugin, Registry

PROBLEM: Final = "problem: "


def plugin_findings(registry: Registry) -> Iterator[tuple[Literal["ok", "note", "problem"], str]]:
    """Yield a verdict and a line for each thing to say of what is installed.

    Those that came with Everturn are passed over where all is well. Imports all plug-ins and looks
    for files: not for the event loop.
    """
    usable = [(group, group.all()) for group in registry.groups()]
    for fault in registry.faults():
        yield "problem", str(fault)
    for group, plugins in usable:
        for plugin in plugins:
            shown = f"{group.name}: {plugin.name} of {group.package(plugin.name)}"
            if not group.is_own(plugin.name):
                docs = f"; see {plugin.docs}" if plugin.docs else ""
                yield "ok", f"{shown}: {plugin.summary or plugin.name}{docs}"
                if library := plugin.missing():
                    way = plugin.extra or library
                    yield "note", f"{shown} needs {library}: pip install '{way}'"
            for line in _checked(plugin):
                is_problem = line.startswith(PROBLEM)
                text = f"{shown}: {line.removeprefix(PROBLEM)}"
                yield ("problem" if is_problem else "note"), text


def _checked(plugin: Plugin) -> tuple[str, ...]:
    # A boundary: what the code of others raises is a finding, and not the end of the report.
    try:
        return tuple(plugin.check())
    except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
        return (f"{PROBLEM}its check failed: {type(error).__name__}: {error}",)
