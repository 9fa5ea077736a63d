"""Leases: how coordinators share the partitions of a journal. This file is the port; an adapter is part of its journal's.

A lease saves work and never guarantees safety: the epoch that comes with it does, because `append` refuses every other
(`perdure.journal.Fenced`). The rules:

1. A coordinator is alive while it has called `lease` within its `lease_seconds`, by the clock of the database. Who holds a lease
   stops by its own monotonic clock, counted from *before* it asked.
2. A partition is free when nobody holds it or its holder is no longer alive. Whoever takes it raises its epoch.
3. A coordinator that was late gets back what nobody took meanwhile, under the same epoch: nothing was written past it.
4. Each of n living coordinators has a share, p / n of the p partitions, rounded up for the first p mod n of them. `lease` takes
   free ones up to the share and takes nothing away: who holds more finishes what it is at and gives the rest back.
5. Giving back raises the epoch too: a straggler of the former holder cannot write. A coordinator that ends leaves; the others
   then need not wait for its lease to lapse.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec


class Leased(msgspec.Struct, frozen=True):
    """What a coordinator holds now. Partitions missing from one answer to the next were lost."""

    epochs: Mapping[int, int]
    """The epoch of each partition held."""
    share: int
    """How many it should hold. Give back what is above."""


class Leases(Protocol):
    """`holder` names one life of one process: a new one after every start."""

    async def lease(self, holder: str, lease_seconds: float) -> Leased:
        """Say that the holder lives, keep what it holds, and take what is free up to its share."""
        ...

    async def give_back(self, holder: str, partitions: Collection[int]) -> None:
        """Stop holding these; the others, and those it does not hold, stay as they are."""
        ...

    async def now(self) -> float:
        """The time by the clock that leases use, in seconds since the epoch."""
        ...

    async def leave(self, holder: str) -> None:
        """Give everything back and take no share any more."""
        ...
