"""Which runs this process decides for: all of them, or those of the partitions it has leased, under their epochs.

Owns what is held now. How partitions are leased is `sharing`'s; that a lost epoch writes nothing is the journal's (PROTOCOL 6).
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
        """By partition; None: the whole journal is this process's own, and nobody else decides."""
        self._doubted: set[int] = set()
        self.lost: Callable[[int], None] = lambda partition: None
        """Told when the journal refused an epoch: somebody else has the partition."""

    @property
    def divided(self) -> bool:
        return self._epochs is not None

    @property
    def partitions(self) -> list[int] | None:
        """As the journal wants to be asked: None is all of them."""
        return None if self._epochs is None else sorted(self._epochs)

    def divide(self) -> None:
        """From now on only what is taken is held."""
        self._epochs = {}

    def extend(self, until: float) -> None:
        """The lease is good until then, by this process's own clock."""
        self._until = until

    @property
    def lapsed(self) -> bool:
        """Others may have what was leased: what is in memory may be out of date, and only an append could tell."""
        return self._epochs is not None and self._monotonic() >= self._until

    def take(self, epochs: Mapping[int, int]) -> None:
        assert self._epochs is not None
        self._epochs.update(epochs)

    def doubt(self, partitions: Collection[int]) -> None:
        """Others may have these. They are dropped after the batch at hand, and nothing of it is acted upon."""
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
        """A new id of a run that is held here. Where few partitions are, or none, it may be another's after all."""
        run_id = new_id()
        for _ in range(_DRAWS):
            if self.holds(run_id):
                break
            run_id = new_id()
        return run_id

    def still_holds(self, run_id: str) -> bool:
        """After something that may have taken long: before what is durable is acted upon. Otherwise another does, or has."""
        return self.holds(run_id)

    def fence(self, partition: int) -> Epoch | None:
        return None if self._epochs is None else Epoch(partition, self._epochs[partition])
