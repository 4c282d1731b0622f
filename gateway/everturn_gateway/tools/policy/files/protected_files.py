"""Which files of a workspace others run, or take orders from: writing one of them asks.

The one list. Whatever writes to a workspace looks here: the file tools at the moment of writing,
the gate for what a command would write, and what people send.

`reason_of_name` and `reason_of_content` are pure; `reason_on_disk` reads the file system: not for
the event loop.
Sources: the manuals of the programs named; git's `verify_path` for how `.git` can be written.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

_HARMLESS_FILES: Final = frozenset(
    (
        ".gitignore", ".gitkeep", ".keep", ".dockerignore", ".npmignore", ".prettierignore",
        ".eslintignore", ".editorconfig", ".ds_store", ".coverage", ".nojekyll", ".env.example",
    )
)  # fmt: skip
"Names with a dot by which no program runs anything."
_HARMLESS_FOLDERS: Final = frozenset(
    (".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".ipynb_checkpoints")
)
"Folders with a dot that hold what programs computed, and no code."

_BUILD_WORDS: Final = """
    makefile gnumakefile bsdmakefile makefile.* *.mk *.mak cmakelists.txt *.cmake cmakepresets.json
    meson.build meson_options.txt build.ninja sconstruct sconscript wscript build.bazel
    workspace.bazel module.bazel *.bzl justfile *.just taskfile.yml taskfile.yaml taskfile.*.yml
    magefile.go earthfile tiltfile configure configure.ac configure.in *.am *.m4 libtool autogen.sh
    dockerfile dockerfile.* *.dockerfile containerfile containerfile.* docker-compose*.y*ml
    compose.y*ml compose.*.y*ml docker-bake.* jenkinsfile procfile procfile.* vagrantfile
    package.json package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml
    pnpmfile.* lerna.json nx.json turbo.json rush.json bunfig.toml bun.lock* deno.json*
    import_map.json *.config.js *.config.cjs *.config.mjs *.config.ts *.config.cts *.config.mts
    *.config.json *.conf.js *.conf.ts gulpfile.* gruntfile.* jakefile* tsconfig*.json
    jsconfig*.json jest.setup.* setuptests.* vitest.* cypress.json next.config.* angular.json
    pyproject.toml setup.py setup.cfg tox.ini toxfile.py noxfile.py conftest.py pytest.ini
    pytest.toml mypy.ini pylintrc ruff.toml uv.toml hatch.toml hatch_build.py pdm.toml pdm_build.py
    sitecustomize.py usercustomize.py *.pth *.egg-link pyvenv.cfg pip.conf pip.ini fabfile.py
    dodo.py requirements*.txt requirements*.in constraints*.txt pipfile pipfile.lock poetry.lock
    uv.lock pdm.lock environment.y*ml cargo.toml cargo.lock build.rs rust-toolchain
    rust-toolchain.toml clippy.toml go.mod go.sum go.work go.work.sum pom.xml build.gradle*
    settings.gradle* gradle.properties init.gradle* gradlew gradlew.bat mvnw mvnw.cmd build.xml
    build.sbt build.sc build.mill *.sbt *.csproj *.fsproj *.vbproj *.vcxproj *.sln *.props
    *.targets nuget.config global.json rakefile *.rake gemfile gemfile.lock *.gemspec guardfile
    capfile thorfile brewfile podfile *.podspec fastfile dangerfile spec_helper.rb rails_helper.rb
    composer.json composer.lock phpunit.xml* pest.php php.ini mix.exs mix.lock rebar.config
    stack.yaml *.cabal cabal.project* dune dune-project dune-workspace *.opam package.swift
    *.pbxproj *.xcconfig *.xcscheme latexmkrc flake.nix flake.lock shell.nix default.nix
    *.nimble pubspec.yaml shard.yml deps.edn project.clj ansible.cfg terragrunt.hcl *.tfvars
    skaffold.yaml helmfile.y*ml chart.yaml crontab *.service *.timer *.socket *.desktop *.reg
    _vimrc _gvimrc _exrc
