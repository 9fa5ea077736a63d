"""The handler of polls in a worker: it asks a source until there is something, and sleeps in between.

An attempt that sleeps writes nothing, so a source that is idle costs nothing but the asking. It has no slot either: slots are for
sources that are being asked, and one that sleeps holds up nobody (rule 51). Sources stay open between the polls of one trigger, for
what they remember saves time; they may be closed at any moment.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from perdure.clock import Clock
from perdure.errors import PerdureError
from perdure.nodes.registry import NodeType, Registry
from perdure.outcomes import Failure
from perdure.plain_text import cut
from perdure.runtime.coordinator.triggers.poll_tasks import TYPE
from perdure.runtime.patience import first_of
from perdure.sources import MOST_BYTES, MOST_ITEMS, Polled, Source
from perdure.sources.pages import Page
from perdure.threads import Threads

logger = logging.getLogger("perdure.polling")

MOST_OPEN = 100
"""How many sources stay open between polls."""
MOST_THREADS = 32
"""How many sources are read at a time in threads. Tenants take turns, and none has all."""
LONGEST_SECONDS = 3600.0
"""How long a poll waits for something. When a backup is restored, one that nobody asked for any more may sleep under the id of one that is."""
WOKEN_SECONDS = 0.05
"""How long one is not asked after it was woken: one that is told of every row is asked once for many."""
STREAM_SECONDS = 1.0
"""How often a source is asked that has no `every`."""

threads = Threads(MOST_THREADS)
Opener = Callable[[dict[str, Any]], Awaitable[Source]]


class PollHandler:
    def __init__(self, open_source: Opener, clock: Clock, slots: int) -> None:
        """`slots`: how many sources are opened or asked at a time; those that wait for one get it in order."""
        self._open = open_source
        self._clock = clock
        self._slots = asyncio.Semaphore(slots)
        self._idle: dict[tuple[str, int], Source] = {}
        """Open sources that no poll uses now, by trigger and revision, oldest first."""

    def registry(self) -> Registry:
        """The registry of the worker that polls: it takes nothing else."""
        registry = Registry()
        registry.add(
            NodeType(
                name=TYPE, description="Polls the source of a trigger.", handler=self.handle, close=self.close,
                capabilities=frozenset({"network", "files", "waits"}),
            )
        )  # fmt: skip
        return registry

    async def handle(self, config: Any, ctx: Any) -> Any:
        """What a source has after the cursor, as soon as it has something."""
        place = (ctx.tenant + "/" + config["trigger"], config["revision"])
        every = float(config["source"].get("every") or STREAM_SECONDS)
        if config["slow"]:
            await self._clock.sleep(every)
        source = self._idle.pop(place, None)
        if config["cursor"] is None and source is not None:  # rewound: where it begins may be another place than before
            await close(source)
            source = None
        try:
            if source is None:
                async with self._slots:
                    source = await self._open(config["source"])
            polled = await self._poll(source, config["cursor"], every, ctx.tenant)
            items = await threads.call(ctx.tenant, make_items, polled)
        except PerdureError as error:
            await close(source)
            raise Failure(error.code, error.message) from None
        except BaseException:
            await close(source)
            raise
        await self._keep(place, source)
        return {
            "items": items,
            "after": config["cursor"],
            "cursor": polled.cursor,
            "more": polled.more,
            "end": polled.end,
        }

    async def _poll(self, source: Source, cursor: str | None, every: float, tenant: str) -> Polled:
        until = self._clock.monotonic() + LONGEST_SECONDS
        while True:
            async with self._slots:
                polled = check(await call(source.poll, cursor, tenant=tenant), cursor)
            if polled.items or polled.end or polled.cursor != cursor or self._clock.monotonic() >= until:
                return polled
            await self._wait(source, every)

    async def _wait(self, source: Source, seconds: float) -> None:
        """Sleep until the next poll, or until the source says that something has come."""
        if type(source).wait is Source.wait:
            await self._clock.sleep(seconds)
            return

        async def woken() -> None:
            await source.wait(seconds)
            await self._clock.sleep(WOKEN_SECONDS)

        try:
            await first_of(self._clock.sleep(seconds), woken())
        except ExceptionGroup as group:  # of one
            raise group.exceptions[0] from None

    async def _keep(self, place: tuple[str, int], source: Source) -> None:
        before = [one for one in self._idle if one[0] == place[0]]
        for one in before:  # of an older revision
            await close(self._idle.pop(one))
        self._idle[place] = source
        while len(self._idle) > MOST_OPEN:
            await close(self._idle.pop(next(iter(self._idle))))

    async def close(self) -> None:
        while self._idle:
            await close(self._idle.popitem()[1])


def check(polled: Any, cursor: str | None) -> Polled:
    """What a source gave, if it keeps to what is asked of it. Raises Failure."""
    if not isinstance(polled, Polled):
        raise Failure("source_failed", f"poll of the source gave {type(polled).__name__}, and not perdure.Polled")
    said: Any = polled.cursor
    if not isinstance(said, str):
        raise Failure("source_failed", f"the cursor of a source is text, got {type(said).__name__}")
    if len(polled.items) > MOST_ITEMS:
        raise Failure("source_failed", f"a poll gives at most {MOST_ITEMS} items, and more=True if there are more")
    if polled.items and said == cursor:
        raise Failure(
            "source_failed", "the source gave items and the cursor it was asked with: they would come for ever"
        )
    return polled


def make_items(polled: Polled) -> list[dict[str, Any]]:
    """The items as they are sent: one that can never be kept, with its reason. Raises Failure when they are too many bytes together."""
    page = Page()
    for item in polled.items:
        if item.error:
            page.refuse(item.id, item.error)
        elif not page.add(item.id, item.data):
            most = f"{MOST_BYTES:,} bytes, or more parts than are read at once"
            raise Failure("source_failed", f"the items of a poll have more than {most}; give fewer, with more=True")
    return [{"id": one.id, "error": one.error} if one.error else {"id": one.id, "data": one.data} for one in page.items]


async def call(method: Callable[..., Any], *arguments: Any, tenant: str = "") -> Any:
    """Call a method of a source, in a thread where it is not async."""
    if inspect.iscoroutinefunction(method):
        return await method(*arguments)
    found = await threads.call(tenant, method, *arguments)
    return await found if inspect.isawaitable(found) else found


async def close(source: Source | None) -> None:
    """Close a source; one that cannot be closed is forgotten."""
    if source is None:
        return
    try:
        await call(source.close)
    except Exception as error:  # noqa: BLE001  whatever a source does, the poll has ended
        logger.warning("a source cannot be closed: %s", cut(repr(error), 300))
