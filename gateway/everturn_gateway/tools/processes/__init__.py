"""`background_process`: commands that outlive a call, a turn and the gateway itself."""

from __future__ import annotations

from everturn_gateway.tools.processes.table import ProcessTable, open_processes

__all__ = ["ProcessTable", "open_processes"]
