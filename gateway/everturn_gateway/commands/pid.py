"""`everturn pid`: which process serves the workspace, for whoever signals that one alone."""

from __future__ import annotations

from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK, say
from everturn_gateway.commands.shared.finding import find_running
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_done
from everturn_gateway.commands.shared.settings import load, run_async


def show_pid(options: Options, *, as_json: bool = False) -> int:
    """Print the process id; return the exit code, 1 where no gateway answers."""
    config = load(options)

    async def main() -> int:
        running = await find_running(config.workspace)
        if running is None:
            say(f"no gateway runs on {config.workspace}")
            return EXIT_FAILED
        print_done(str(running.pid), {"pid": running.pid, "url": running.url}, as_json=as_json)
        return EXIT_OK

    return run_async(main)
