"""Turns as OpenTelemetry's spans, named by its conventions for generative AI.

The only module that knows OpenTelemetry; it is loaded where turns are traced, and sets nothing
globally: what other libraries record in the same process stays theirs. No span holds a word of a
message, an argument or a result.

Source: https://github.com/open-telemetry/semantic-conventions-genai (docs/gen-ai: gen-ai-spans.md
and gen-ai-agent-spans.md, read 2026-11-22; all of it is in development there), and
https://opentelemetry.io/docs/specs/semconv/general/recording-errors/.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.util.types import AttributeValue

from everturn_actors.model import ModelRequest, Outcome, Reply, ToolCall, Usage
from everturn_actors.ports import ToolKind
from everturn_actors.spec import AgentSpec, ModelSpec
from everturn_gateway.telemetry.tracing import Span

SERVICE: Final = "everturn"
"What the service is called where `OTEL_SERVICE_NAME` does not say otherwise."
_PROVIDERS: Final = {"gemini": "gcp.gemini"}
"Names of providers in the conventions that are not ours."
_IN_PROCESS: Final = frozenset(("builtin", "scripted"))
_SOURCE: Final = {"mcp": "extension"}
"Types of tools in the conventions; everything else is a function that runs here."


class OtelSpan:
    """Implements `Span`."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    @property
    def trace_id(self) -> str:
        """The trace it belongs to, as 32 hexadecimal digits."""
        return trace.format_trace_id(self._span.get_span_context().trace_id)

    def replied(self, reply: Reply) -> None:
        """Note what came of a model call."""
        self.used(reply.usage)
        self._span.set_attribute("gen_ai.response.finish_reasons", [reply.stop_reason])
        if reply.model:
            self._span.set_attribute("gen_ai.response.model", reply.model)
        if reply.fallback:
            self._span.set_attribute("everturn.fallback", reply.fallback)

    def used(self, usage: Usage) -> None:
        """Note what was used, where the provider told it."""
        if usage.input_tokens:
            self._span.set_attribute("gen_ai.usage.input_tokens", usage.input_tokens)
        if usage.output_tokens:
            self._span.set_attribute("gen_ai.usage.output_tokens", usage.output_tokens)
        if usage.cached_tokens:
            self._span.set_attribute("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens)

    def outcome(self, outcome: Outcome | None) -> None:
        """Note how a turn ended; None = it was cut short, and may go on."""
        self._span.set_attribute("everturn.turn.outcome", outcome or "cut_short")
        if outcome == "failed":
            self.failed("turn_failed")

    def failed(self, kind: str) -> None:
        """Note which kind of error it ended with."""
        self._span.set_attribute("error.type", kind)
        self._span.set_status(StatusCode.ERROR)


class OtelTracer:
    """Implements `Tracer`."""

    def __init__(self, provider: TracerProvider, version: str) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("everturn", version)

    @contextmanager
    def apart(self) -> Generator[None]:
        """Enclose work that is no part of what happens to have started it."""
        token = contexts.attach(contexts.Context())
        try:
            yield
        finally:
            contexts.detach(token)

    @contextmanager
    def turn(
        self, *, session_id: str, turn: int, channel: str, agent: str, spec: AgentSpec | None
    ) -> Generator[Span]:
        """Open the span of a turn, which begins a trace."""
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            "gen_ai.conversation.id": session_id,
            "everturn.turn": turn,
            "everturn.channel": channel,
        }
        if spec is not None:
            attributes["gen_ai.provider.name"] = _provider(spec.model)
            attributes["gen_ai.request.model"] = spec.model.name
            if spec.version:
                attributes["gen_ai.agent.version"] = spec.version
        with self._opened(f"invoke_agent {agent}", attributes) as span:
            yield span

    @contextmanager
    def model_call(
        self, *, session_id: str, agent: str, model: ModelSpec, request: ModelRequest
    ) -> Generator[Span]:
        """Open the span of a model call, inside whatever span is open in this task."""
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider(model),
            "gen_ai.request.model": request.model,
            "gen_ai.agent.name": agent,
        }
        if session_id:
            attributes["gen_ai.conversation.id"] = session_id
        if request.max_output_tokens is not None:
            attributes["gen_ai.request.max_tokens"] = request.max_output_tokens
        if request.temperature is not None:
            attributes["gen_ai.request.temperature"] = request.temperature
        kind = SpanKind.INTERNAL if model.provider in _IN_PROCESS else SpanKind.CLIENT
        with self._opened(f"chat {request.model}", attributes, kind) as span:
            yield span

    @contextmanager
    def tool_call(
        self, *, session_id: str, agent: str, call: ToolCall, kind: ToolKind
    ) -> Generator[Span]:
        """Open the span of a tool call, inside whatever span is open in this task."""
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.call_id,
            "gen_ai.tool.type": _SOURCE.get(kind, "function"),
            "gen_ai.agent.name": agent,
        }
        if session_id:
            attributes["gen_ai.conversation.id"] = session_id
        with self._opened(f"execute_tool {call.name}", attributes) as span:
            yield span

    def close(self) -> None:
        """Send what is not sent yet. Blocks; takes no span after that."""
        self._provider.shutdown()

    @contextmanager
    def _opened(
        self,
        name: str,
        attributes: Mapping[str, AttributeValue],
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Generator[OtelSpan]:
        # What an exception says may hold what people wrote: its kind alone is noted, by the caller.
        with self._tracer.start_as_current_span(
            name,
            kind=kind,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield OtelSpan(span)


def _provider(model: ModelSpec) -> str:
    return _PROVIDERS.get(model.provider, model.provider)


def make_otel_tracer(url: str, version: str) -> OtelTracer:
    """Return a tracer that posts its spans to `url`, in batches, from a thread of its own."""
    return traced_by(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)), version)


def traced_by(processor: SpanProcessor, version: str) -> OtelTracer:
    """Return a tracer whose spans go to `processor`.

    Its resource is what the environment says (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`).
    """
    own = Resource.create({"service.version": version})
    if str(own.attributes.get("service.name", "")).startswith("unknown_service"):
        own = own.merge(Resource({"service.name": SERVICE}))
    provider = TracerProvider(resource=own, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return OtelTracer(provider, version)
