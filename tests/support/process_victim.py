"""A gateway that starts two processes and is killed: `python -m support.process_victim FOLDER`.

It says its session and the handle of the first on its standard output; for the second it waits.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from support.processes import open_desk


async def main(folder: Path) -> None:
    """Start them, and stay."""
    async with open_desk(folder, on_disk=True) as world, anyio.create_task_group() as group:
        handle = await world.spawn("read x < gate; echo survived $x; exit 7", label="first")
        group.start_soon(world.wait_for, "echo here > waiting; read x < gate2; echo and this")
        print(world.session_id, handle, flush=True)  # noqa: T201 - this is how it is told
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
