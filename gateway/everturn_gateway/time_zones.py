"""Names of time zones, checked."""

from __future__ import annotations

import difflib
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

_NAME_CHARACTERS = 64  # the longest name of the IANA's has 32
# Beside the names of zones a system has files of its own: whatever the machine is set to, which is
# what a name is there to avoid, and copies, of which one counts leap seconds.
_NO_NAMES = ("localtime", "posixrules", "Factory", "posix/", "right/")


def check_zone(name: str) -> ZoneInfo:
    """Return the time zone of this name; the first time it is read from a file.

    Source: the IANA's time zone database, as the system or the package `tzdata` has it.

    Raises:
        ValueError: There is none; the text is for people, and names what may have been meant.
    """
    if not name.strip():
        msg = "needs the name of a time zone, like Europe/Berlin or UTC"
        raise ValueError(msg)
    if len(name) <= _NAME_CHARACTERS and not name.startswith(_NO_NAMES):
        try:
            return _read(name)
        except (KeyError, ValueError, OSError):  # unknown; no name at all; the name of a folder
            pass
    near = difflib.get_close_matches(_folded(name[:_NAME_CHARACTERS]), _names(), n=1)
    meant = f"did you mean {_names()[near[0]]}?" if near else "they are like Europe/Berlin or UTC"
    msg = f"{name[:_NAME_CHARACTERS]!r} is no time zone that is known; {meant}"
    raise ValueError(msg)


@lru_cache(maxsize=1024)  # a zone that was used once never costs a file again
def _read(name: str) -> ZoneInfo:
    return ZoneInfo(name)


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """Return the names that there are, by what is compared: people leave out case, and signs."""
    return {_folded(name): name for name in sorted(available_timezones() - set(_NO_NAMES))}


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace(" ", "")
