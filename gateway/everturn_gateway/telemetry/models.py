"""Model calls, measured and traced."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from everturn_actors.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelRefusedError,
    ModelTransientError,
    QuotaExhaustedError,
    RateLimitedError,
    ToolsRefusedError,
    TruncatedStreamError,
)
from everturn_actors.model import ModelRequest, Reply, Usage
from everturn_actors.ports import ModelProvider, counted_by
from everturn_actors.spec import ModelSpec
from everturn_gateway.telemetry.instruments import Instruments
from everturn_gateway.telemetry.scopes import Scope, present_scope
from everturn_gateway.telemetry.tracing import Span, Tracer
from everturn_gateway.usage import NANODOLLARS, DailyLimit, UsageLimitError, model_label

_KINDS: Final[tuple[tuple[type[ModelError], str], ...]] = (
    # The more special ones first.
    (UsageLimitError, "usage_limit"),
    (TruncatedStreamError, "truncated"),
    (ModelTransientError, "unavailable"),
    (RateLimitedError, "rate_limited"),
    (QuotaExhaustedError, "quota_exhausted"),
    (ContextOverflowError, "context_overflow"),
    (ToolsRefusedError, "tools_refused"),
    (ModelAuthError, "unauthorized"),
    (ModelRefusedError, "refused"),
)
CANCELLED: Final = "cancelled"
ERROR: Final = "error"


class Metering(Protocol):
    """Counts what agents use; see `everturn_gateway.usage.Meter`."""

    def metered(
        self, provider: ModelProvider, *, agent: str, model: ModelSpec, limit: DailyLimit
    ) -> ModelProvider:
        """Return `provider` with every call counted."""
        ...

    def unpriced(self, model: ModelSpec) -> Sequence[str]:
        """Return which of a model and its fallbacks have no known price."""
        ...


class MeasuredModels:
    """A meter whose providers are measured as well."""

    def __init__(self, meter: Metering, *, instruments: Instruments, tracer: Tracer) -> None:
        self._meter, self._instruments, self._tracer = meter, instruments, tracer

    def metered(
        self, provider: ModelProvider, *, agent: str, model: ModelSpec, limit: DailyLimit
    ) -> ModelProvider:
        """Return `provider`, which is `model`'s, with every call of `agent` counted and timed."""
        return MeasuredProvider(
            self._meter.metered(provider, agent=agent, model=model, limit=limit),
            agent=agent,
            model=model,
            instruments=self._instruments,
            tracer=self._tracer,
        )

    def unpriced(self, model: ModelSpec) -> Sequence[str]:
        """Return which of a model and its fallbacks have no known price."""
        return self._meter.unpriced(model)


class MeasuredProvider:
    """A `ModelProvider` whose calls are timed, counted and traced."""

    def __init__(
        self,
        provider: ModelProvider,
        *,
        agent: str,
        model: ModelSpec,
        instruments: Instruments,
        tracer: Tracer,
    ) -> None:
        self._provider = provider
        self._agent, self._model, self._label = agent, model, model_label(model)
        self._to, self._tracer = instruments, tracer

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; see `ModelProvider.complete`."""
        scope = present_scope()
        if scope is not None and scope.call_failed:
            self._to.model_retries.add(self._agent, self._label)
        session_id = scope.session_id if scope is not None else ""
        with self._tracer.model_call(
            session_id=session_id, agent=self._agent, model=self._model, request=request
        ) as span:
            return await self._timed(request, on_text, scope, span)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return what a request would cost; see `PromptCounter.count_tokens`."""
        return await counted_by(self._provider, request)

    async def _timed(
        self,
        request: ModelRequest,
        on_text: Callable[[str], None],
        scope: Scope | None,
        span: Span,
    ) -> Reply:
        first_s: float | None = None

        def shown(piece: str) -> None:
            nonlocal first_s
            if first_s is None and piece:
                first_s = time.perf_counter()
            on_text(piece)

        began_s = time.perf_counter()
        outcome = CANCELLED
        try:
            reply = await self._provider.complete(request, shown)
            outcome = "ok"
        except Exception as error:
            outcome = kind_of(error)
            raise
        finally:
            self._to.model_calls.add(self._agent, self._label, outcome)
            if scope is not None:
                scope.call_failed = outcome != "ok"
            if outcome != "ok":
                span.failed(outcome)
        label = reply.fallback or self._label
        self._to.model_call_seconds.add(time.perf_counter() - began_s, label)
        if first_s is not None:
            self._to.model_first_token_seconds.add(first_s - began_s, label)
        if reply.fallback:
            self._to.model_fallbacks.add(self._agent, label)
        self._count(label, reply.usage)
        if scope is not None:
            scope.usage += reply.usage
        span.replied(reply)
        return reply

    def _count(self, label: str, usage: Usage) -> None:
        tokens, agent = self._to.model_tokens, self._agent
        for kind, amount in (
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cached", usage.cached_tokens),
            ("cache_written", usage.cache_written_tokens),
        ):
            if amount > 0:
                tokens.add(agent, label, kind, amount=amount)
        if usage.cost_nanodollars > 0:
            self._to.model_cost.add(agent, label, amount=usage.cost_nanodollars / NANODOLLARS)


def kind_of(error: BaseException) -> str:
    """Return an error of a model call as one of few words."""
    for kind, word in _KINDS:
        if isinstance(error, kind):
            return word
    return "failed" if isinstance(error, ModelError) else ERROR
