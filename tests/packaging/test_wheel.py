"""What a person gets who installs the wheel."""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MANUAL = f"everturn-{version('everturn')}.data"  # man pages, where they were built
PROJECT = "everturn_gateway/project/"
DOCS = f"{PROJECT}docs/"
_LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)")
PACKAGES = {"everturn", "everturn_actors", "everturn_channels", "everturn_gateway"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel and open it."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=100,
    )
    (path,) = folder.glob("everturn-*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_our_packages_and_nothing_that_could_collide(
    wheel: zipfile.ZipFile,
) -> None:
    """Top-level names such as `gateway` belong to other distributions and would overwrite them."""
    names = wheel.namelist()
    entry = next(name for name in names if name.endswith("entry_points.txt"))

    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} - {
        MANUAL
    } == PACKAGES
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert "everturn = everturn_gateway.__main__:main" in wheel.read(entry).decode()


def test_every_source_file_is_in_the_wheel_and_no_test_is(wheel: zipfile.ZipFile) -> None:
    """A module that is missing from the wheel fails on somebody else's machine first."""
    sources = {
        str(path.relative_to(ROOT / folder))
        for folder in ("actors", "channels", "gateway")
        for path in (ROOT / folder).rglob("*.py")
    }

    names = {name for name in wheel.namelist() if name.endswith(".py")}
    assert {name for name in names if not name.startswith(PROJECT)} == sources


def test_the_documentation_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    """`everturn help` and `everturn upgrade` read it there."""
    pages = {f"{DOCS}{path.relative_to(ROOT / 'docs')}" for path in (ROOT / "docs").rglob("*.md")}

    assert f"{DOCS}operate.md" in pages
    assert pages <= set(wheel.namelist())


def test_what_the_pages_point_to_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    """Whoever has installed it follows links to agents and examples without a checkout."""
    names = set(wheel.namelist())
    folders = {posixpath.dirname(name) for name in names}
    missing = {
        (page, target)
        for page in names
        if page.startswith(PROJECT) and page.endswith(".md")
        for target in _LINK.findall(wheel.read(page).decode())
        if (path := posixpath.normpath(f"{posixpath.dirname(page)}/{target}")) not in names
        and path not in folders
    }

    assert missing == set()
    assert f"{PROJECT}CHANGELOG.md" in names


def test_the_console_is_in_the_wheel_as_it_is_here(wheel: zipfile.ZipFile) -> None:
    """A page of which a file is missing shows nothing at all."""
    console = ROOT / "gateway" / "everturn_gateway" / "http" / "console" / "static"
    files = [path for path in console.rglob("*") if path.is_file()]

    assert len(files) > 10
    for path in files:
        name = str(path.relative_to(ROOT / "gateway"))
        assert wheel.read(name) == path.read_bytes(), name
