"""What every command can be told on the command line. Light: imported for `--help` as well."""

from __future__ import annotations

import shlex
from pathlib import Path

from msgspec import Struct

DEFAULT_AGENT = "assistant"


class Options(Struct, frozen=True, kw_only=True):
    """Where the configuration is, and what overrides it."""

    config: Path | None = None
    workspace: Path | None = None
    agents_dir: Path | None = None

    def again(self) -> str:
        """Return these options as they have to be typed for another command; "" for none."""
        given = (
            ("--config", self.config),
            ("--workspace", self.workspace),
            ("--agents-dir", self.agents_dir),
        )
        return "".join(f" {name} {shlex.quote(str(path))}" for name, path in given if path)
