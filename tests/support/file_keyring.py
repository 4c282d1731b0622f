"""A keyring in a file, for `PYTHON_KEYRING_BACKEND`: the system's own needs a desktop."""

from __future__ import annotations

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend


class FileKeyring(KeyringBackend):
    """Keeps secrets in the file that `PYTHON_KEYRING_FILE` names."""

    priority = 1.0

    @property
    def _path(self) -> Path:
        return Path(os.environ["PYTHON_KEYRING_FILE"])

    def _all(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self._path.read_text()) if self._path.exists() else {}
        return found

    def get_password(self, service: str, username: str) -> str | None:
        """See `KeyringBackend.get_password`."""
        return self._all().get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        """See `KeyringBackend.set_password`."""
        self._path.write_text(json.dumps({**self._all(), f"{service} {username}": password}))

    def delete_password(self, service: str, username: str) -> None:
        """See `KeyringBackend.delete_password`."""
        raise NotImplementedError
