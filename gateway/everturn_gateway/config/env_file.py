"""Variables in a file, `.env`, beside the configuration."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

from everturn_gateway.config.system_keyring import MARK, secret_at
from everturn_gateway.errors import ConfigError, Fault, GatewayError
from everturn_gateway.workspace_files import rights_of_others

ENV_NAME: Final = ".env"
_LIMIT_BYTES: Final = 1024 * 1024  # a key has a hundred or two


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables that a file sets; none where there is no file.

    Lines are `NAME=value`, with or without `export` and quotes; nothing in a value is expanded. One
    that begins with `keyring:` is read in the system's keyring. Not for the event loop.

    Raises:
        ConfigError: It cannot be read, or a line of it is no variable.
    """
    try:
        if not path.is_file():
            return {}
        data = path.read_bytes()[: _LIMIT_BYTES + 1]
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise _fault(path, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _fault(path, f"is not UTF-8 at byte {error.start}") from error
    if len(data) > _LIMIT_BYTES:
        raise _fault(path, "is too large to hold variables")
    from dotenv.parser import parse_stream  # noqa: PLC0415 - 10 ms, for who has such a file

    found: dict[str, str] = {}
    for line in parse_stream(io.StringIO(text)):
        if line.error:
            raise _fault(path, "is no variable: write NAME=value", line.original.line)
        if line.key is not None and line.value is not None:
            found[line.key] = _secret(path, line.original.line, line.key, line.value)
    return found


def _secret(path: Path, line: int, name: str, value: str) -> str:
    """Return what a value stands for: itself, or what it names in the system's keyring."""
    if not value.startswith(MARK):
        return value
    try:
        return secret_at(value, name)
    except GatewayError as error:
        raise _fault(path, f"{name} {error}", line) from error


def open_to_others(path: Path) -> str:
    """Return how a file of keys can be closed to other users; empty = nothing is to be done."""
    try:
        text = rights_of_others(path, path.stat())
    except OSError:
        return ""
    return f"{text}; chmod 600 {path}" if text else ""


def _fault(path: Path, message: str, line: int = 0) -> ConfigError:
    return ConfigError(faults=[Fault(file=path, line=line, message=message)])
