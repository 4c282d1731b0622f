"""Tool calls, measured and traced."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from everturn_actors.model import ToolCall
from everturn_actors.ports import ToolCapabilities, ToolOutput
from everturn_gateway.telemetry.instruments import Instruments
from everturn_gateway.telemetry.scopes import present_scope
from everturn_gateway.telemetry.tracing import Tracer


class MeasuredTools:
    """Watches the calls of all tools; see `everturn_gateway.tools.policy.CallWatch`."""

    def __init__(self, *, instruments: Instruments, tracer: Tracer) -> None:
        self._to, self._tracer = instruments, tracer

    async def watched(
        self,
        run: Callable[[], Awaitable[ToolOutput]],
        *,
        agent: str,
        call: ToolCall,
        capabilities: ToolCapabilities,
    ) -> ToolOutput:
        """Run one call and return its output, taking note of how it went."""
        scope = present_scope()
        session_id = scope.session_id if scope is not None else ""
        began_s = time.perf_counter()
        outcome = ""
        with self._tracer.tool_call(
            session_id=session_id, agent=agent, call=call, kind=capabilities.kind
        ) as span:
            try:
                output = await run()
                outcome = "error" if output.is_error else "ok"
            except Exception:
                outcome = "error"
                raise
            finally:
                took_s = time.perf_counter() - began_s
                # Whoever runs it calls it off when its time is over.
                outcome = outcome or (
                    "timeout" if took_s >= capabilities.timeout_s else "cancelled"
                )
                self._to.tool_calls.add(agent, call.name, capabilities.kind, outcome)
                self._to.tool_call_seconds.add(took_s, call.name, capabilities.kind)
                if outcome != "ok":
                    span.failed(outcome)
            return output
