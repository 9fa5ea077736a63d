"""Figures of triggers, from the events that this process decides: what came in, what was started, what was left out, and how late.

Labels are closed: kinds of sources and reasons, no names of triggers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from perdure.kernel import events as e
from perdure.kernel.state import State
from perdure.kernel.triggers.receivers import OUT, find_receiver
from perdure.kernel.triggers.trigger_events import SkipReason
from perdure.model.trigger_sources import READERS

_LATE = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)


class TriggerMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        received = Counter("perdure_trigger_items", "Items that triggers received", ("kind",), registry=registry)
        self._received = {kind: received.labels(kind) for kind in READERS}
        self._others = received.labels("other")
        self._started = Counter("perdure_trigger_started", "Runs that triggers started", registry=registry)
        self._parked = Counter("perdure_trigger_parked", "Items that could start no run", registry=registry)
        skipped = Counter(
            "perdure_trigger_skipped", "Items and moments that started no run", ("reason",), registry=registry
        )
        self._skipped = {reason: skipped.labels(reason) for reason in get_args(SkipReason)}
        self._failures = Counter("perdure_trigger_poll_failures", "Polls of sources that failed", registry=registry)
        self._waiting = Gauge("perdure_trigger_waiting", "Items that wait for their runs", registry=registry)
        self._open = Gauge("perdure_trigger_open", "Runs of triggers that are open", registry=registry)
        self._age = Gauge(
            "perdure_trigger_poll_age_seconds",
            "Since the oldest poll was asked for that has not come back; one of an idle source comes back after an hour",
            registry=registry,
        )
        self._held: dict[str, tuple[int, int, float]] = {}
        """By run that this process has decided on: how many items wait, how many runs are open, and since when its oldest poll is out."""
        self._late = Histogram(
            "perdure_trigger_lateness_seconds",
            "From a moment of a schedule, without its jitter, until it was received",
            buckets=_LATE,
            registry=registry,
        )

    def sum_up(self, holds: Callable[[str], bool], now: float) -> None:
        """Count what triggers hold that this process decides for; those that another one has taken over are forgotten."""
        self._held = {name: held for name, held in self._held.items() if holds(name)}
        self._waiting.set(sum(waiting for waiting, _, _ in self._held.values()))
        self._open.set(sum(opened for _, opened, _ in self._held.values()))
        begun = min((begun for _, _, begun in self._held.values()), default=math.inf)
        self._age.set(0.0 if begun == math.inf else max(0.0, now - begun))

    def follow(self, state: State) -> None:
        """Note what a run with triggers holds now."""
        boxes = {} if state.terminal else state.triggers
        held = (sum(len(box.waiting) for box in boxes.values()), sum(len(box.open) for box in boxes.values()))
        polls = [find_receiver(state, node) for node, box in boxes.items() if box.source]
        begun = [one.scheduled_at for one in polls if one is not None and one.state in OUT]
        if any(held) or begun:
            self._held[state.run_id] = (*held, min(begun, default=math.inf))
        else:
            self._held.pop(state.run_id, None)

    def heard(self, state: State, event: Any) -> None:
        if isinstance(event, e.NodeRetrying):
            self._failures.inc()
        elif isinstance(event, e.TriggerReceived):
            box = state.triggers.get(event.node)
            self._received.get("" if box is None else box.kind, self._others).inc(len(event.items))
            for item in event.items:
                if item.nominal is not None and not item.lane:
                    self._late.observe(max(0.0, event.at - item.nominal))
        elif isinstance(event, e.TriggerStarted):
            self._started.inc(len(event.starts))
        elif isinstance(event, e.TriggerSkipped):
            self._skipped[event.reason].inc(event.count or len(event.numbers))
        elif isinstance(event, e.TriggerParked):
            self._parked.inc()
