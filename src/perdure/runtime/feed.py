"""The readers that wait for news of runs, and one look at the journal for all of them.

A reader is told *that* its run went on, and reads from the journal by sequence number. So any process can serve it, it
can begin anywhere, and a slow reader delays no other and costs no memory (PROTOCOL 24). Readers hear at once what this
process decides; what other processes decide is found by one loop that looks at every run with a reader. It must not
know HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from perdure.clock import Clock
from perdure.errors import StoreUnavailable
from perdure.journal import Journal, StoredEvent
from perdure.kernel.state import State
from perdure.runtime.parts import Parts
from perdure.runtime.patience import OutageLog, wait_at_most
from perdure.runtime.portions import in_portions

logger = logging.getLogger("perdure.feed")

POLL_SECONDS = 0.1
EVERYTHING_SECONDS = 15.0
"""How often also those runs are looked at whose news are heard."""
ASKED_AT_ONCE = 1000
READ_EVENTS = 500
"""How many events are read at once for one reader; the rest wait in the journal until it has taken these."""


class _Topic:
    """One run that has readers."""

    __slots__ = ("heard", "readers", "seen")

    def __init__(self, heard: bool) -> None:
        self.readers: set[asyncio.Event] = set()
        self.seen = 0
        """The run's last sequence number at the last look."""
        self.heard = heard
        """Whether all that is not seen yet will be heard, because this process has decided for the run since."""


class Feed:
    def __init__(self, journal: Journal, clock: Clock, parts: Parts, decides: Callable[[str], bool]) -> None:
        """`decides` says whether this process decides for a run, which it then tells to `hear`."""
        self._journal = journal
        self._clock = clock
        self._parts = parts
        self._decides = decides
        self._topics: dict[str, _Topic] = {}
        self._wanted = asyncio.Event()
        self._looks = False
        self._everything_at = 0.0
        self._closed = False
        self._outage = OutageLog(clock, logger, "followed runs cannot be read")
        parts.on_broken.append(self._tell_all)

    # -- telling -------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Let readers come again after `close`."""
        self._closed = False

    def close(self) -> None:
        """Wake every reader, which then sees that nothing more will come."""
        self._closed = True
        self._tell_all()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def followed(self) -> int:
        """The number of readers."""
        return sum(len(topic.readers) for topic in self._topics.values())

    def hear(self, state: State, events: list[Any]) -> None:
        """Take note of a commit of this process."""
        topic = self._topics.get(state.run_id)
        if topic is not None:
            topic.seen = max(topic.seen, state.seq)
            self._tell(topic)

    async def _run(self) -> None:
        """Look at all followed runs ten times a second while there are any."""
        while True:
            if not self._topics:
                self._wanted.clear()
                await self._wanted.wait()
            try:
                await self._look()
            except StoreUnavailable as error:
                self._outage.say(error)
            await self._clock.sleep(POLL_SECONDS)

    async def _look(self) -> None:
        """Ask the journal once for all followed runs, except those whose news are heard. A run that this process has
        begun to decide for is asked about once more: what the process before it wrote last is not heard."""
        now = self._clock.monotonic()
        everything = now >= self._everything_at  # a run may have been lost and regained between two looks
        if everything:
            self._everything_at = now + EVERYTHING_SECONDS
        names = [
            name for name, topic in self._topics.items() if everything or not (topic.heard and self._decides(name))
        ]
        for start in range(0, len(names), ASKED_AT_ONCE):
            some = names[start : start + ASKED_AT_ONCE]
            decided = {name for name in some if self._decides(name)}
            seqs = await self._journal.find_seqs(some)
            for run_id in some:
                topic = self._topics.get(run_id)
                if topic is None:
                    continue
                topic.heard = run_id in decided
                if seqs.get(run_id, 0) > topic.seen:
                    topic.seen = seqs[run_id]
                    self._tell(topic)

    def _tell_all(self) -> None:
        for topic in self._topics.values():
            self._tell(topic)

    @staticmethod
    def _tell(topic: _Topic) -> None:
        for reader in topic.readers:
            reader.set()

    # -- reading -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _subscribed(self, run_id: str, news: asyncio.Event | None = None) -> Iterator[asyncio.Event]:
        topic = self._topics.get(run_id)
        if topic is None:
            topic = self._topics[run_id] = _Topic(heard=self._decides(run_id))
        news = asyncio.Event() if news is None else news
        topic.readers.add(news)
        self._wanted.set()
        if not self._looks:
            self._looks = True
            self._parts.spawn("feed", self._run())
        try:
            yield news
        finally:
            topic.readers.discard(news)
            if not topic.readers and self._topics.get(run_id) is topic:
                del self._topics[run_id]

    @property
    def _over(self) -> bool:
        return self._closed or self._parts.broken.is_set()

    async def follow(
        self, run_id: str, after: int = 0, *, idle_seconds: float | None = None
    ) -> AsyncGenerator[list[StoredEvent], None]:
        """The events above `after` as they become durable, in portions; with `idle_seconds`, an empty list when nothing
        came for so long. The stream ends when the run has ended and all its events were given, when the feed is closed,
        or when a part of the engine gave up."""
        with self._subscribed(run_id) as news:
            while not self._over:
                news.clear()
                record = await self._journal.find_run(run_id)
                if record is None:
                    return
                while after < record.seq:
                    stored = await self._journal.read_events(run_id, after, READ_EVENTS)
                    if not stored:
                        break
                    after = stored[-1].seq
                    async for portion in in_portions(self._clock, stored):
                        yield portion
                if record.row.ended_at is not None and after >= record.seq:
                    return
                if idle_seconds is None:
                    await news.wait()
                elif not await wait_at_most(self._clock, idle_seconds, news.wait):
                    yield []

    async def changes(self, seen: Mapping[str, int], *, idle_seconds: float) -> AsyncGenerator[list[str], None]:
        """Those of several runs of which there is more than the caller has `seen`, or which are gone: one question for all of them, and
        only when there is news. An empty list when there was none for so long. It ends with the feed, or when nothing is followed any
        more: the caller says so in `seen`."""
        news = asyncio.Event()
        with ExitStack() as followed:
            for run_id in seen:
                followed.enter_context(self._subscribed(run_id, news))
            while seen and not self._over:
                news.clear()
                seqs = await self._journal.find_seqs(list(seen))
                if found := [run_id for run_id in seen if seqs.get(run_id) != seen[run_id]]:
                    yield found
                elif not await wait_at_most(self._clock, idle_seconds, news.wait):
                    yield []

    async def wait_for_end(self, run_id: str, seconds: float) -> None:
        """Return when the run has ended, or time is up."""
        with self._subscribed(run_id) as news:
            await wait_at_most(self._clock, seconds, lambda: self._until_ended(run_id, news))

    async def _until_ended(self, run_id: str, news: asyncio.Event) -> None:
        while not self._over:
            news.clear()
            record = await self._journal.find_run(run_id)
            if record is None or record.row.ended_at is not None:
                return
            await news.wait()
