"""Resumptions: the runs that a process has still to resume after a start, which give way to results and new work.

Thousands of them in the inbox would keep everything behind them waiting, so they come in portions, one with each batch.
A run for which something else arrives is resumed before that: until then, what its state says is under way may have
died with another process. Owns the order; resumes nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from perdure.runtime.coordinator.messages import Message, Resumed

PORTION = 100


def resumed(run_id: str, crashed: frozenset[str] | None) -> Resumed:
    """A run of a process before this one, of whose attempts `crashed` died with it; None: the run is taken over from
    another process, whose workers go on."""
    return Resumed(run_id, crashed, taken=crashed is None)


class Resumptions:
    def __init__(self) -> None:
        self._waiting: dict[str, frozenset[str] | None] = {}
        """By run, what crashed. The messages are made when their turn comes: thousands of objects that stay make garbage
        collection look at everything again and again."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put_off(self, run_id: str, crashed: frozenset[str] | None, inbox: int) -> bool:
        """Whether the run has to wait, because others do or the inbox holds a portion already."""
        if not self._waiting and inbox < PORTION:
            return False
        self._waiting[run_id] = crashed
        return True

    def put_into(self, batch: Sequence[Message]) -> list[Message]:
        """The batch, with every run in it resumed first that still has to be, and the next portion behind it. They wait
        nowhere else: in the inbox, what this process has begun could come before, and would be taken for crashed."""
        if not self._waiting:
            return list(batch)
        whole: list[Message] = []
        for message in batch:
            if message.run_id in self._waiting:
                whole.append(self._make(message.run_id))
            whole.append(message)
        whole += [self._make(run_id) for run_id in list(islice(self._waiting, PORTION))]
        return whole

    def _make(self, run_id: str) -> Resumed:
        return resumed(run_id, self._waiting.pop(run_id))
