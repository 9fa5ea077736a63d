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


class Resumptions:
    def __init__(self) -> None:
        self._waiting: dict[str, Resumed] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put_off(self, message: Resumed, inbox: int) -> bool:
        """Whether the message has to wait, because others do or the inbox holds a portion already."""
        if not self._waiting and inbox < PORTION:
            return False
        self._waiting[message.run_id] = message
        return True

    def put_before(self, batch: Sequence[Message]) -> list[Message]:
        """The batch, with every run in it resumed first that still has to be."""
        if not self._waiting:
            return list(batch)
        whole: list[Message] = []
        for message in batch:
            if (resumed := self._waiting.pop(message.run_id, None)) is not None:
                whole.append(resumed)
            whole.append(message)
        return whole

    def next_portion(self) -> list[Resumed]:
        """The next portion."""
        return [self._waiting.pop(run_id) for run_id in list(islice(self._waiting, PORTION))]
