"""The metrics that are counted as things happen: their names, labels and meanings.

What is read at the moment of a scrape stands in `gauges`. The library's own counters take a lock,
and four times as long; a turn counts some twenty things. Labels have few values: names of agents,
models, tools and channels, and words of our own; never a chat, a session or a person. Beyond
`SERIES_MAX` combinations of one metric, the rest counts as `other`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence, Sized
from functools import partial
from typing import Final

from everturn_gateway.telemetry.families import AnyFamily, Family, HistogramFamily

SERIES_MAX: Final = 300  # of one metric; agents, models and tools come and go while it runs
OTHER: Final = "other"

_DISK_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5)
_LOOP_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1)
_REQUEST_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_MODEL_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300)
_TOOL_S: Final = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300)
_TURN_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 7200)
_BATCH: Final = (1, 2, 4, 8, 16, 32, 64, 128)


class Count:
    """A counter. Not safe for several threads: one event loop counts."""

    __slots__ = ("_labels", "_name", "_text", "_values")

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self._name, self._text, self._labels = name, text, tuple(labels)
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def add(self, *labels: str, amount: float = 1) -> None:
        """Count `amount` more; it is not negative."""
        values = self._values
        if labels in values:
            values[labels] += amount
        else:
            labels = _bounded(labels, values)
            values[labels] = values.get(labels, 0.0) + amount

    def snapshot(self) -> Callable[[], AnyFamily]:
        """Return what makes the family of now, which another thread may do."""
        return partial(self._family, self._values.copy())

    def _family(self, values: Mapping[tuple[str, ...], float]) -> Family:
        return Family("counter", self._name, self._text, self._labels, list(values.items()))


class Spread:
    """A histogram. Not safe for several threads: one event loop counts."""

    __slots__ = ("_bounds", "_labels", "_name", "_text", "_values")

    def __init__(
        self, name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float]
    ) -> None:
        self._name, self._text, self._labels = name, text, tuple(labels)
        self._bounds = tuple(map(float, buckets))
        self._values: dict[tuple[str, ...], list[float]] = {}
        "How many values each bucket has, then their sum."
        if not labels:
            self._values[()] = self._empty()

    def _empty(self) -> list[float]:
        return [0.0] * (len(self._bounds) + 2)

    def add(self, value: float, *labels: str) -> None:
        """Note one value."""
        counts = self._values.get(labels)
        if counts is None:
            counts = self._values.setdefault(_bounded(labels, self._values), self._empty())
        counts[bisect_left(self._bounds, value)] += 1
        counts[-1] += value

    def snapshot(self) -> Callable[[], AnyFamily]:
        """Return what makes the family of now, which another thread may do."""
        counts = {key: counts[:] for key, counts in self._values.items()}
        return partial(HistogramFamily, self._name, self._text, self._labels, self._bounds, counts)


def _bounded(labels: tuple[str, ...], known: Sized) -> tuple[str, ...]:
    return labels if len(known) < SERIES_MAX else (OTHER,) * len(labels)


class Instruments:
    """All of them."""

    def __init__(self) -> None:
        self._conversations()
        self._steps()
        self._models_and_tools()
        self._machinery()

    def snapshot(self) -> tuple[Callable[[], AnyFamily], ...]:
        """Return what makes all families of now, which another thread may do."""
        return tuple(each.snapshot() for each in vars(self).values())

    def _conversations(self) -> None:
        """Make the instruments of messages, sessions and deliveries."""
        of_both = ("agent", "channel")
        self.sessions_started = Count(
            "everturn_sessions_started_total", "Sessions that began.", of_both
        )
        self.sessions_ended = Count(
            "everturn_sessions_ended_total",
            "Sessions that ended, by reason: reset, expired, deleted.",
            (*of_both, "reason"),
        )
        self.messages_received = Count(
            "everturn_messages_received_total",
            "Messages that were accepted, by kind: prompt (wants an answer), ambient (not said to"
            " the agent, a message of its next turn), silent (not said to it, and told in a"
            " block or not at all).",
            (*of_both, "kind"),
        )
        self.messages_discarded = Count(
            "everturn_messages_discarded_total",
            "Messages that waited and are not answered, because too many did.",
            of_both,
        )
        self.announcements = Count(
            "everturn_announcements_total",
            "Texts said in the agent's name without a turn.",
            of_both,
        )
        self.scheduled_runs = Count(
            "everturn_scheduled_runs_total",
            "What scheduled jobs began in conversations, by kind: message, task.",
            ("agent", "kind"),
        )
        self.turns_started = Count("everturn_turns_started_total", "Turns that began.", of_both)
        self.turns_finished = Count(
            "everturn_turns_finished_total",
            "Turns that are over, by outcome: answered, failed, cancelled, interrupted.",
            (*of_both, "outcome"),
        )
        self.turn_seconds = Spread(
            "everturn_turn_seconds",
            "From the beginning of a turn to its end, restarts and waits for people included.",
            ("agent", "outcome"),
            buckets=_TURN_S,
        )

    def _steps(self) -> None:
        """Make the instruments of turns and their steps."""
        self.steps = Count("everturn_steps_total", "Steps of turns that began.", ("agent",))
        self.replies_broken = Count(
            "everturn_replies_broken_total",
            "Replies of a model that could not be used.",
            ("agent",),
        )
        self.model_waits = Count(
            "everturn_model_waits_total",
            "Times that a turn began to wait until its model can be reached again.",
            ("agent",),
        )
        self.prompt_cache_misses = Count(
            "everturn_prompt_cache_misses_total",
            "Requests that did not begin with the one before them, though nothing was reduced:"
            " the provider's cache did not help.",
            ("agent",),
        )
        self.reductions = Count(
            "everturn_context_reductions_total",
            "Times that something was hidden from a model for good, by stage.",
            ("agent", "stage"),
        )
        self.reduced_tokens = Count(
            "everturn_context_reduced_tokens_total",
            "Tokens by which that made requests smaller, estimated.",
            ("agent", "stage"),
        )
        self.summaries = Count(
            "everturn_summaries_total",
            "Summaries, by source: model, digest (no model could write one).",
            ("agent", "source"),
        )
        self.approvals_asked = Count(
            "everturn_approvals_asked_total",
            "Calls for which a person was asked.",
            ("agent",),
        )
        self.approvals_decided = Count(
            "everturn_approvals_decided_total",
            "What became of them: allow_once, allow_always, deny, answer, expired, overtaken,"
            " withdrawn.",
            ("agent", "decision"),
        )
        self.chunks = Count(
            "everturn_delivery_chunks_total",
            "Messages to people that were tried, by outcome: sent, unsent (tried again), unknown"
            " (perhaps sent), failed (given up).",
            ("channel", "outcome"),
        )
        self.delivery_seconds = Spread(
            "everturn_delivery_seconds",
            "How long a try took, the wait for the platform's limits included.",
            ("channel",),
            buckets=_REQUEST_S,
        )

    def _models_and_tools(self) -> None:
        """Make the instruments of model calls and of calls of tools."""
        of_model = ("agent", "model")
        self.model_calls = Count(
            "everturn_model_calls_total",
            "Calls of models, by outcome: ok, cancelled, or a kind of error.",
            (*of_model, "outcome"),
        )
        self.model_retries = Count(
            "everturn_model_retries_total",
            "Calls that were made because the one before them failed.",
            of_model,
        )
        self.model_fallbacks = Count(
            "everturn_model_fallbacks_total",
            "Replies that this model gave in place of the agent's own.",
            of_model,
        )
        self.model_call_seconds = Spread(
            "everturn_model_call_seconds",
            "How long a call took that was answered.",
            ("model",),
            buckets=_MODEL_S,
        )
        self.model_wait_seconds = Spread(
            "everturn_model_wait_seconds",
            "How long a call waited for a free place, before it was made.",
            ("queue",),
            buckets=_MODEL_S,
        )
        self.model_first_token_seconds = Spread(
            "everturn_model_first_token_seconds",
            "From a call to the first text of its reply; replies without text are left out.",
            ("model",),
            buckets=_MODEL_S,
        )
        self.model_tokens = Count(
            "everturn_model_tokens_total",
            "Tokens as the provider reported them, by kind: input, output, cached and"
            " cache_written (parts of input).",
            (*of_model, "kind"),
        )
        self.model_cost = Count(
            "everturn_model_cost_dollars_total",
            "What replies cost, as far as prices are known.",
            of_model,
        )
        self.tool_calls = Count(
            "everturn_tool_calls_total",
            "Calls of tools that ran, by outcome: ok, error, timeout, cancelled.",
            ("agent", "tool", "kind", "outcome"),
        )
        self.tool_call_seconds = Spread(
            "everturn_tool_call_seconds",
            "How long a call took, however it came out.",
            ("tool", "kind"),
            buckets=_TOOL_S,
        )
        self.tool_calls_refused = Count(
            "everturn_tool_calls_refused_total",
            "Calls that did not run: refused by policy or a person, overtaken, or of no tool.",
            ("agent",),
        )

    def _machinery(self) -> None:
        """Make the instruments of the journal, the supervisor, HTTP and the process."""
        self.events = Count("everturn_events_total", "Events that sessions recorded.")
        self.append_seconds = Spread(
            "everturn_journal_append_seconds",
            "From an append to its being durable, the wait for the batch before it included.",
            buckets=_DISK_S,
        )
        self.commit_seconds = Spread(
            "everturn_journal_commit_seconds",
            "How long a batch took to write and sync.",
            buckets=_DISK_S,
        )
        self.commit_jobs = Spread(
            "everturn_journal_commit_jobs",
            "Appends and marks that shared a batch.",
            buckets=_BATCH,
        )
        self.written_bytes = Count(
            "everturn_journal_written_bytes_total", "Bytes appended to logs."
        )
        self.snapshot_seconds = Spread(
            "everturn_journal_snapshot_seconds",
            "How long a snapshot took to save.",
            buckets=_DISK_S,
        )
        self.load_seconds = Spread(
            "everturn_journal_load_seconds",
            "How long a session took to read.",
            buckets=_DISK_S,
        )
        self.journal_errors = Count(
            "everturn_journal_errors_total",
            "Operations of the store that failed: append, bind (a new session was refused), mark,"
            " snapshot, load, result, media.",
            ("operation",),
        )
        self.http_requests = Count(
            "everturn_http_requests_total",
            "Requests that were answered, by the template of their route.",
            ("method", "route", "status"),
        )
        self.http_request_seconds = Spread(
            "everturn_http_request_seconds",
            "From a request to the end of its answer; of a stream, to the end of the stream.",
            ("method", "route"),
            buckets=_REQUEST_S,
        )
        self.http_unauthorized = Count(
            "everturn_http_unauthorized_total",
            "Requests of nobody, by reason: missing (no token), wrong, slowed (wrong, after many"
            " others), expired, doubled (two of them).",
            ("reason",),
        )
        self.http_throttled = Count(
            "everturn_http_throttled_total",
            "Requests over a limit, by limit: address, principal, cost (of a day), wrong_tokens.",
            ("limit",),
        )
        self.loop_lag_seconds = Spread(
            "everturn_loop_lag_seconds",
            "How much later than due a timer of the event loop woke, four times a second.",
            buckets=_LOOP_S,
        )
        self.log_records = Count(
            "everturn_log_records_total",
            "Lines of the log from warnings on, by level.",
            ("level",),
        )
