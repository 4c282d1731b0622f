"""The plug-in `browser`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from everturn_actors.ports import Tool
from everturn_gateway.plugins import PluginToolSettings, ToolPlugin, ToolSettingsError, ToolSetup
from everturn_gateway.tools.browser.browsers import BrowserRules
from everturn_gateway.tools.browser.launching import find_bwrap, find_chromium, needs_sandbox
from everturn_gateway.tools.browser.opening import BrowserPlace
from everturn_gateway.tools.browser.tool import BrowserTool
from everturn_gateway.tools.web.addresses import read_allowed
from everturn_gateway.yaml_files import FieldPath


class BrowserSettings(PluginToolSettings):
    """Uses a Chromium of this machine."""

    executable: str = ""
    "The browser's program, by name or path; by default chromium or google-chrome."
    allow_private: tuple[str, ...] = ()
    "Host names, addresses and networks beyond the public Internet."


def _faults(section: BrowserSettings) -> Iterator[tuple[FieldPath, str]]:
    try:
        read_allowed(section.allow_private)
    except ToolSettingsError as error:
        yield (), str(error)


def _make(setup: ToolSetup[BrowserSettings]) -> tuple[Tool, ...]:
    section = setup.settings
    wanted = BrowserRules(
        allowed=read_allowed(section.allow_private), executable=section.executable
    )
    return (BrowserTool(setup.part(BrowserPlace), wanted),)


def _check() -> Iterator[str]:
    found = find_chromium(os.environ)
    if not found:
        yield "no Chromium was found on this machine"
    elif needs_sandbox() and not find_bwrap(os.environ):
        yield f"{found} cannot be used: as root, it needs bubblewrap"
    else:
        yield f"the browser is {found}"


BROWSER: Final = ToolPlugin(
    name="browser",
    interface=1,
    summary="uses a web browser of this machine",
    docs="docs/builtin-tools.md",
    extra="everturn[browser]",
    libraries=("playwright",),
    settings=BrowserSettings,
    faults=_faults,
    make=_make,
    check=_check,
)
