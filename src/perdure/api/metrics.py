"""Figures for Prometheus. Labels come from closed sets only (route templates, states, event types): no ids, no names.

A label with ids would add time series without end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from perdure.api.stream_metrics import StreamMetrics
from perdure.api.trigger_metrics import TriggerMetrics
from perdure.kernel import events as e
from perdure.kernel.state import State

if TYPE_CHECKING:
    from perdure.engine import Engine

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
HOOK_OUTCOMES = (
    *("taken", "duplicate", "filtered", "parked", "full", "rate", "unreadable"),
    *("unknown", "missing", "signature", "old", "secret"),
)
_ENDS = {
    "run.completed": "completed",
    "run.failed": "failed",
    "run.cancelled": "cancelled",
    "run.rolled_back": "rolled_back",
}


class Metrics:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stop: Callable[[], None] | None = None
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        names = ("method", "route", "status")
        self._requests = Counter("perdure_http_requests", "Requests answered", names, registry=registry)
        self._seconds = Histogram(
            "perdure_http_request_seconds", "Time to an answer", ("route",), buckets=_BUCKETS, registry=registry
        )
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._triggers, self._chunks = TriggerMetrics(registry), StreamMetrics(registry)
        hooks = Counter(
            "perdure_hooks", "Deliveries to webhooks, by what became of them", ("outcome",), registry=registry
        )
        self._hooks = {name: hooks.labels(name) for name in HOOK_OUTCOMES}
        self._streams = Gauge("perdure_streams", "Live streams of events that are open", registry=registry)
        events = Counter("perdure_events", "Events decided by this process", ("type",), registry=registry)
        self._events = {name: events.labels(name) for name in e.TYPES}
        ended = Counter("perdure_runs_ended", "Runs that ended in this process", ("state",), registry=registry)
        self._ended = {name: ended.labels(state) for name, state in _ENDS.items()}
        self._running = Gauge(
            "perdure_attempts_running", "Attempts that the worker of this process runs", registry=registry
        )

    def start(self) -> None:
        """Begin to count the events that this process decides."""
        self._stop = self._engine.listen(self._heard)

    def stop(self) -> None:
        if self._stop is not None:
            self._stop()
            self._stop = None

    def _heard(self, state: State, events: list[Any]) -> None:
        for event in events:
            self._events[event.type].inc()
            if event.type.startswith("trigger.") or (event.type == "node.retrying" and event.node in state.triggers):
                self._triggers.heard(state, event)
            elif isinstance(event, e.StreamClosed):
                self._chunks.heard(event)
            if event.type in _ENDS:
                self._ended[event.type].inc()
        if state.triggers:
            self._triggers.follow(state)

    def answered(self, method: str, template: str, status: int, seconds: float) -> None:
        """Count an answer of the endpoint with this method and this template of its path."""
        key = (method, template, status)
        found = self._children.get(key)
        if found is None:  # looking the counters up by their labels costs more than counting
            found = (self._requests.labels(method, template, str(status)), self._seconds.labels(template))
            self._children[key] = found
        found[0].inc()
        found[1].observe(seconds)

    def unrouted(self, method: str, status: int) -> None:
        known = method if method in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS") else "other"
        self._requests.labels(known, "none", str(status)).inc()

    def hook(self, outcome: str) -> None:
        """Count a delivery to a webhook: what became of it, or why it was refused."""
        self._hooks[outcome].inc()

    def streaming(self, change: int) -> None:
        self._streams.inc(change)

    def text(self) -> bytes:
        worker = self._engine.worker
        self._running.set(0 if worker is None else len(worker.running))
        if worker is not None:
            self._chunks.sum_up(worker.streamed)
        coordinator = self._engine.coordinator
        self._triggers.sum_up(
            lambda run_id: coordinator is not None and coordinator.share.holds(run_id), self._engine.clock.now()
        )
        return generate_latest(self._registry)