"""
BUILD_FILES: Final[tuple[str, ...]] = tuple(_BUILD_WORDS.split())
"Build files and what configures tests and package managers: globs, in small letters."

_BAZEL: Final = frozenset(("BUILD", "WORKSPACE", "BUCK"))
"Build files only in capitals: in small letters they are names of folders, and of anything."
_GIT_SHORT: Final = re.compile(r"git~\d+")
_MODE_RUN: Final = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
_SHEBANGS: Final = (b"#!", b"\xef\xbb\xbf#!")
_HEAD_BYTES: Final = 8

PROTECTED: Final[tuple[tuple[str, str], ...]] = (
    ("names with a dot", "such as .git, .npmrc, .venv; not .gitignore and the like"),
    ("build files", "Makefile, package.json, pyproject.toml, conftest.py, Dockerfile, ..."),
    ("files that can be run", "with a run bit, or that begin with #!, before or after"),
    ("names with a dash", "such as -x, which programs take for an option"),
    ("files of the policy", "those that an allow pattern runs, such as code:sh report.sh"),
)
"What writing asks about, in words: what, and which files."


def reason_of_name(path: str) -> str:
    """Return why a file of this path is protected, whatever is in it; empty where it is not.

    Args:
        path: As seen from the workspace, without links; or absolute.
    """
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    for number, part in enumerate(parts):
        name, is_last = _plain_name(part), number == len(parts) - 1
        if name.startswith("-"):
            return f"programs take the name {part!r} for an option"
        if _GIT_SHORT.fullmatch(name):
            return f"{part!r} can be another name of .git, from which git takes orders"
        if name.startswith(".") and not _is_harmless(name, is_last=is_last):
            which = "git" if name == ".git" else "programs"
            return f"{part!r} has a name with a dot, and {which} may take orders from such"
        if is_last and (part in _BAZEL or is_build_file(name) or is_build_file(part.casefold())):
            return f"{part!r} says what is run to build, test or install"
    return ""


def is_build_file(name: str) -> bool:
    """Return whether a file of this name, in small letters, tells build tools what to run."""
    return any(fnmatchcase(name, glob) for glob in BUILD_FILES)


def reason_of_content(head: bytes, mode: int = 0) -> str:
    """Return why a file that begins with `head` and has this mode is protected; empty if not."""
    if mode & _MODE_RUN:
        return "it is a program: it has a run bit"
    if head.startswith(_SHEBANGS):
        return "it is a program: it begins with #!"
    return ""


def reason_of_use(path: str, named: Collection[str]) -> str:
    """Return why a file is protected that a policy or an approval names; empty where none does.

    Args:
        path: As seen from the workspace, without links.
        named: Such paths, each with what names it left out; one that ends with `/` means all of
            that folder.
    """
    folded = path.casefold()
    for each in map(str.casefold, named):
        # What is above such a file can be put in its place.
        is_above = f"{each}/".startswith(f"{folded}/")
        if is_above or (each.endswith("/") and folded.startswith(each)):
            return "what was allowed before runs it or reads it"
    return ""


def reason_on_disk(
    root: Path, path: str, *, named: Collection[str] = (), data: bytes | None = None
) -> str:
    """Return why writing a file of the workspace asks, as it is now; empty where it does not.

    Reads the disk. Links count by where they lead.

    Args:
        root: The workspace.
        path: As seen from it, or absolute; `..` and links may be in it.
        named: Paths that the policy or an approval names, as seen from the workspace.
        data: The new content, or its beginning; None = not known.
    """
    base = Path(os.path.realpath(root))
    real = Path(os.path.realpath(root / path))
    written = Path(os.path.normpath(root / path))
    inside = _seen_from((base,), real)
    reason = (
        reason_of_name(inside)
        or reason_of_name(_seen_from((base, root), written))
        or reason_of_use(inside, named)
    )
    if reason:
        return reason
    if data is not None and (reason := reason_of_content(data)):
        return reason
    return _reason_of_file(real)


def _seen_from(roots: tuple[Path, ...], path: Path) -> str:
    """Return a path as seen from the first of `roots` that it is in; whole where it is in none."""
    root = next((each for each in roots if path.is_relative_to(each)), None)
    return str(path) if root is None else path.relative_to(root).as_posix()


def _reason_of_file(file: Path) -> str:
    """Return why a plain file is protected for what it is now; of all else nothing."""
    try:
        found = file.lstat()
        if not stat.S_ISREG(found.st_mode):
            return ""
        if reason := reason_of_content(b"", found.st_mode):
            return reason
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError:
        return "it cannot be read, so nobody knows what it is"
    try:
        return reason_of_content(os.read(fd, _HEAD_BYTES))
    finally:
        os.close(fd)


def _is_harmless(name: str, *, is_last: bool) -> bool:
    return name in _HARMLESS_FOLDERS or (is_last and name in _HARMLESS_FILES)


def _plain_name(part: str) -> str:
    """Return a name as the most forgiving file system would compare it."""
    folded = unicodedata.normalize("NFKC", part).casefold()
    name = "".join([c for c in folded if unicodedata.category(c) != "Cf"]).rstrip(" .")
    return name.partition(":")[0] if name.startswith(".") else name
