"""The readers that wait for news of runs, and one look at the journal for all of them.

A reader is told *that* its run went on, and reads from the journal by sequence number. So any process can serve it, it
can begin anywhere, and a slow reader delays no other and costs no memory (PROTOCOL 24). Readers hear at once what this
process decides; what other processes decide is found by one loop that looks at every run with a reader. It must not
know HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from perdure.errors import StoreUnavailable
from perdure.journal import StoredEvent
from perdure.kernel.state import State
from perdure.runtime.patience import first_of, wait_at_most

if TYPE_CHECKING:
    from perdure.engine import Engine

logger = logging.getLogger("perdure.feed")

POLL_SECONDS = 0.1
ASKED_AT_ONCE = 1000
READ_EVENTS = 500
"""How many events are read at once for one reader; the rest wait in the journal until it has taken these."""


class _Topic:
    """One run that has readers."""

    __slots__ = ("readers", "seen")

    def __init__(self) -> None:
        self.readers: set[asyncio.Event] = set()
        self.seen = 0
        """The run's last sequence number at the last look."""


class Feed:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._topics: dict[str, _Topic] = {}
        self._wanted = asyncio.Event()
        self._closed = asyncio.Event()
        self._stop_listening: Callable[[], None] | None = None

    # -- telling -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until `close`, look at all followed runs ten times a second while there are any."""
        self._stop_listening = self._engine.listen(self._heard)
        try:
            while not self._closed.is_set():
                if not self._topics:
                    self._wanted.clear()
                    await first_of(self._wanted.wait(), self._closed.wait())
                    continue
                try:
                    await self._look()
                except StoreUnavailable as error:
                    logger.warning("followed runs: %s", error)
                await wait_at_most(self._engine.clock, POLL_SECONDS, self._closed.wait)
        finally:
            self._stop_listening()
            self.close()

    def close(self) -> None:
        """Wake every reader, which then sees that nothing more will come."""
        self._closed.set()
        for topic in self._topics.values():
            self._tell(topic)

    @property
    def followed(self) -> int:
        """The number of readers."""
        return sum(len(topic.readers) for topic in self._topics.values())

    def _heard(self, state: State, events: list[Any]) -> None:
        topic = self._topics.get(state.run_id)
        if topic is not None:
            topic.seen = max(topic.seen, state.seq)
            self._tell(topic)

    async def _look(self) -> None:
        """Ask the journal once for all followed runs, except those decided in this process, which are heard."""
        coordinator = self._engine.coordinator
        names = [name for name in self._topics if coordinator is None or not coordinator.share.holds(name)]
        for start in range(0, len(names), ASKED_AT_ONCE):
            seqs = await self._engine.journal.find_seqs(names[start : start + ASKED_AT_ONCE])
            for run_id, seq in seqs.items():
                topic = self._topics.get(run_id)
                if topic is not None and seq > topic.seen:
                    topic.seen = seq
                    self._tell(topic)

    @staticmethod
    def _tell(topic: _Topic) -> None:
        for reader in topic.readers:
            reader.set()

    # -- reading -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _subscribed(self, run_id: str) -> Iterator[asyncio.Event]:
        topic = self._topics.setdefault(run_id, _Topic())
        news = asyncio.Event()
        topic.readers.add(news)
        self._wanted.set()
        try:
            yield news
        finally:
            topic.readers.discard(news)
            if not topic.readers and self._topics.get(run_id) is topic:
                del self._topics[run_id]

    async def follow(self, run_id: str, after: int, *, idle_seconds: float) -> AsyncGenerator[list[StoredEvent], None]:
        """The events above `after` as they become durable; an empty list when nothing came for `idle_seconds`. The
        stream ends when the run has ended and all its events were given, or when the feed is closed."""
        with self._subscribed(run_id) as news:
            while not self._closed.is_set():
                news.clear()
                record = await self._engine.journal.find_run(run_id)
                if record is None:
                    return
                while after < record.seq:
                    stored = await self._engine.journal.read_events(run_id, after, READ_EVENTS)
                    if not stored:
                        break
                    after = stored[-1].seq
                    yield stored
                if record.row.ended_at is not None and after >= record.seq:
                    return
                if not await wait_at_most(self._engine.clock, idle_seconds, news.wait):
                    yield []

    async def wait_for_end(self, run_id: str, seconds: float) -> None:
        """Return when the run has ended, or time is up."""
        with self._subscribed(run_id) as news:
            await wait_at_most(self._engine.clock, seconds, lambda: self._until_ended(run_id, news))

    async def _until_ended(self, run_id: str, news: asyncio.Event) -> None:
        while not self._closed.is_set():
            news.clear()
            record = await self._engine.journal.find_run(run_id)
            if record is None or record.row.ended_at is not None:
                return
            await news.wait()
