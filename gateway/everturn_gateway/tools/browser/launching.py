"""Starts a Chromium of this machine, walled in."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from everturn_actors.errors import ToolFailedError

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

INSTALL: Final = "pip install 'everturn[browser]'"
NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_PASSED: Final = ("PATH", "LANG", "LC_ALL", "TZ")
_ROOT: Final = 0
# All that reaches out past the proxy, or by itself, is off.
_ARGUMENTS: Final = (
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-pings",
)
_NOWHERE: Final = "http://127.0.0.1:9"  # for what belongs to no session
_SHOWN: Final = ("/usr", "/etc", "/opt")
_LINKS: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")


def find_chromium(environ: Mapping[str, str], executable: str = "") -> str:
    """Return the path of a Chromium, empty where there is none. Looks at files."""
    path = environ.get("PATH") or _DEFAULT_PATH
    found = (shutil.which(name, path=path) for name in ((executable,) if executable else NAMES))
    return next(filter(None, found), "")


def find_bwrap(environ: Mapping[str, str]) -> str:
    """Return the path of bubblewrap, empty where there is none. Looks at files."""
    return shutil.which("bwrap", path=environ.get("PATH") or _DEFAULT_PATH) or ""


def needs_sandbox() -> bool:
    """Return whether Chromium cannot wall itself in here: it does not as root."""
    return sys.platform == "linux" and os.geteuid() == _ROOT


def prepare(folder: Path, chromium: str, environ: Mapping[str, str]) -> tuple[str, bool]:
    """Return what is started as the browser, and whether its own sandbox is on.

    Chromium's own sandbox is the better one. Where it refuses to work, as root, bubblewrap shows it
    programs and libraries, and nothing of anybody's files. Not for the event loop.

    Raises:
        ToolFailedError: Neither of them can wall it in.
    """
    if not needs_sandbox():
        return chromium, True
    bwrap = find_bwrap(environ)
    if not bwrap:
        msg = "a browser is started as root only inside of bubblewrap, which is not installed"
        raise ToolFailedError(msg)
    shown = [part for each in _SHOWN for part in ("--ro-bind-try", each, each)]
    for each in _LINKS:
        if Path(each).is_symlink():
            shown += ["--symlink", os.readlink(each), each]
        else:
            shown += ["--ro-bind-try", each, each]
    walls = [
        *(bwrap, "--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc"),
        *("--unshare-uts", "--unshare-cgroup-try", "--uid", "65534", "--gid", "65534"),
        *shown,
        *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/dev/shm"),
        *("--setenv", "HOME", "/tmp", "--chdir", "/tmp", chromium),
    ]
    script = folder / "chromium"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(walls)} "$@"\n', encoding="utf-8")
    script.chmod(0o700)
    return str(script), False


async def launch(
    playwright: Playwright, command: str, environ: Mapping[str, str], *, own_sandbox: bool
) -> Browser:
    """Start it; it ends with the process that starts it, however that ends."""
    passed = {name: environ[name] for name in _PASSED if name in environ}
    return await playwright.chromium.launch(
        executable_path=command,
        args=list(_ARGUMENTS),
        chromium_sandbox=own_sandbox,
        env={"PATH": _DEFAULT_PATH, **passed},
        proxy={"server": _NOWHERE, "bypass": "<-loopback>"},
        handle_sigint=False,
        handle_sigterm=False,
        handle_sighup=False,
    )
