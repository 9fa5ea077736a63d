"""A simulated process's connection to the blob store: latency, and everything that can go wrong with a command.

The store itself is the real one over objects in memory, which outlives processes; what a fault leaves behind is what
the port allows. The fault `missing` is a store that does not know yet what it was given, and does a moment later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.blobs import BlobMissing, BlobStoreFull, BlobStoreUnavailable

if TYPE_CHECKING:
    from perdure.simulation.process import Process
    from perdure.simulation.world import World

_READS = frozenset({"get", "head", "stat"})


class SimBlobs:
    """A blob store as one life of a process sees it."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._inner = world.blobs(process.clock)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if name == "close" or not callable(attribute):
            return attribute

        async def call(*arguments: Any, **named: Any) -> Any:
            return await self._call(name, attribute, arguments, named)

        self.__dict__[name] = call
        return call

    async def _call(self, name: str, operation: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        world, process = self._world, self._process
        await self._pass(world.plan.blob_seconds)
        if world.blob_outage_until > world.loop.time():
            raise BlobStoreUnavailable("the blob store is away for a while")
        fault = self._draw(name)
        match fault:
            case "blob_crash_before":
                await process.die()
            case "blob_error":
                raise BlobStoreUnavailable(f"injected: {name} failed before it was done")
            case "blob_full":
                raise BlobStoreFull(f"injected: there is no room for {name}")
            case "blob_timeout_lost":
                await process.clock.sleep(world.random.random() * 10)
                raise BlobStoreUnavailable(f"injected: {name} timed out, and was not done")
            case "blob_missing":
                raise BlobMissing(f"injected: {name} finds nothing, now")
            case "blob_delay":
                await process.clock.sleep(world.random.random() * 20)
        answer = await operation(*arguments, **named)
        if fault == "blob_crash_after":
            await process.die()
        if fault == "blob_timeout_applied":
            await process.clock.sleep(world.random.random() * 10)
            raise BlobStoreUnavailable(f"injected: {name} timed out, though done")
        return answer

    def _draw(self, name: str) -> str | None:
        fault = self._world.chaos.draw("blob")
        if (fault == "blob_missing" and name not in _READS) or (fault == "blob_full" and name != "put"):
            fault = "blob_error"
        if fault is not None:
            self._world.note_fault(fault, f"{self._process.name} {name}")
        return fault

    async def _pass(self, seconds: float) -> None:
        if seconds and self._world.random.random() < 0.5:
            await self._process.clock.sleep(self._world.random.random() * seconds)
