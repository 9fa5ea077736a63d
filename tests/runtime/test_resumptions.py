"""Resumptions: what is left of a process before this one comes before anything this one has done for the same run."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.runtime.coordinator.messages import Resumed
from perdure.runtime.coordinator.ownership.resumptions import PORTION, Resumptions


def waiting(count: int) -> Resumptions:
    resumptions = Resumptions()
    for number in range(count):
        assert resumptions.put_off(f"run{number}", frozenset(), PORTION)
    return resumptions


def names(messages: Sequence[object]) -> list[str]:
    return [message.run_id for message in messages if isinstance(message, Resumed)]


def test_a_run_is_resumed_before_what_arrives_for_it_and_others_come_behind():
    resumptions = waiting(PORTION + 2)
    arrived = Resumed("run1", None)
    batch = resumptions.put_into([arrived])
    assert batch.index(arrived) == 1
    assert names(batch) == ["run1", "run1", "run0", *(f"run{number}" for number in range(2, PORTION + 1))]


def test_what_was_not_resumed_yet_is_before_what_arrives_in_any_later_batch():
    """It waited in the inbox behind a start that this process had granted meanwhile, which then counted as crashed."""
    resumptions = waiting(2 * PORTION)
    resumptions.put_into([])
    arrived = Resumed(f"run{2 * PORTION - 1}", None)
    batch = resumptions.put_into([arrived])
    assert batch[0].run_id == arrived.run_id
    assert batch[1] is arrived
    assert len(resumptions) == 0
