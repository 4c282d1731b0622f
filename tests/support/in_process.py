"""Commands run in the process of the test, where a process of their own would show nothing more."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest
from support.command import Done

from everturn_gateway import cli
from everturn_gateway.commands.shared.crash import crash_log


class Run(Protocol):
    """Runs `everturn` in this process and in the test's folder."""

    def __call__(self, *arguments: str) -> Done:
        """Return how it ended."""
        ...


@contextmanager
def running_here(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Generator[Run]:
    """Run commands in `folder`; leave nothing of it behind, as commands decide where logs go."""

    def run(*arguments: str) -> Done:
        code = cli.run(arguments)
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return Done(code=code, out=said.out, err=said.err)

    monkeypatch.chdir(folder)
    handlers = [*logging.getLogger().handlers]
    yield run
    logging.getLogger().handlers[:] = handlers
    crash_log.folder = None
