"""What measures and traces a gateway, in one value; and what a scrape of it returns."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread
from msgspec import Struct

from everturn_actors.events import Event, TurnFinished
from everturn_actors.ports import Agent, CommitStats, SessionStore
from everturn_actors.state.session_state import SessionState
from everturn_gateway.errors import GatewayError
from everturn_gateway.late_loading import late
from everturn_gateway.logs import SecretRegistry, working_on
from everturn_gateway.telemetry.events import EventTally
from everturn_gateway.telemetry.families import AnyFamily
from everturn_gateway.telemetry.gauges import Sources, gauges
from everturn_gateway.telemetry.instruments import Instruments
from everturn_gateway.telemetry.lag import watch_lag
from everturn_gateway.telemetry.models import MeasuredModels, Metering
from everturn_gateway.telemetry.requests import RequestCounts
from everturn_gateway.telemetry.scopes import Scope
from everturn_gateway.telemetry.storing import MeasuredStore, count_batch
from everturn_gateway.telemetry.tools import MeasuredTools
from everturn_gateway.telemetry.tracing import NoTracer, Span, Tracer

if TYPE_CHECKING:
    from everturn_gateway.telemetry import exposition, otel
else:
    exposition = late("everturn_gateway.telemetry.exposition")
    otel = late("everturn_gateway.telemetry.otel")

logger = logging.getLogger(__name__)

OPENMETRICS: Final = "application/openmetrics-text"
TRACES_PATH: Final = "/v1/traces"
CLOSE_S: Final = 2.0  # for the last spans to be sent; nobody waits for a collector that is away


class Exposition(Struct, frozen=True, kw_only=True):
    """What a scrape returns."""

    body: bytes
    content_type: str


class Telemetry:
    """Measures and traces one gateway; an `Observer` of its sessions. Made by `open_telemetry`."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        """Begin with all counters at 0; nothing is read and nothing runs."""
        self.instruments = Instruments()
        self.requests = RequestCounts(self.instruments)
        self.tools = MeasuredTools(instruments=self.instruments, tracer=tracer or NoTracer())
        self._tracer = tracer or NoTracer()
        self._tally = EventTally(self.instruments)
        self._running: dict[str, Scope] = {}
        "The turn that is worked on, by session."
        self._sources: Sources | None = None
        self._scraping = anyio.Lock()

    # --- what the composition root puts around the ports ---

    def store(self, store: SessionStore) -> SessionStore:
        """Return a store that is timed."""
        return MeasuredStore(store, self.instruments)

    def models(self, meter: Metering) -> Metering:
        """Return a meter whose providers are measured and traced."""
        return MeasuredModels(meter, instruments=self.instruments, tracer=self._tracer)

    def batch(self, batch: CommitStats) -> None:
        """Take note of a group commit."""
        count_batch(self.instruments, batch)

    async def watch_loop(self) -> None:
        """Measure how late the event loop is, until cancelled."""
        await watch_lag(self.instruments)

    # --- Observer ---

    def durable(
        self, before: SessionState | None, after: SessionState, events: Sequence[Event]
    ) -> None:
        """See `Observer.durable`."""
        self._tally.take(before, after, events)
        running = self._running.get(after.session_id)
        if running is not None:
            for event in events:
                if isinstance(event.body, TurnFinished) and event.body.turn == running.turn:
                    running.outcome = event.body.outcome

    @contextmanager
    def active(self, session_id: str) -> Generator[None]:
        """See `Observer.active`."""
        # The task was started by whoever wrote to the session: a request, or another's tool.
        with self._tracer.apart(), working_on(Scope(session_id=session_id)):
            yield

    def answering(
        self, state: SessionState, turn: int, agent: Agent | None
    ) -> AbstractContextManager[None]:
        """See `Observer.answering`."""
        key = state.key
        scope = Scope(session_id=state.session_id, turn=turn)
        span = self._tracer.turn(
            session_id=state.session_id,
            turn=turn,
            channel=key.channel,
            agent=key.agent,
            spec=agent.spec if agent is not None else None,
        )
        return _Answering(scope, span, self._running)

    def model_waited(self, queue: str, waited_s: float) -> None:
        """Note that a call of a model begins, which waited so long in `queue`."""
        self.instruments.model_wait_seconds.add(waited_s, queue)

    # --- scrape ---

    def attach(self, sources: Sources) -> None:
        """Say who is asked at a scrape; before that, nobody is."""
        self._sources = sources

    async def exposition(self, accept: str) -> Exposition:
        """Return all metrics as text: of OpenMetrics where `accept` names it, else Prometheus'."""
        async with self._scraping:
            now: tuple[AnyFamily, ...] = ()
            if self._sources is not None:
                now = await gauges(self._sources, requests=self.requests)
            counted = self.instruments.snapshot()
            return await to_thread.run_sync(partial(_rendered, now, counted, accept))


