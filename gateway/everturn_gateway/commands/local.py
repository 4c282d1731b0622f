"""`everturn local pull`: the weights of the model that runs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from everturn_gateway.app import MODELS_FOLDER
from everturn_gateway.commands.shared.errors import EXIT_OK
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_done
from everturn_gateway.commands.shared.progress import slow_progress
from everturn_gateway.commands.shared.settings import load, make_private, run_async
from everturn_gateway.config.settings import Config
from everturn_gateway.providers.errors import WeightsError
from everturn_gateway.providers.local.weights import SMOLLM2, missing_engine
from everturn_gateway.providers.local.weights import pull as pull_weights

_MEGABYTE: Final = 1_000_000


def pull(options: Options, *, as_json: bool = False) -> int:
    """Fetch the weights into the workspace, and print where they are; return the exit code.

    Raises:
        WeightsError: They cannot be fetched, or nothing here could run them.
    """
    path = pull_into(load(options))
    record = {"model": {"provider": "local", "name": SMOLLM2.name}, "path": str(path)}
    print_done(str(path), record, as_json=as_json)
    return EXIT_OK


def pull_into(config: Config) -> Path:
    """Fetch the weights into the workspace of a configuration; return where they are."""
    missing = missing_engine()
    if missing:
        raise WeightsError(missing)

    make_private(config.workspace)  # the weights lie in it, and conversations soon will

    async def main() -> Path:
        async with slow_progress(f"{SMOLLM2.name} ({SMOLLM2.license}), MB") as told:

            def show(done_bytes: int, all_bytes: int) -> None:
                told(done_bytes // _MEGABYTE, all_bytes // _MEGABYTE)

            return await pull_weights(config.workspace / MODELS_FOLDER, show)

    return run_async(main)
