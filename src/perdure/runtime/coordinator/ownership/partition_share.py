"""Which runs this process decides for: all of them, or those of the partitions it has leased, under their epochs.

Owns which partitions are held now. `Sharing` leases them; the journal makes sure that nothing is written under a lost
epoch (PROTOCOL 6).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from perdure.journal import Epoch, partition_of

_DRAWS = 64


class Share:
    def __init__(self, partition_count: int, monotonic: Callable[[], float]) -> None:
        self._count = partition_count
        self._monotonic = monotonic
        self._until = 0.0
        self._epochs: dict[int, int] | None = None
        """The epochs of the partitions held. None: the whole journal is this process's own, and no other process
        decides."""
        self._doubted: set[int] = set()
        self.lost: Callable[[int], None] = lambda partition: None
        """Called when the journal refused an epoch: another process has the partition."""

    @property
    def divided(self) -> bool:
        return self._epochs is not None

    @property
    def partitions(self) -> list[int] | None:
        """The partitions held, in the form the journal takes: None means all of them."""
        return None if self._epochs is None else sorted(self._epochs)

    def has(self, partition: int) -> bool:
        """Whether this process holds the partition, whatever its lease says."""
        return self._epochs is None or partition in self._epochs

    def divide(self) -> None:
        """Begin to hold only the partitions that are taken, instead of all of them."""
        self._epochs = {}

    def extend(self, until: float) -> None:
        """Extend the lease until this time, by the process's own monotonic clock."""
        self._until = until

    @property
    def lapsed(self) -> bool:
        """Whether the lease has ended, so that other processes may hold the partitions: memory may be out of date, and
        only an append could tell."""
        return self._epochs is not None and self._monotonic() >= self._until

    def lease(self, epochs: Mapping[int, int]) -> None:
        assert self._epochs is not None
        self._epochs.update(epochs)

    def doubt(self, partitions: Collection[int]) -> None:
        """Note that other processes may hold these partitions. They are dropped after the current batch, and what it
        decided for them is not acted upon."""
        self._doubted.update(partitions)

    def drop(self, partition: int) -> None:
        assert self._epochs is not None
        self._epochs.pop(partition, None)
        self._doubted.discard(partition)

    def partition(self, run_id: str) -> int:
        return partition_of(run_id, self._count)

    def holds(self, run_id: str) -> bool:
        if self._epochs is None:
            return True
        partition = self.partition(run_id)
        return partition in self._epochs and partition not in self._doubted and not self.lapsed

    def draw(self, new_id: Callable[[], str]) -> str:
        """A new run id in a partition held here. Where few or none are held, it may fall in another process's partition
        after all."""
        run_id = new_id()
        for _ in range(_DRAWS):
            if self.holds(run_id):
                break
            run_id = new_id()
        return run_id

    def still_holds(self, run_id: str) -> bool:
        """`holds`, asked again before a durable decision is acted upon, after a step that may have taken long. If
        False, another process acts upon it, or has done so."""
        return self.holds(run_id)

    def fence(self, partition: int) -> Epoch | None:
        return None if self._epochs is None else Epoch(partition, self._epochs[partition])
