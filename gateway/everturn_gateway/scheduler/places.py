"""How files are named to those who must not know where this machine keeps them."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class Places(Struct, frozen=True, kw_only=True):
    """Where definitions stand, so that their files can be named."""

    workspace: Path
    agents_dir: Path

    def name(self, file: Path) -> str:
        """Return a file's name from the folder in which the workspace or the agents are."""
        for folder in (self.workspace, self.agents_dir):
            if file.is_relative_to(folder):
                return (folder.name / file.relative_to(folder)).as_posix()
        return file.name

    def without_paths(self, text: str) -> str:
        """Return a text in which files are named like that."""
        for folder in (self.workspace, self.agents_dir):
            text = text.replace(f"{folder}/", f"{folder.name}/")
        return text
