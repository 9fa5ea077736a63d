"""Limits as a process of the simulation reaches them: kept by the broker, over the same unreliable connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from perdure.limits import LEASE_SECONDS, Ask, Entered, Full, Limit

if TYPE_CHECKING:
    from perdure.simulation.transport import Broker

Call = Callable[..., Any]


class SimLimits:
    lease_seconds = LEASE_SECONDS

    def __init__(self, broker: Broker, call: Call) -> None:
        self._broker = broker
        self._call = call
        """The transport's way to call the broker, with its faults and outages."""

    async def enter(self, asks: Sequence[Ask]) -> list[Entered | Full]:
        return await self._call("enter_limits", self._broker.limits.enter, asks)  # type: ignore[no-any-return]

    async def occupy(self, slots: Sequence[tuple[str, Limit]]) -> None:
        await self._call("occupy_limits", self._broker.limits.occupy, slots)

    async def leave(self, slots: Sequence[tuple[str, Limit]]) -> None:
        await self._call("leave_limits", self._broker.limits.leave, slots)

    def on_room(self, room: Callable[[str, str], None]) -> Callable[[], None]:
        """Deliver no hint: all hints get lost here, and every coordinator looks by itself."""
        return lambda: None
