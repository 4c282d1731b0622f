"""Turns as spans: the tree, its names, what it never holds, and that it costs nothing when off."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import pytest
from msgspec import structs
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from support.metered import Failing, Measured, measured
from support.tables import table
from support.tool_doubles import Deed, by_name

from everturn_actors.errors import ModelRefusedError, ToolFailedError
from everturn_actors.model import ConversationKey, IncomingMessage, Reply, ToolCall, Usage
from everturn_actors.ports import ToolCapabilities, ToolContext
from everturn_actors.state.session_state import SessionState
from everturn_actors.testing import START, ScriptedProvider, calling, make_spec
from everturn_gateway.errors import GatewayError
from everturn_gateway.logs import SecretRegistry, setup_logging
from everturn_gateway.telemetry import telemetry as telemetry_module
from everturn_gateway.telemetry.otel import OtelTracer, traced_by
from everturn_gateway.telemetry.telemetry import make_tracer, open_telemetry, traces_url

OFF = """\
import sys
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.telemetry.telemetry import make_tracer
assert make_tracer("", {}, SecretRegistry(), "1") is None
print([n for n in sys.modules if n.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))])
print("everturn_gateway.telemetry.otel" in sys.modules)
"""


class Traces:
    """A tracer, and the spans that ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracer: OtelTracer = traced_by(SimpleSpanProcessor(self._exporter), "1.2.3")

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """All spans, in the order in which they began."""
        found = self._exporter.get_finished_spans()
        return sorted(found, key=lambda span: span.start_time or 0)

    def named(self, name: str) -> ReadableSpan:
        """Return the one span of this name."""
        (found,) = (span for span in self.spans if span.name == name)
        return found

    def tree(self) -> list[str]:
        """Return the names of all spans, each indented below its parent."""
        depths: dict[int, int] = {}
        lines: list[str] = []
        for span in self.spans:
            depth = depths[span.parent.span_id] + 1 if span.parent else 0
            assert span.context is not None
            depths[span.context.span_id] = depth
            lines.append("  " * depth + span.name)
        return lines


@pytest.fixture
def traces() -> Traces:
    """Return a tracer; made beside the event loop, as the gateway does."""
    return Traces()