class _Answering:
    """The block in which a turn is worked on. A class: as a generator it takes twice as long."""

    __slots__ = ("_opened", "_running", "_scope", "_span", "_working")

    def __init__(
        self,
        scope: Scope,
        opened: AbstractContextManager[Span],
        running: dict[str, Scope],
    ) -> None:
        self._scope, self._opened, self._running = scope, opened, running
        self._working = working_on(scope)

    def __enter__(self) -> None:
        scope = self._scope
        self._running[scope.session_id] = scope
        self._span = self._opened.__enter__()
        scope.trace_id = self._span.trace_id
        self._working.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        scope = self._scope
        self._working.__exit__()
        self._span.used(scope.usage)
        self._span.outcome(scope.outcome)
        if self._running.get(scope.session_id) is scope:
            del self._running[scope.session_id]
        self._opened.__exit__(kind, error, traceback)


def _rendered(
    now: Sequence[AnyFamily], counted: Sequence[Callable[[], AnyFamily]], accept: str
) -> Exposition:
    # The library's own reading of the header fails for versions that are none.
    wanted = OPENMETRICS if wants_openmetrics(accept) else ""
    body, content_type = exposition.exposition((*now, *(make() for make in counted)), wanted)
    return Exposition(body=body, content_type=content_type)


def wants_openmetrics(accept: str) -> bool:
    """Return whether an `Accept` header names OpenMetrics, and does not refuse it."""
    for each in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in each.split(";"))
        if kind == OPENMETRICS:
            return not any(part.replace(" ", "") in {"q=0", "q=0.0"} for part in parameters)
    return False


class _LogCounts(logging.Handler):
    """Counts what is logged from warnings on."""

    def __init__(self, instruments: Instruments) -> None:
        super().__init__(logging.WARNING)
        self._to = instruments

    def emit(self, record: logging.LogRecord) -> None:
        """Count a record."""
        self._to.log_records.add(record.levelname.lower())


@asynccontextmanager
async def open_telemetry(
    *,
    otlp_endpoint: str = "",
    environ: Mapping[str, str],
    secrets: SecretRegistry,
    version: str,
) -> AsyncGenerator[Telemetry]:
    """Open what measures a gateway; at its end the last spans are sent, within a deadline.

    Turns are traced where an endpoint is named and the extra `otel` is installed.

    Args:
        otlp_endpoint: Where traces go, `http://host:4318`; empty = what
            `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` says.
        environ: Has these variables; the library reads the others of OpenTelemetry itself.
        secrets: Learns the headers with which the library logs in.
        version: Of this program.

    Raises:
        GatewayError: `otlp_endpoint` is set, and the extra is not installed.
    """
    tracer = await to_thread.run_sync(
        partial(make_tracer, otlp_endpoint, environ, secrets, version)
    )
    telemetry = Telemetry(tracer)
    counts = _LogCounts(telemetry.instruments)
    root = logging.getLogger()
    root.addHandler(counts)
    try:
        yield telemetry
    finally:
        root.removeHandler(counts)
        if tracer is not None:
            with anyio.CancelScope(shield=True):
                await _close(tracer.close)


async def _close(close: Callable[[], None]) -> None:
    """Call what may block for longer than anybody waits; the process can end meanwhile."""
    closing = threading.Thread(target=close, name="last spans", daemon=True)
    closing.start()
    await to_thread.run_sync(closing.join, CLOSE_S)
    if closing.is_alive():
        logger.warning("the last spans were not sent in time", extra={"timeout_s": CLOSE_S})


def make_tracer(
    otlp_endpoint: str, environ: Mapping[str, str], secrets: SecretRegistry, version: str
) -> Tracer | None:
    """Return what records spans; None where nothing is to be traced. Loads a large library.

    Raises:
        GatewayError: `otlp_endpoint` is set, and the extra is not installed.
    """
    url = traces_url(otlp_endpoint, environ)
    if not url or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    for variable in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"):
        for pair in environ.get(variable, "").split(","):
            secrets.add(pair.partition("=")[2].strip())
    try:
        make_tracer = otel.make_otel_tracer  # loads an extra, and a large one
    except ImportError as error:
        remedy = "pip install 'everturn[otel]'"
        if otlp_endpoint:
            msg = f"telemetry.otlp_endpoint needs OpenTelemetry's SDK and exporter: {remedy}"
            raise GatewayError(msg) from error
        logger.warning(
            "turns are not traced: an OTLP endpoint is set in the environment, and OpenTelemetry's"
            " SDK is not installed",
            extra={"remedy": remedy},
        )
        return None
    return make_tracer(url, version)


def traces_url(otlp_endpoint: str, environ: Mapping[str, str]) -> str:
    """Return the address that spans are posted to; empty = nowhere.

    `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is used as it is; the others name the server alone.

    Source: https://opentelemetry.io/docs/specs/otel/protocol/exporter/ (read 2026-11-22).
    """
    own = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    if own and not otlp_endpoint:
        return own
    base = otlp_endpoint or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    if not base or base.endswith(TRACES_PATH):
        return base
    return base.rstrip("/") + TRACES_PATH
