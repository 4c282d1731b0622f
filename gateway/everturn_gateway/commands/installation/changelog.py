"""What changed between two versions, as the changelog says it. Pure but for one file.

Source: https://keepachangelog.com/en/1.1.0/, read 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from everturn_gateway.commands.installation.project_files import project_file
from everturn_gateway.errors import GatewayError

_HEADING: Final = re.compile(r"(?m)^## \[([^\]\n]+)\][^\n]*\n")


class Release(Struct, frozen=True):
    """What the changelog says of one version."""

    version: str
    text: str
    "Markdown, below the heading of the version."


def read_changelog() -> tuple[Release, ...]:
    """Return all versions, the newest first.

    Raises:
        GatewayError: The changelog is not installed.
    """
    path = project_file("CHANGELOG.md")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"the changelog is not installed here: {path}"
        raise GatewayError(msg) from error
    return releases_in(text)


def releases_in(text: str) -> tuple[Release, ...]:
    r"""Return the versions of a changelog, in its order: the newest first.

    >>> [each.version for each in releases_in("# Changelog\\n## [0.2.0] - 2027-01-08\\n- more\\n")]
    ['0.2.0']
    """
    parts = _HEADING.split(text)[1:]
    return tuple(
        Release(version, body.strip())
        for version, body in zip(parts[::2], parts[1::2], strict=True)
        if body.strip()
    )


def since(releases: Sequence[Release], before: str, installed: str) -> tuple[Release, ...]:
    """Return what came after the version that ran before.

    Args:
        releases: All of them, the newest first.
        before: The version that ran here before; empty = none did. One that the changelog does not
            name counts as older than all.
        installed: The version that runs now. What is not released yet is a part of it.
    """
    if before == installed:
        return ()
    found: list[Release] = []
    for each in releases:
        if each.version == before:
            break
        found.append(each)
    return tuple(found)
