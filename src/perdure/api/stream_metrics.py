"""Figures of streams between nodes: what the worker of this process has yielded and read, and how editions ended that this process decides.

Labels are closed: ways and reasons, no names of nodes.
"""

from __future__ import annotations

from copy import copy

from prometheus_client import CollectorRegistry, Counter, Gauge

from perdure.kernel import events as e
from perdure.runtime.worker.streamed import Streamed

REASONS = ("end", "failed", "cancelled", "restart")


class StreamMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        chunks = Counter("perdure_stream_chunks", "Chunks that nodes yielded or read", ("way",), registry=registry)
        self._yielded, self._read = chunks.labels("yielded"), chunks.labels("read")
        self._bytes = Counter(
            "perdure_stream_bytes", "Bytes of JSON of the chunks that nodes yielded", registry=registry
        )
        self._stalls = Counter(
            "perdure_stream_stalls",
            "Times that a producer went on without a reader that did not move",
            registry=registry,
        )
        self._unread = Gauge(
            "perdure_stream_unread",
            "Chunks that the slowest readers have not taken of streams that are yielded now",
            registry=registry,
        )
        editions = Counter(
            "perdure_stream_editions", "Editions of streams that were over, by why", ("reason",), registry=registry
        )
        self._editions = {reason: editions.labels(reason) for reason in REASONS}
        self._told = Streamed()

    def heard(self, event: e.StreamClosed) -> None:
        self._editions[event.reason].inc()

    def sum_up(self, streamed: Streamed) -> None:
        """Count what a worker has streamed since the last time."""
        told = self._told
        self._yielded.inc(streamed.yielded - told.yielded)
        self._bytes.inc(streamed.yielded_bytes - told.yielded_bytes)
        self._read.inc(streamed.read - told.read)
        self._stalls.inc(streamed.stalls - told.stalls)
        self._unread.set(streamed.unread)
        self._told = copy(streamed)