@contextmanager
def logged() -> Generator[Callable[[], list[dict[str, Any]]]]:
    """Log as JSON for one block; give what was logged."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    written = io.StringIO()
    setup_logging("INFO", SecretRegistry(), stream=written, form="json")
    try:
        yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


class Logging(Deed):
    """A tool that logs a line, as a provider or a library might: without naming its session."""

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        """Log a line, also from a thread."""
        del context
        log = logging.getLogger("everturn.tool")
        log.info("at work", extra={"call": call.call_id})
        await anyio.to_thread.run_sync(log.info, "at work in a thread")
        return "done"


async def test_a_turn_is_a_trace_and_its_calls_are_the_spans_in_it(traces: Traces) -> None:
    """This tree is what a person opens to see where a slow answer spent its time."""
    reader = ToolCapabilities(kind="mcp", read_only=True)
    used = Usage(input_tokens=100, output_tokens=7, cached_tokens=60)
    asks = structs.replace(calling(("c1", "look"), ("c2", "find")), usage=used, model="served-1")
    model = ScriptedProvider(asks, structs.replace(Reply(text="done"), usage=used))
    tools = by_name(Deed("look", capabilities=reader), Deed("find", capabilities=reader))
    spec = structs.replace(make_spec(), version="2.0")
    async with measured(model, tracer=traces.tracer, tools=tools, spec=spec) as test:
        result = await test.ask()

    assert traces.tree()[0] == "invoke_agent test"
    assert sorted(traces.tree()[1:]) == [
        "  chat scripted",
        "  chat scripted",
        "  execute_tool find",
        "  execute_tool look",
    ]
    turn, chat = traces.spans[0], traces.spans[1]
    assert (turn.kind, chat.kind) == (SpanKind.INTERNAL, SpanKind.INTERNAL)
    assert dict(turn.attributes or {}) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "test",
        "gen_ai.agent.version": "2.0",
        "gen_ai.conversation.id": result.session_id,
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.usage.input_tokens": 200,
        "gen_ai.usage.output_tokens": 14,
        "gen_ai.usage.cache_read.input_tokens": 120,
        "everturn.turn": 1,
        "everturn.channel": "test",
        "everturn.turn.outcome": "answered",
    }
    assert dict(chat.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.request.temperature": 0.7,
        "gen_ai.response.model": "served-1",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.agent.name": "test",
        "gen_ai.conversation.id": result.session_id,
    }
    assert dict(traces.named("execute_tool look").attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "extension",
        "gen_ai.agent.name": "test",
        "gen_ai.conversation.id": result.session_id,
    }
    assert {span.status.status_code for span in traces.spans} == {StatusCode.UNSET}
    assert dict(turn.resource.attributes)["service.name"] == "everturn"


async def test_a_model_of_a_provider_is_a_client_call_with_its_name_in_the_conventions(
    traces: Traces,
) -> None:
    """Dashboards for models group by these names."""
    spec = make_spec()
    spec = structs.replace(
        spec, model=structs.replace(spec.model, provider="gemini", max_output_tokens=50)
    )
    async with measured(ScriptedProvider("hi"), tracer=traces.tracer, spec=spec) as test:
        await test.ask()

    chat = traces.named("chat scripted")
    assert chat.kind == SpanKind.CLIENT
    assert (chat.attributes or {})["gen_ai.provider.name"] == "gcp.gemini"
    assert (chat.attributes or {})["gen_ai.request.max_tokens"] == 50


async def test_a_failure_is_a_word_and_never_a_text(traces: Traces) -> None:
    """What a provider or a tool says may repeat what people wrote, and a trace goes elsewhere."""

    def fail(_: object) -> str:
        raise ToolFailedError("the secret word is sesame")  # noqa: EM101, TRY003 - a test's

    tools = by_name(Deed("open", gives=fail))
    model = ScriptedProvider(calling(("c1", "open")), ModelRefusedError("sesame is not allowed"))
    async with measured(model, tracer=traces.tracer, tools=tools) as test:
        result = await test.ask("say sesame")

    kinds = {span.name: (span.attributes or {}).get("error.type") for span in traces.spans[1:]}
    turn = traces.spans[0]
    assert result.outcome == "failed"
    assert kinds == {"execute_tool open": "error", "chat scripted": "refused"}
    assert (turn.attributes or {})["error.type"] == "turn_failed"
    assert turn.status.status_code == StatusCode.ERROR
    assert "sesame" not in "".join(str(span.to_json()) for span in traces.spans)
    assert all(not span.events for span in traces.spans)


async def test_a_turn_that_is_cut_short_says_so_and_goes_on_as_a_new_trace(traces: Traces) -> None:
    """A stop in the middle must not look like an answer."""
    model = ScriptedProvider()
    model.hold()
    async with measured(model, tracer=traces.tracer) as test:
        await test.service.submit(IncomingMessage(text="hello", key=test.key()))
        await model.until_called()

    turn = traces.named("invoke_agent test")
    assert (turn.attributes or {})["everturn.turn.outcome"] == "cut_short"
    assert (traces.named("chat scripted").attributes or {})["error.type"] == "cancelled"


async def test_a_session_that_another_s_tool_wakes_has_traces_of_its_own(traces: Traces) -> None:
    """Otherwise all that it ever does would hang below the call that wrote to it first."""

    class Writing(Deed):
        test: Measured

        async def run(self, call: ToolCall, context: ToolContext) -> str:
            del call, context
            key = ConversationKey(channel="test", chat="other", agent="test")
            submission = await self.test.service.submit(IncomingMessage(text="do it", key=key))
            return (await submission.result()).text

    tool = Writing("write")
    model = ScriptedProvider(calling(("c1", "write")), "inner", "outer")
    with logged() as lines:
        async with measured(model, tracer=traces.tracer, tools=by_name(tool)) as test:
            tool.test = test
            result = await test.ask("begin")
        logging.getLogger("everturn.x").info("after all")

    roots = [span for span in traces.spans if span.parent is None]
    assert result.text == "outer"
    assert [span.name for span in roots] == ["invoke_agent test", "invoke_agent test"]
    assert len({span.context.trace_id for span in roots if span.context}) == 2
    assert "session_id" not in lines()[-1]


async def test_what_is_logged_in_a_turn_names_session_turn_and_trace(traces: Traces) -> None:
    """From a line in the log to the trace, and back, without a search by time."""
    model = ScriptedProvider(calling(("c1", "log")), "done")
    with logged() as lines:
        tools = by_name(Logging("log"))
        async with measured(model, tracer=traces.tracer, tools=tools) as test:
            result = await test.ask()

    context = traces.spans[0].context
    assert context is not None
    about = {
        "session_id": result.session_id,
        "turn": 1,
        "trace_id": f"{context.trace_id:032x}",
    }
    told = [line for line in lines() if line["logger"] == "everturn.tool"]
    assert [line["message"] for line in told] == ["at work", "at work in a thread"]
    assert all(about.items() <= line.items() for line in told)
    assert told[0]["call"] == "c1"


async def test_a_summary_between_turns_is_a_call_of_its_session(traces: Traces) -> None:
    """It costs money, so it is counted and traced, though no turn is open."""
    model = ScriptedProvider(*(["word " * 400] * 12))
    with logged():
        async with measured(
            model, tracer=traces.tracer, summariser=ScriptedProvider("Summary.")
        ) as test:
            for number in range(12):
                await test.ask(f"{number} " + "word " * 400)
            session_id = await test.service.conversations.current(test.key())
            done = await test.service.compact(session_id)
            seen = await test.scrape()

    summary = [span for span in traces.spans if span.parent is None][-1]
    assert done.done
    assert summary.name == "chat scripted"
    assert (summary.attributes or {})["gen_ai.conversation.id"] == session_id
    assert seen.series("everturn_summaries_total") == {"test model": 1}


async def test_a_failing_model_leaves_the_next_turn_clean() -> None:
    """A retry is one of the same turn; a new turn's first call is none."""
    async with measured(Failing(ModelRefusedError("no"))) as test:
        first, second = await test.ask(), await test.ask()
        seen = await test.scrape()

    assert (first.outcome, second.outcome) == ("failed", "answered")
    assert seen.series("everturn_model_retries_total") == {}


