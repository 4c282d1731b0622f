"""Plug-ins are found by their entry points; one that cannot be used is left out and named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import pytest
from msgspec.structs import replace
from pydantic import Field
from support.plugin_packages import put_package
from support.tables import table

from everturn_gateway.plugins import (
    INTERFACE,
    ProviderPlugin,
    ProviderSettings,
    find_plugins,
    secret_fields,
)
from everturn_gateway.yaml_files import SettingsModel

TOOLS = "everturn.tools"
_OLD = (
    f"it was written for version 0 of the interface, and this is {INTERFACE};"
    " install a release of some-dice that goes with it"
)
SOURCE = """
from everturn_gateway.plugins import PluginToolSettings, ToolPlugin

def tool(name="dice", interface=1, settings=PluginToolSettings):
    return ToolPlugin(
        name=name, interface=interface, settings=settings, make=lambda setup: ()
    )

class Unready(PluginToolSettings):
    sides: "NoSuchType"

DICE = tool()
OLD = tool(interface=0)
OTHER = tool(name="cards")
BROKEN = tool(settings=Unready)
NONE = object()
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder from which modules are imported, and forgotten at the end."""
    return _made_a_site(tmp_path, monkeypatch)


def _made_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def test_a_plug_in_is_found_by_its_name(site: Path) -> None:
    """It is loaded where it is asked for, and not before."""
    put_package(site, "some-dice", points={TOOLS: {"dice": "some_dice:DICE"}}, module=SOURCE)

    found = find_plugins([str(site)])

    assert found.tools.names == ("dice",)
    assert "some_dice" not in sys.modules
    plugin = found.tools.get("dice")
    assert plugin is not None
    assert plugin.name == "dice"
    assert found.tools.package("dice") == "some-dice 1.0"
    assert found.faults() == ()
    assert found.tools.get("cards") is None


@table(
    ("value", "reason"),
    [
        ("no_such_module:DICE", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("some_dice:LOST", "AttributeError: module 'some_dice' has no attribute 'LOST'"),
        ("some_dice:NONE", "some_dice:NONE is a object, not a ToolPlugin"),
        ("some_dice:OLD", _OLD),
        ("some_dice:OTHER", "it calls itself 'cards', and its entry point 'dice'"),
        ("some_dice:BROKEN", "PydanticUndefinedAnnotation: name 'NoSuchType' is not defined"),
    ],
)
def test_what_cannot_be_used_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, reason: str
) -> None:
    """With its package and the reason; another of the same package works."""
    site = _made_a_site(tmp_path, monkeypatch)
    put_package(
        site,
        "some-dice",
        points={TOOLS: {"dice": value}, "everturn.policies": {}},
        module=SOURCE,
    )
    put_package(
        site, "good", points={TOOLS: {"good": "good:GOOD"}}, module=f"{SOURCE}\nGOOD = tool('good')"
    )

    found = find_plugins([str(site)])

    assert found.tools.get("dice") is None
    assert [plugin.name for plugin in found.tools.all()] == ["good"]
    (fault,) = found.faults()
    assert str(fault) == f"everturn.tools: dice of some-dice 1.0 is left out: {reason}"


def test_a_package_that_ends_the_program_is_left_out(site: Path) -> None:
    """Whatever its module does when it is imported costs that plug-in alone."""
    put_package(
        site, "leaver", points={TOOLS: {"dice": "leaver:DICE"}}, module="raise SystemExit(3)"
    )

    assert [fault.reason for fault in find_plugins([str(site)]).faults()] == ["SystemExit: 3"]


def test_two_of_one_name_are_both_left_out(site: Path) -> None:
    """Nobody can say which of them was meant."""
    for package in ("one", "two"):
        put_package(site, package, points={TOOLS: {"dice": f"{package}:DICE"}}, module=SOURCE)

    found = find_plugins([str(site)])

    assert found.tools.get("dice") is None
    assert [(fault.name, fault.package, fault.reason) for fault in found.faults()] == [
        ("dice", "one 1.0", "two 1.0 has a plug-in of that name too; keep one of them"),
        ("dice", "two 1.0", "one 1.0 has a plug-in of that name too; keep one of them"),
    ]


def test_nobody_takes_the_place_of_a_built_in_one(site: Path) -> None:
    """Of two of one name, Everturn's own stays."""
    put_package(site, "everturn", points={TOOLS: {"dice": "everturn_dice:DICE"}})
    put_package(site, "intruder", points={TOOLS: {"dice": "intruder:DICE"}}, module=SOURCE)
    (site / "everturn_dice.py").write_text(SOURCE, encoding="utf-8")

    found = find_plugins([str(site)])

    assert found.tools.is_own("dice")
    assert found.tools.get("dice") is not None
    (fault,) = found.faults()
    assert fault.package == "intruder 1.0"


def test_secrets_are_the_fields_that_are_not_shown() -> None:
    """Those of sections within count too; what is empty is none."""

    class Inner(SettingsModel):
        word: Annotated[str, Field(repr=False)] = "within"

    class Outer(SettingsModel):
        name: str = "shown"
        key: Annotated[str, Field(repr=False)] = "hidden"
        other: Annotated[str, Field(repr=False)] = ""
        inner: Inner = Inner()

    assert list(secret_fields(Outer())) == ["hidden", "within"]


def test_a_library_that_is_not_there_is_named() -> None:
    """It is looked for, and not loaded."""
    plugin = ProviderPlugin(
        name="acme",
        interface=INTERFACE,
        settings=ProviderSettings,
        libraries=("json", "no_such_library"),
        make=lambda _setup: (_ for _ in ()).throw(AssertionError),
    )

    assert plugin.missing() == "no_such_library"
    assert replace(plugin, libraries=("json",)).missing() == ""
