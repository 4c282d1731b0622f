"""`everturn local pull`: the weights of the model that runs on this machine."""

from __future__ import annotations

import sys
from typing import Final

from everturn_gateway.app import MODELS_FOLDER
from everturn_gateway.commands.shared.errors import EXIT_OK
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.progress import slow_progress
from everturn_gateway.commands.shared.settings import load, make_private, run_async
from everturn_gateway.config.settings import Config
from everturn_gateway.providers.errors import WeightsError
from everturn_gateway.providers.local.weights import SMOLLM2, missing_engine
from everturn_gateway.providers.local.weights import pull as pull_weights

_MEGABYTE: Final = 1_000_000


def pull(options: Options) -> int:
    """Fetch the weights into the workspace; return the exit code.

    Raises:
        WeightsError: They cannot be fetched, or nothing here could run them.
    """
    return pull_into(load(options))


def pull_into(config: Config) -> int:
    """Fetch the weights into the workspace of a configuration; see `pull`."""
    missing = missing_engine()
    if missing:
        raise WeightsError(missing)

    make_private(config.workspace)  # the weights lie in it, and conversations soon will

    async def main() -> int:
        async with slow_progress(f"{SMOLLM2.name} ({SMOLLM2.license}), MB") as told:

            def show(done_bytes: int, all_bytes: int) -> None:
                told(done_bytes // _MEGABYTE, all_bytes // _MEGABYTE)

            path = await pull_weights(config.workspace / MODELS_FOLDER, show)
        sys.stdout.write(f"{path}\n")
        return EXIT_OK

    return run_async(main)