# --- on and off ---


def test_without_an_endpoint_nothing_of_the_sdk_is_loaded() -> None:
    """It would cost every start a tenth of a second and some megabytes for nothing."""
    done = subprocess.run([sys.executable, "-c", OFF], capture_output=True, text=True, check=True)

    assert done.stdout.split("\n")[:2] == ["[]", "False"]


A_SESSION = SessionState(
    session_id="s-1",
    key=ConversationKey(channel="test", chat="c", agent="helper"),
    created_at=START,
    updated_at=START,
    last_seq=1,
)


class Collector:
    """A collector on loopback; remembers what is posted, and can be told to hang."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.posted: list[tuple[str, bytes]] = []
        self._go_on = threading.Event()
        if not hangs:
            self._go_on.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.posted.append((self.path, body))
                outer._go_on.wait(10)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def listening(self) -> Generator[None]:
        """Listen in a thread."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            self._go_on.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()


async def test_spans_reach_a_collector_before_the_end() -> None:
    """The last turns before a stop are those that somebody wants to look at."""
    collector = Collector()
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    with collector.listening():
        async with open_telemetry(
            environ=environ, secrets=SecretRegistry(), version="1.2.3"
        ) as telemetry:
            with telemetry.answering(A_SESSION, 3, None):
                pass
    ((path, body),) = collector.posted

    assert path == "/v1/traces"
    assert b"invoke_agent helper" in body
    assert b"everturn" in body


async def test_nobody_waits_for_a_collector_that_hangs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A stop has a deadline, and news of it is not worth missing that."""
    monkeypatch.setattr(telemetry_module, "CLOSE_S", 0.05)
    collector = Collector(hangs=True)
    with collector.listening():
        async with open_telemetry(
            otlp_endpoint=collector.url, environ={}, secrets=SecretRegistry(), version="1"
        ) as telemetry:
            with telemetry.answering(A_SESSION, 3, None):
                pass

        assert "the last spans were not sent in time" in caplog.messages


@table(
    ("configured", "environ", "url"),
    [
        ("", {}, ""),
        ("http://c:4318", {}, "http://c:4318/v1/traces"),
        ("http://c:4318/", {}, "http://c:4318/v1/traces"),
        ("http://c/otlp/v1/traces", {}, "http://c/otlp/v1/traces"),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:4318"}, "http://e:4318/v1/traces"),
        (
            "",
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://e",
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/x",
            },
            "http://t/x",
        ),
        ("http://c", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/x"}, "http://c/v1/traces"),
    ],
)
def test_spans_go_where_the_owner_says(configured: str, environ: dict[str, str], url: str) -> None:
    """The file goes before the environment, and the variables mean what OpenTelemetry says."""
    assert traces_url(configured, environ) == url


def test_a_missing_extra_stops_who_configured_it_and_warns_who_did_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A variable that all services of a machine share must not keep this one from its work."""
    monkeypatch.setitem(sys.modules, "everturn_gateway.telemetry.otel", None)
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:4318"}

    assert make_tracer("", environ, SecretRegistry(), "1") is None
    assert "everturn[otel]" in str(caplog.records[-1].__dict__["remedy"])
    with pytest.raises(GatewayError, match=r"everturn\[otel\]"):
        make_tracer("http://c:4318", {}, SecretRegistry(), "1")


def test_the_usual_variables_are_honoured() -> None:
    """A switch that says off is off; a header that logs in is a secret."""
    secrets = SecretRegistry()
    off = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e", "OTEL_SDK_DISABLED": "true"}
    assert make_tracer("", off, secrets, "1") is None
    on = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=sesame-open",
    }
    tracer = make_tracer("", on, secrets, "1")

    assert isinstance(tracer, OtelTracer)
    assert secrets.mask("sesame-open") == "***"
    tracer.close()
