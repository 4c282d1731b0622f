"""`everturn move`: all that a gateway keeps, from the folder to a database or back."""

from __future__ import annotations

from functools import partial
from typing import Final

from anyio.to_thread import run_sync
from pydantic import ValidationError

from everturn_gateway.app.moving import Moved, move_store
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.errors import EXIT_OK, say
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json
from everturn_gateway.commands.shared.progress import slow_progress
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.config.stores import StoreConfig
from everturn_gateway.errors import GatewayError
from everturn_gateway.plugins import StoreSettings, installed

FOLDER: Final = "folder"
_TYPES: Final = {FOLDER: "file", "postgres": "postgres", "postgresql": "postgres"}


def move(options: Options, *, to: str, schema: str, as_json: bool = False) -> int:
    """Move all to another store, compare it byte for byte, and say what to do then.

    Args:
        options: Where the configuration is, which names the store that is left.
        to: `folder`, or the address of a database.
        schema: Of the database.
        as_json: Print JSON.

    Raises:
        GatewayError: `to` is neither, or they cannot be moved so.
    """
    config = load(options)
    store = _store(to, schema)
    for secret in store.secrets:
        crash_log.secrets.add(secret)

    async def run() -> Moved:
        async with slow_progress("sessions") as told:
            return await move_store(config, await run_sync(partial(_store, to, schema)), told)

    done = run_async(run)
    section = "store: {type: file}"
    if store.type != "file":
        more = "" if schema == "everturn" else f", schema: {schema}"
        section = f'store: {{type: {store.type}, url: "${{EVERTURN_DATABASE_URL}}"{more}}}'
    if as_json:
        record = {"sessions": done.sessions, "written": done.written, "values": done.values}
        print_json({**record, "place": done.place, "setting": section})
        return EXIT_OK
    say(
        f"{done.sessions} sessions ({done.written} written, the others were there) and"
        f" {done.values} other values are in {done.place}, compared byte for byte"
    )
    say(f"now write into everturn.yaml: {section}")
    return EXIT_OK


def _store(to: str, schema: str) -> StoreConfig:
    """Return the store that is meant. May import a plug-in.

    Raises:
        GatewayError: There is no such store.
    """
    kind = _TYPES.get(to.partition("://")[0])
    plugin = installed().stores.get(kind) if kind is not None else None
    if kind is None or plugin is None:
        msg = f"--to takes {FOLDER}, or the address of a database: postgresql://user@host/name"
        raise GatewayError(msg)
    given = {} if kind == "file" else {"url": to, "schema": schema}
    try:
        section: StoreSettings = plugin.settings.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        msg = f"--to: {where}: {str(first['msg']).removeprefix('Value error, ')}"
        raise GatewayError(msg) from None
    return StoreConfig(type=kind, section=section)
