"""The fetcher: does the slow work for a coordinator, which itself never waits (PROTOCOL 31).

A message that cannot be decided because something is not at hand (a blob that is looked into, a large value that must
be stored first, a Python condition that must run) is set aside here. Once that is at hand, the message is put back into
the inbox and decided again. A store that does not answer is asked again and again, ever less often; the runs concerned
stand still, all others go on. Content that cannot be had is at hand as `Lost`, and the rules decide what that means.

Owns the messages that wait and what they wait for. Must not know what a message means.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from perdure import weight
from perdure.blobs import BlobDamaged, BlobMissing, BlobStore, InvalidBlobRef, parse_ref
from perdure.clock import Clock
from perdure.errors import StoreUnavailable
from perdure.expressions.at_hand import Lost
from perdure.expressions.errors import NeedsBlob, NeedsSize, NeedsStore, NeedsVerdict, NotAtHand
from perdure.expressions.json_schema import NeedsSchema, compile_text
from perdure.journal import Journal
from perdure.kernel import segments
from perdure.model.extremes import WHY, has_many
from perdure.runtime.coordinator.event_waits import NeedsMatched, match_events
from perdure.runtime.coordinator.library import Library, NeedsDefinition
from perdure.runtime.coordinator.loaded import LARGE_BYTES
from perdure.runtime.coordinator.messages import Message, TimerDue
from perdure.runtime.coordinator.purses import NeedsPurses, Purses
from perdure.runtime.coordinator.tasks.cache import Cache, Key
from perdure.runtime.coordinator.tasks.gatherer import NeedsGathered, store_gathered
from perdure.runtime.coordinator.triggers.inner_triggers import NeedsPosition, get_position
from perdure.runtime.coordinator.triggers.mapped_polls import NeedsMapped, map_page
from perdure.runtime.coordinator.triggers.targets import NeedsTarget, Target
from perdure.runtime.filled_inputs import NeedsFilled, fill
from perdure.sandbox import SandboxUnavailable
from perdure.threads import aside

logger = logging.getLogger("perdure.fetcher")

AT_ONCE = 8
"""How many fetches run side by side."""
LARGEST_BYTES = 32 * 1024 * 1024
"""The largest JSON of a value that a template or a condition may look into; decoded it takes several times as much
memory."""
_SMALL = 100
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0


class Fetched(msgspec.Struct, frozen=True):
    content: Any
    size: int = -1
    """What the content takes in memory, in bytes; below 0 it is forgotten once no message waits for it."""


Source = Callable[[str, Any], Awaitable[Fetched]]
"""Maps a tenant and the `NotAtHand` that was raised to what was needed. StoreUnavailable and SandboxUnavailable mean:
not now."""


class Fetcher:
    def __init__(
        self,
        sources: Mapping[type[NotAtHand], Source],
        cache: Cache,
        put: Callable[[Message], None],
        clock: Clock,
    ) -> None:
        self._sources = sources
        self._cache = cache
        self._put = put
        self._clock = clock
        self._wanted: dict[Key, NotAtHand] = {}
        self._waiting: dict[Key, list[Message]] = {}
        self._timers: dict[Key, set[tuple[str, str]]] = {}
        """The timers among those that wait: the timekeeper reports the same one again and again."""
        self._queue: deque[Key] = deque()
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self._needs: dict[Message, list[Key]] = {}
        """The keys each message needed that was set aside and is not handled yet."""
        self._aside: set[Message] = set()

    def __len__(self) -> int:
        """How many messages wait."""
        return sum(map(len, self._waiting.values()))

    def set_aside(self, message: Message, need: NotAtHand) -> None:
        key = (need.tenant, need.key)
        waiting = self._waiting.setdefault(key, [])
        if isinstance(message, TimerDue):
            timers, timer = self._timers.setdefault(key, set()), (message.run_id, message.timer)
            if timer in timers:
                return
            timers.add(timer)
        self._needs.setdefault(message, []).append(key)
        self._cache.pin(key)
        self._aside.add(message)
        waiting.append(message)
        if key not in self._wanted:
            self._wanted[key] = need
            self._queue.append(key)
            self._wake.set()

    def handled(self, message: Message) -> None:
        """Unpin what a decided message needed, unless the message was set aside again."""
        if self._needs and message not in self._aside:
            for key in self._needs.pop(message, ()):
                self._cache.unpin(key)

    async def idle(self) -> None:
        """Return once no message waits."""
        while self._waiting:
            self._moved.clear()
            await self._moved.wait()

    async def run(self) -> None:
        slots = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            while True:
                while not self._queue:
                    self._wake.clear()
                    await self._wake.wait()
                key = self._queue.popleft()
                group.create_task(self._fetch(key, slots)).add_done_callback(partial(self._over, key))

    def _over(self, key: Key, fetching: asyncio.Task[None]) -> None:
        """Called however a fetch ended, also if it was cancelled before it began."""
        if fetching.cancelled():
            self._queue.append(key)  # if `run` goes on, the messages that wait for it would otherwise wait for ever
            self._wake.set()

    async def _fetch(self, key: Key, slots: asyncio.Semaphore) -> None:
        found = await self._insist(key[0], self._wanted[key], slots)
        del self._wanted[key]
        if found.size < 0:
            self._cache.add_passing(key, found.content)
        else:
            self._cache.add(key, found.content, found.size)
        self._timers.pop(key, None)
        for message in self._waiting.pop(key, ()):
            self._aside.discard(message)
            self._put(message)
        self._moved.set()

    async def _insist(self, tenant: str, need: NotAtHand, slots: asyncio.Semaphore) -> Fetched:
        pause = _FIRST_PAUSE
        while True:
            try:
                async with slots:  # while this fetch pauses, others may have their turn
                    return await self._sources[type(need)](tenant, need)
            except (StoreUnavailable, SandboxUnavailable) as error:
                logger.warning("%s: %s; trying again in %.2f s", need.code, error, pause)
            except (BlobMissing, BlobDamaged, InvalidBlobRef) as error:
                return Fetched(Lost(error.code, error.message))
            except Exception as error:  # whatever one fetch does, the others go on (X34)
                logger.exception("%s of %s failed", need.code, need.key)
                return Fetched(Lost("fetch_failed", f"{type(error).__name__}: {error}"))
            await self._clock.sleep(pause * (0.5 + self._clock.random() / 2))
            pause = min(pause * 2, _LONGEST_PAUSE)


def blob_sources(blobs: BlobStore) -> dict[type[NotAtHand], Source]:
    async def fetch(tenant: str, need: NeedsBlob | NeedsMapped) -> Fetched:
        assert need.ref is not None
        size = (await blobs.stat(tenant, need.ref)).size
        if size > LARGEST_BYTES:
            message = (
                f"blob {need.ref} has {size:,} bytes; templates and conditions look into up to {LARGEST_BYTES:,}: let a "
                "node make what is needed of it"
            )
            return Fetched(Lost("blob_too_large", message))
        content = await read_aside(tenant, await blobs.get(tenant, need.ref), need.ref)
        return Fetched(content) if type(content) is Lost else Fetched(content, _weigh(content, size))

    async def map_polled(tenant: str, need: NeedsMapped) -> Fetched:
        content = need.output if need.ref is None else (await fetch(tenant, need)).content
        return Fetched(await map_page(blobs, tenant, need, content))

    async def store(tenant: str, need: NeedsStore) -> Fetched:
        await blobs.put(tenant, need.data)
        return Fetched(True)

    async def weigh(tenant: str, need: NeedsSize) -> Fetched:
        return Fetched((await blobs.stat(tenant, need.ref)).size, _SMALL)

    async def gather(tenant: str, need: NeedsGathered) -> Fetched:
        return Fetched(await store_gathered(blobs, tenant, need))

    async def match(tenant: str, need: NeedsMatched) -> Fetched:
        return Fetched(await match_events(blobs, tenant, need))

    sources: dict[type[NotAtHand], Source] = {NeedsMapped: map_polled, NeedsMatched: match}
    return sources | {NeedsBlob: fetch, NeedsStore: store, NeedsSize: weigh, NeedsGathered: gather}


def definition_sources(library: Library) -> dict[type[NotAtHand], Source]:
    async def fetch(tenant: str, need: NeedsDefinition) -> Fetched:
        await library.fetch(need.name)
        return Fetched(True)

    async def look_up(tenant: str, need: NeedsTarget) -> Fetched:
        found = await library.find_target(tenant, need.workflow)
        return Fetched(None if found is None else Target(*found))

    return {NeedsDefinition: fetch, NeedsTarget: look_up}


def topic_sources(journal: Journal) -> dict[type[NotAtHand], Source]:
    async def look_up(tenant: str, need: NeedsPosition) -> Fetched:
        return Fetched(await get_position(journal, tenant, need))

    return {NeedsPosition: look_up}


def sandbox_sources(run: Callable[[Any, str], Awaitable[Any]]) -> dict[type[NotAtHand], Source]:
    async def judge(tenant: str, need: NeedsVerdict) -> Fetched:
        return Fetched(await run(need.job, tenant))

    return {NeedsVerdict: judge}


def purse_sources(purses: Purses) -> dict[type[NotAtHand], Source]:
    async def read(tenant: str, need: NeedsPurses) -> Fetched:
        return Fetched(await purses.read(tenant, need))

    return {NeedsPurses: read}


def schema_sources() -> dict[type[NotAtHand], Source]:
    async def compile_it(tenant: str, need: NeedsSchema) -> Fetched:
        return Fetched(await aside(tenant, compile_text, need.text))

    async def fill_it(tenant: str, need: NeedsFilled) -> Fetched:
        return Fetched(await aside(tenant, fill, need))

    return {NeedsSchema: compile_it, NeedsFilled: fill_it}


def list_sources(
    journal: Journal, library: Library, blobs: BlobStore | None, judge: Callable[[Any, str], Awaitable[Any]] | None
) -> dict[type[NotAtHand], Source]:
    """Where a process has things from: without a blob store, only verdicts and schemas."""
    sources = schema_sources()
    if blobs is not None:
        sources |= blob_sources(blobs) | definition_sources(library) | topic_sources(journal)
    return sources if judge is None else sources | sandbox_sources(judge)


async def read_aside(tenant: str, data: bytes, ref: str) -> Any:
    """`read_content`, in a thread where the data is large, so that it does not hold up the loop."""
    return await aside(tenant, read_content, data, ref) if len(data) > LARGE_BYTES else read_content(data, ref)


def read_content(data: bytes, ref: str) -> Any:
    """The decoded JSON of a blob; content that is not JSON, such as code, is text."""
    if has_many(data):
        return Lost("blob_not_readable", f"blob {ref}: {WHY}")
    if weight.is_heavy(data):
        return Lost("blob_too_large", f"blob {ref}: {weight.WHY}")
    try:
        return segments.decode(data, parse_ref(ref)[1])
    except (msgspec.DecodeError, RecursionError, segments.BadSegment):
        pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Lost("blob_not_readable", f"blob {ref} is neither JSON nor text")


def _weigh(content: Any, size: int) -> int:
    """Roughly what content takes in memory: text its length, anything made of parts several times its JSON."""
    return size if type(content) is str else 4 * size
