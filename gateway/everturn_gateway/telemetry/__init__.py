"""What a gateway tells of itself: metrics, traces, and what a line of the log is about.

Everything is measured at the edges, by wrappers that the composition root puts around the ports,
and by one `Observer` of the core, which is told of every event that is on disk. Nothing here
decides anything, and no metric, span or field holds a word that people or agents write.
"""

from __future__ import annotations

from everturn_gateway.telemetry.gauges import Sources
from everturn_gateway.telemetry.telemetry import Exposition, Telemetry, open_telemetry

__all__ = ["Exposition", "Sources", "Telemetry", "open_telemetry"]
