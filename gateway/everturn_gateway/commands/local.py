"""`everturn local pull`: the weights of models that run on this machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

from everturn_gateway.commands.shared.errors import EXIT_OK
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_done
from everturn_gateway.commands.shared.progress import slow_progress
from everturn_gateway.commands.shared.settings import load, make_private, run_async
from everturn_gateway.config.settings import Config
from everturn_gateway.providers.errors import WeightsError
from everturn_gateway.providers.local.weights import SMOLLM2, OnProgress, missing_engine
from everturn_gateway.providers.local.weights import pull as pull_weights
from everturn_gateway.providers.local.whisper_weights import WHISPER_BASE, pull_whisper
from everturn_gateway.voice.whisper.engine import missing_library
from everturn_gateway.workspace_files import MODELS_FOLDER

_MEGABYTE: Final = 1_000_000
Fetch: TypeAlias = Callable[[Path, OnProgress], Awaitable[Path]]


def pull(options: Options, name: str, *, as_json: bool = False) -> int:
    """Fetch weights into the workspace, and print where they are; return the exit code.

    Raises:
        WeightsError: They cannot be fetched, or nothing here could run them.
    """
    path = pull_into(load(options), name)
    record = {"model": {"provider": "local", "name": name.lower()}, "path": str(path)}
    print_done(str(path), record, as_json=as_json)
    return EXIT_OK


def pull_into(config: Config, name: str = SMOLLM2.name) -> Path:
    """Fetch weights into the workspace of a configuration; return where they are.

    Raises:
        WeightsError: As `pull`.
    """
    match name.lower():
        case SMOLLM2.name:
            missing, told_as = missing_engine(), f"{SMOLLM2.name} ({SMOLLM2.license}), MB"
            fetch: Fetch = pull_weights
        case WHISPER_BASE.name:
            missing = missing_library()
            told_as = f"{WHISPER_BASE.name} ({WHISPER_BASE.license}), MB"
            fetch = pull_whisper
        case _:
            msg = f"{name!r} cannot be fetched; there are: {SMOLLM2.name}, {WHISPER_BASE.name}"
            raise WeightsError(msg)
    if missing:
        raise WeightsError(missing)

    make_private(config.workspace)  # the weights lie in it, and conversations soon will

    async def main() -> Path:
        async with slow_progress(told_as) as told:

            def show(done_bytes: int, all_bytes: int) -> None:
                told(done_bytes // _MEGABYTE, all_bytes // _MEGABYTE)

            return await fetch(config.workspace / MODELS_FOLDER, show)

    return run_async(main)
