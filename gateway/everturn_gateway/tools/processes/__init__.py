"""`background_process`: commands that outlive a call, a turn and the gateway itself."""

from __future__ import annotations

from everturn_gateway.tools.processes.table import ProcessTable, open_processes
from everturn_gateway.tools.processes.tool import BackgroundProcess

__all__ = ["BackgroundProcess", "ProcessTable", "open_processes"]
