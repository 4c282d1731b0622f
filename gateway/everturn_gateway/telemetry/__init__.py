"""What a gateway tells of itself: metrics, traces, and what a line of the log is about.

Everything is measured at the edges, by wrappers that the composition root puts around the ports,
and by one `Observer` of the core, which is told of every event that is on disk. Nothing here
decides anything, and no metric, span or field holds a word that people or agents write.

- `events`: counts what sessions do, by the events that became durable
- `exposition`: metrics as text, by Prometheus' library
- `families`: metrics as they are collected, before anybody writes them down
- `gauges`: the metrics that are read at the moment of a scrape: how things stand now
- `instruments`: the metrics that are counted as things happen: their names, labels and meanings
- `lag`: how late the event loop is: what keeps it from its next task keeps every conversation
  waiting
- `models`: model calls, measured and traced
- `otel`: turns as OpenTelemetry's spans, named by its conventions for generative AI
- `requests`: HTTP requests, measured
- `scopes`: whose work is under way in a task: the session, its turn, and what is gathered of it
  meanwhile
- `storing`: a `SessionStore` that is timed
- `telemetry`: what measures and traces a gateway, in one value; and what a scrape of it returns
- `tools`: tool calls, measured and traced
- `tracing`: what a turn looks like as a trace: the port of whoever records spans
"""

from __future__ import annotations

from everturn_gateway.telemetry.gauges import Sources
from everturn_gateway.telemetry.telemetry import Exposition, Telemetry, open_telemetry

__all__ = ["Exposition", "Sources", "Telemetry", "open_telemetry"]
