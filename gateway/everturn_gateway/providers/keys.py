"""Keys from files, for those who do not want them in the environment.

A file that others can read is refused: its key is no secret any more.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from everturn_gateway.plugins.providers import key_variable
from everturn_gateway.providers.errors import ProviderConfigError
from everturn_gateway.workspace_files import rights_of_others

_SUFFIX: Final = "_API_KEY"
_FILE_SUFFIX: Final = "_FILE"
_KEY_LIMIT_BYTES: Final = 16 * 1024  # a key has a hundred or two


class Keys(Mapping[str, str]):
    """An environment in which keys stand that are kept in files.

    `NAME_API_KEY` is, in this order: what the configuration's `providers.name.api_key_file` holds;
    the variable itself; what the file holds that the variable `NAME_API_KEY_FILE` names. A file is
    read whenever its key is asked for: not for the event loop.
    """

    def __init__(self, environ: Mapping[str, str], files: Mapping[str, Path]) -> None:
        """Take the files by provider's name."""
        self._environ = environ
        self._files = {key_variable(name): file for name, file in files.items()}

    def __getitem__(self, name: str) -> str:
        """Return a variable or a key.

        Raises:
            KeyError: There is none.
            ProviderConfigError: The file of the key cannot be used; says what to do.
        """
        if name in self._files:
            return read_key(self._files[name])
        if name not in self._environ and name.endswith(_SUFFIX):
            named = self._environ.get(f"{name}{_FILE_SUFFIX}", "").strip()
            if named:
                return read_key(Path(named))
        return self._environ[name]

    def __iter__(self) -> Iterator[str]:
        """Return the names of the variables, and of the keys in the configuration's files."""
        return iter({**self._environ, **self._files})

    def __len__(self) -> int:
        """Return how many there are."""
        return len({**self._environ, **self._files})


def read_key(path: Path) -> str:
    """Return the key in a file.

    Raises:
        ProviderConfigError: It cannot be read, is empty, or others can read it too.
    """
    try:
        # Opened first and looked at then, so that it is one and the same file; a pipe does not
        # make the gateway wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            _check(path, os.fstat(file.fileno()))
            data = file.read(_KEY_LIMIT_BYTES + 1)
    except OSError as error:
        msg = f"the key file {path} cannot be read: {error.strerror or error}"
        raise ProviderConfigError(msg) from error
    key = data.decode("utf-8", "replace").strip()
    if not key or len(data) > _KEY_LIMIT_BYTES:
        what = "is too large to hold a key" if key else "is empty; write the key into it"
        msg = f"the key file {path} {what}"
        raise ProviderConfigError(msg)
    return key


def _check(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        msg = f"the key file {path} is no file"
        raise ProviderConfigError(msg)
    user = os.geteuid()
    if found.st_uid != user:
        msg = (
            f"the key file {path} belongs to another user (id {found.st_uid});"
            f" it has to be the gateway's own: chown {user} {path}"
        )
        raise ProviderConfigError(msg)
    if text := rights_of_others(path, found):
        msg = f"the key file {text}; chmod 600 {path}"
        raise ProviderConfigError(msg)
