"""A real Synapse of one's own, where one is installed: `make synapse` puts it beside the tests.

Source: https://element-hq.github.io/synapse/latest/usage/configuration/ and, of users,
https://element-hq.github.io/synapse/latest/admin_api/register_api.html, read 2026-11-26.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
import anyio
from anyio import to_thread
from support.patience import WAIT_S

PYTHON: Final = Path(__file__).parents[2] / ".venv-synapse" / "bin" / "python"
NAME: Final = "everturn.test"
_SECRET: Final = "for-the-tests-alone"
_FAST: Final = {"per_second": 100_000, "burst_count": 100_000}
_LIMITS: Final = (
    "rc_message",
    "rc_registration",
    "rc_admin_redaction",
    "rc_joins_per_room",
    "rc_room_creation",
    "rc_key_requests",
    "rc_presence",
    "rc_media_create",
)


class Synapse:
    """A homeserver that can be stopped and started again, with what it knows."""

    def __init__(self, folder: Path, port: int, *, has_limits: bool) -> None:
        self.folder, self.port, self.has_limits = folder, port, has_limits
        self.url = f"http://127.0.0.1:{port}"
        self._has_keys = False
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(exist_ok=True)
        self._file = folder / "homeserver.yaml"
        self._file.write_text(json.dumps(self._configuration()))

    def _configuration(self) -> dict[str, object]:
        def at(name: str) -> str:
            return str(self.folder / name)

        log = {
            "version": 1,
            "handlers": {"file": {"class": "logging.FileHandler", "filename": at("synapse.log")}},
            "root": {"level": "WARNING", "handlers": ["file"]},
        }
        (self.folder / "log.yaml").write_text(json.dumps(log))
        limits: dict[str, object] = dict.fromkeys(_LIMITS, _FAST)
        limits["rc_login"] = dict.fromkeys(("address", "account", "failed_attempts"), _FAST)
        limits["rc_joins"] = dict.fromkeys(("local", "remote"), _FAST)
        limits["rc_invites"] = dict.fromkeys(("per_room", "per_user", "per_issuer"), _FAST)
        return {
            "server_name": NAME,
            "listeners": [
                {
                    "port": self.port,
                    "bind_addresses": ["127.0.0.1"],
                    "type": "http",
                    "tls": False,
                    "x_forwarded": False,
                    "resources": [{"names": ["client"], "compress": False}],
                }
            ],
            "database": {"name": "sqlite3", "args": {"database": at("synapse.db")}},
            "log_config": at("log.yaml"),
            "media_store_path": at("media"),
            "signing_key_path": at("signing.key"),
            "pid_file": at("synapse.pid"),
            "registration_shared_secret": _SECRET,
            "macaroon_secret_key": _SECRET,
            "form_secret": _SECRET,
            "report_stats": False,
            "trusted_key_servers": [],
            "federation_domain_whitelist": [],
            "url_preview_enabled": False,
            "bcrypt_rounds": 4,
            **({} if self.has_limits else limits),
        }

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [str(PYTHON), "-m", "synapse.app.homeserver", "-c", str(self._file)]
        if not self._has_keys:
            await anyio.run_process([*command, "--generate-keys"], cwd=self.folder)
            self._has_keys = True
        self._process = await to_thread.run_sync(self._started, command)
        async with aiohttp.ClientSession() as session:
            with anyio.fail_after(WAIT_S):
                while True:
                    with suppress(aiohttp.ClientError):
                        async with session.get(f"{self.url}/_matrix/client/versions") as answer:
                            if answer.status == 200:
                                return
                    await anyio.sleep(0.05)

    def _started(self, command: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    async def kill(self) -> None:
        """End it at once, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            await to_thread.run_sync(self._process.wait)
            self._process = None

    async def register(self, name: str, password: str) -> Mapping[str, Any]:
        """Make a user; return the answer: `access_token`, `device_id`, `user_id`."""
        address = f"{self.url}/_synapse/admin/v1/register"
        async with aiohttp.ClientSession() as session:
            async with session.get(address) as answer:
                nonce = (await answer.json())["nonce"]
            text = f"{nonce}\0{name}\0{password}\0notadmin".encode()
            mac = hmac.new(_SECRET.encode(), text, hashlib.sha1).hexdigest()
            body = {"nonce": nonce, "username": name, "password": password, "mac": mac}
            async with session.post(address, json=body) as answer:
                found: Mapping[str, Any] = await answer.json()
                return found
