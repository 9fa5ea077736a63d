"""The courier: sends for a coordinator through a transport that may be away.

Owns what could not be sent and still must be: stops and acknowledgements. Nothing here waits for the transport to come
back, so runs go on as far as they can without it; the sweep calls `settle` when the transport answers again (T1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Literal

from perdure.transport import Task, Transport, TransportClosed, TransportUnavailable

logger = logging.getLogger("perdure.coordinator")

MOST_KEPT = 100_000
"""Receipts and stops that wait for the transport; beyond that the oldest are forgotten, which costs repeats and
time."""


class Courier:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._receipts: dict[str, None] = {}
        self._refused: dict[str, None] = {}
        """Receipts, among those, of checkpoints that came after their attempt was over."""
        self._stops: dict[str, None] = {}
        self._unrecalled: dict[str, None] = {}
        """Runs with a task that could not be recalled; the recall is derived again from the run's state."""
        self.published: Callable[[Sequence[Task]], None] = lambda tasks: None
        """Called with the tasks that were sent; the roster listens."""

    async def publish(self, tasks: Sequence[Task]) -> None:
        """Send tasks. One that does not arrive still counts as sent: the sweep finds it missing and sends it again.
        Raises TasksTooLarge."""
        self.published(tasks)
        try:
            await self._transport.publish(tasks)
        except TransportUnavailable as error:
            _note(error, f"{len(tasks)} tasks")

    async def recall(self, run_id: str, name: str) -> Literal["withdrawn", "claimed", "unknown", "later"]:
        """Recall one task. `later` means that the transport does not answer; `settle` then returns the run."""
        try:
            return (await self._transport.recall([name]))[name]
        except TransportUnavailable as error:
            _note(error, f"the recall of {name}")
            self._unrecalled[run_id] = None
            return "later"

    async def recall_many(self, names: Sequence[str]) -> dict[str, Literal["withdrawn", "claimed", "unknown"]] | None:
        """Recall these tasks. None: the transport does not answer."""
        try:
            return await self._transport.recall(names)
        except TransportUnavailable as error:
            _note(error, f"the recall of {len(names)} tasks")
            return None

    async def stop(self, names: Sequence[str]) -> list[str]:
        """Take these tasks back, or tell their workers to stop. Returns those that no worker has."""
        _keep(self._stops, names)
        return await self._send_stops()

    async def acknowledge(self, receipts: Sequence[str], refused: Sequence[str] = ()) -> None:
        if self._receipts:  # what could not be sent before goes along
            receipts, refused = [*self._receipts, *receipts], [*self._refused, *refused]
        await self._send_receipts(receipts, refused)

    async def grant_begin(self, name: str, granted: bool, ask: str = "") -> None:
        """Tell a worker whether it may begin. One that hears nothing hands the attempt back, and says that it did not
        begin."""
        try:
            await self._transport.grant_begin(name, granted, ask)
        except TransportUnavailable as error:
            _note(error, f"the answer to {name}")

    async def settle(self) -> list[str]:
        """Send what was kept while the transport was away, and return the runs whose recalls must be derived again."""
        if self._stops:
            await self._send_stops()
        if self._receipts:
            await self._send_receipts(list(self._receipts), list(self._refused))
        runs = list(self._unrecalled)
        self._unrecalled.clear()
        return runs

    async def _send_stops(self) -> list[str]:
        names = list(self._stops)
        try:
            # A task that no worker has claimed yet must not begin only to be stopped.
            found = await self._transport.recall(names)
            await self._transport.stop([name for name in names if found[name] == "claimed"])
        except TransportUnavailable as error:
            _note(error, f"{len(names)} stops")
            return []
        for name in names:
            self._stops.pop(name, None)
        return [name for name in names if found[name] != "claimed"]

    async def _send_receipts(self, receipts: Sequence[str], refused: Sequence[str]) -> None:
        try:
            await self._transport.acknowledge(receipts, refused)
        except TransportUnavailable as error:
            _keep(self._receipts, receipts)
            _keep(self._refused, refused)
            _note(error, f"{len(receipts)} acknowledgements")  # at worst the results come again (T2)
            return
        if self._receipts:
            for receipt in receipts:
                self._receipts.pop(receipt, None)
                self._refused.pop(receipt, None)


def _keep(kept: dict[str, None], names: Sequence[str]) -> None:
    kept.update(dict.fromkeys(names))
    while len(kept) > MOST_KEPT:
        del kept[next(iter(kept))]


def _note(error: TransportUnavailable, what: str) -> None:
    if isinstance(error, TransportClosed):
        raise error
    logger.warning("the transport cannot be reached: %s; not sent yet: %s", error, what)
