"""What the suites for stores stand on."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from everturn_actors.ports import SessionStore


class OnAFolder:
    """An empty folder for each test."""

    folder: Path
    "Empty at the beginning of each test."

    @pytest.fixture(autouse=True)
    def _empty_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path


class OnAStore(OnAFolder):
    """An empty folder for each test, and the way to open a store."""

    def open_store(self) -> AbstractAsyncContextManager[SessionStore]:
        """Open the store; called again in a test, it opens what the last one left: a restart."""
        raise NotImplementedError
