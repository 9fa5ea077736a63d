"""Leases: how coordinators share the partitions of a journal. This file is the port; each adapter belongs to a
journal's.

A lease saves work and never guarantees safety: the epoch that comes with it does, because `append` refuses every other
(`perdure.journal.Fenced`). The rules:

1. A coordinator is alive while it has called `lease` within its `lease_seconds`, by the clock of the database. The
   holder of a lease stops by its own monotonic clock, counted from *before* it asked.
2. A partition is free when it has no holder or its holder is no longer alive. The coordinator that takes it raises its
   epoch.
3. A coordinator that was late gets back what no other took meanwhile, under the same epoch: nothing was written past
   it.
4. Each of n living coordinators has a share, p / n of the p partitions, rounded up for the first p mod n of them.
   `lease` takes free partitions up to the share and takes none away: a coordinator that holds more finishes its work on
   the surplus and gives it back.
5. Giving back raises the epoch too: a straggler of the former holder cannot write. A coordinator that ends leaves; the
   others then need not wait for its lease to lapse.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec


class Leased(msgspec.Struct, frozen=True):
    """What a coordinator holds now. A partition missing from one answer to the next was lost."""

    epochs: Mapping[int, int]
    """The epoch of each partition held."""
    share: int
    """How many partitions the coordinator should hold; it gives back what is above."""


class Leases(Protocol):
    """The port of leases. `holder` names one life of one process: a new name after every start."""

    async def lease(self, holder: str, lease_seconds: float) -> Leased:
        """Say that the holder lives, keep what it holds, and take what is free up to its share."""
        ...

    async def give_back(self, holder: str, partitions: Collection[int]) -> None:
        """Stop holding these partitions; all others, and those the holder does not hold, stay as they are."""
        ...

    async def now(self) -> float:
        """The time by the clock that leases use, in seconds since the epoch."""
        ...

    async def leave(self, holder: str) -> None:
        """Give everything back and take no share any more."""
        ...
