"""The list of files that others run or take orders from, by name, by content, on the disk."""

from __future__ import annotations

from pathlib import Path

from support.tables import table

from everturn_gateway.tools.policy.files.protected_files import (
    BUILD_FILES,
    reason_of_content,
    reason_of_name,
    reason_on_disk,
)

BY_NAME = [
    ".git",
    ".git/config",
    ".GIT/config",
    ".Git/hooks/pre-commit",
    "sub/.git/config",
    ".g\u200cit/config",
    ".git /config",
    ".git./config",
    ".git::$INDEX_ALLOCATION/config",
    "GIT~1/config",
    "./sub/../.git/config",
    "/var/x/.git/config",
    ".gitattributes",
    ".gitmodules",
    ".gitconfig",
    ".npmrc",
    ".curlrc",
    ".psqlrc",
    ".bashrc",
    ".envrc",
    ".env",
    ".venv/bin/activate",
    ".github/workflows/x.yml",
    ".vscode/tasks.json",
    ".config/x",
    ".pytest_cache/conftest.py",
    ".gitignore/x",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "src/Makefile",
    "MAKEFILE",
    "rules.mk",
    "CMakeLists.txt",
    "BUILD",
    "package.json",
    "pyproject.toml",
    "conftest.py",
    "tests/unit/conftest.py",
    "setup.py",
    "usercustomize.py",
    "sitecustomize.py",
    "x.pth",
    "jest.config.js",
    "vite.config.ts",
    "Dockerfile",
    "Dockerfile.dev",
    "docker-compose.yml",
    "requirements-dev.txt",
    "Cargo.toml",
    "build.rs",
    "go.mod",
    "Gemfile",
    "Rakefile",
    "tox.ini",
    "-x",
    "src/--compress-program=sh",
]
ORDINARY = [
    "notes.txt",
    "src/app.py",
    "tests/test_app.py",
    "README.md",
    "build/x.txt",
    "build",
    "a.b.c",
    "a-b",
    "report.sh",
    "makefile_notes.md",
    "my_conftest.py",
    ".gitignore",
    "src/.gitkeep",
    ".pytest_cache/v/cache/lastfailed",
    "data/package.csv",
    "..",
    ".",
]


@table("path", BY_NAME)
def test_what_programs_take_orders_from_is_protected_by_its_name(path: str) -> None:
    """However the name is written."""
    assert reason_of_name(path)


@table("path", ORDINARY)
def test_an_ordinary_file_is_not(path: str) -> None:
    """An agent that asks before each file is switched off."""
    assert reason_of_name(path) == ""


@table("glob", BUILD_FILES)
def test_each_build_file_of_the_list_is_found(glob: str) -> None:
    """In any letters, in any folder."""
    name = glob.replace("*", "x")

    assert reason_of_name(f"src/{name}")
    assert reason_of_name(name.upper())


@table(
    ("head", "mode", "is_protected"),
    [
        (b"#!/bin/sh\n", 0o644, True),
        (b"\xef\xbb\xbf#!/bin/sh\n", 0o644, True),
        (b"text", 0o755, True),
        (b"text", 0o645, True),
        (b"text", 0o644, False),
        (b"# !", 0o644, False),
        (b"", 0o600, False),
    ],
)
def test_a_program_is_protected_by_what_it_is(head: bytes, mode: int, is_protected: bool) -> None:
    """By its run bit and its first two characters."""
    assert bool(reason_of_content(head, mode)) == is_protected


def test_a_path_counts_by_where_it_leads(tmp_path: Path) -> None:
    """Links, `..` and letters do not lead around the list."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("")
    (tmp_path / "g").symlink_to(".git")
    (tmp_path / "c").symlink_to(".git/config")
    (tmp_path / "plain.txt").write_text("")
    (tmp_path / "away").symlink_to("plain.txt")
    (tmp_path / "tool").write_text("")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "t.txt").symlink_to("tool")
    (tmp_path / "script").write_text("#!/bin/sh\n")

    protected = ["g/config", "c", "g", "src/../g/new", "tool", "t.txt", "script", ".git/x"]

    assert [path for path in protected if not reason_on_disk(tmp_path, path)] == []
    assert reason_on_disk(tmp_path, "away") == ""
    assert reason_on_disk(tmp_path, "new.py", data=b"import os\n") == ""
    assert reason_on_disk(tmp_path, "new.py", data=b"#!/usr/bin/env python\n")
    assert reason_on_disk(tmp_path, str(tmp_path / "g/config"))


def test_a_file_that_a_pattern_runs_or_that_cannot_be_read_is_protected(tmp_path: Path) -> None:
    """A model that may run it may not write it as well."""
    assert reason_on_disk(tmp_path, "src/../Report.sh", named=["report.sh"])
    assert reason_on_disk(tmp_path, "other.sh", named=["report.sh"]) == ""

    # A loop of links, for one.
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    assert reason_on_disk(tmp_path, "a/x")
    assert reason_on_disk(tmp_path, "c") == ""
