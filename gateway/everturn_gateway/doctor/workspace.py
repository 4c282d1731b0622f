"""Whether a workspace is private, and has room."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from everturn_gateway.config.settings import Config
from everturn_gateway.doctor.findings import Finding, Verdict
from everturn_gateway.principals import TOKENS_KEY, USED_KEY
from everturn_gateway.workspace_files import HISTORY_NAME, LOG_NAME, NOTE_NAME, rights_of_others

_FREE_WARN_BYTES: Final = 1024**3
_FREE_FAIL_BYTES: Final = 100 * 1024**2  # below it, writing events may soon fail


def permission_findings(config: Config, *, repair: bool) -> list[Finding]:
    """Look whether others can read what people said, or write where the gateway writes."""
    workspace = config.workspace
    if not workspace.exists():
        text = f"{workspace} does not exist yet; it is created at the first start"
        return [Finding(verdict="note", subject="workspace", text=text)]
    if not os.access(workspace, os.R_OK | os.W_OK | os.X_OK):
        text = f"{workspace} cannot be written by this user"
        return [Finding(verdict="problem", subject="workspace", text=text)]
    found = [
        finding
        for path, mode in (
            (workspace, 0o700),
            (workspace / NOTE_NAME, 0o600),
            (workspace / HISTORY_NAME, 0o600),
            (workspace / LOG_NAME, 0o600),
            *((workspace / key, 0o600) for key in (TOKENS_KEY, USED_KEY)),
            ((workspace / TOKENS_KEY).parent, 0o700),
            *(((config.path, 0o600),) if _holds_secret(config) else ()),
            (config.env_file, 0o600),
        )
        if path is not None and (finding := _private(path, mode, repair=repair)) is not None
    ]
    return found or [Finding(verdict="ok", subject="workspace", text=f"{workspace} is private")]


def _holds_secret(config: Config) -> bool:
    """Say whether a secret stands in the configuration itself, not in the environment."""
    if config.path is None:
        return False
    text = config.path.read_text(encoding="utf-8", errors="replace")
    return any(secret in text for secret in config.secrets)


def _private(path: Path, mode: int, *, repair: bool) -> Finding | None:
    """Say where others have rights on `path`; None where they have none."""
    try:
        text = rights_of_others(path, path.stat())
    except FileNotFoundError:
        return None
    if not text:
        return None
    if not repair:
        return Finding(
            verdict="problem", subject="workspace", text=f"{text}; --repair makes it {mode:04o}"
        )
    try:
        path.chmod(mode)
    except OSError as error:
        return Finding(
            verdict="problem", subject="workspace", text=f"{text}, and stays: {error.strerror}"
        )
    return Finding(verdict="repaired", subject="workspace", text=f"{path} is now {mode:04o}")


def disk_finding(config: Config) -> Finding:
    """Say how much room there is. Looks at the disk: not for the event loop."""
    place = config.workspace
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    text = f"{free / 1024**3:.1f} GiB free"
    if free < _FREE_FAIL_BYTES:
        return Finding(verdict="problem", subject="disk", text=f"only {text}")
    verdict: Verdict = "note" if free < _FREE_WARN_BYTES else "ok"
    return Finding(verdict=verdict, subject="disk", text=text)
