"""A real Prosody of one's own, where one is installed: `make prosody` installs Debian's.

Source: https://prosody.im/doc/configure and .../doc/modules/mod_mam, read 2026-11-27.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread
from support.patience import WAIT_S

COMMAND: Final = shutil.which("prosody", path=f"{os.environ.get('PATH', '')}:/usr/bin") or ""
NAME: Final = "everturn.test"
_USERS: Final = 100
_SETTINGS: Final = """\
modules_enabled = {{ "roster"; "saslauth"; "disco"; "ping"; "mam"; "offline" }}
c2s_require_encryption = false
allow_unencrypted_plain_auth = true
run_as_root = true
authentication = "internal_plain"
default_archive_policy = true
archive_expires_after = "never"
storage = "internal"
data_path = "{folder}/data"
pidfile = "{folder}/prosody.pid"
log = {{ info = "{folder}/prosody.log" }}
c2s_interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {port} }}
s2s_ports = {{ }}
http_ports = {{ }}
https_ports = {{ }}
VirtualHost "{name}"
"""


class Prosody:
    """A server with the accounts `bot0` to `bot99`, `ann0` and `bob0` to the same; password `pw`.

    It can be stopped and started again, with what it keeps.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self._accounts = folder / "data" / NAME.replace(".", "%2e") / "accounts"
        self._accounts.mkdir(parents=True)
        for number in range(_USERS):
            for name in ("bot", "ann", "bob"):
                self.set_password(f"{name}{number}", "pw")
        self._file = folder / "prosody.cfg.lua"
        self._file.write_text(_SETTINGS.format(folder=folder, port=port, name=NAME))
        self._process: subprocess.Popen[bytes] | None = None

    def set_password(self, user: str, password: str) -> None:
        """Make a user, or change the password."""
        text = f'return {{ ["password"] = "{password}"; }};\n'
        (self._accounts / f"{user}.dat").write_text(text)

    def remove(self, user: str) -> None:
        """Remove a user."""
        (self._accounts / f"{user}.dat").unlink()

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = await to_thread.run_sync(self._started)
        with anyio.fail_after(WAIT_S):
            while True:
                with suppress(OSError):
                    await (await anyio.connect_tcp("127.0.0.1", self.port)).aclose()
                    return
                await anyio.sleep(0.02)

    def _started(self) -> subprocess.Popen[bytes]:
        command = [COMMAND, "--root", "--config", str(self._file), "-F"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    async def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            await to_thread.run_sync(self._process.wait)
            self._process = None
