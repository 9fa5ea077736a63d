"""Which runs a process decides for, and which names it gives to new ones."""

from __future__ import annotations

from itertools import count

from perdure.runtime.coordinator.ownership.partition_share import Share


def test_a_new_run_has_an_id_of_a_partition_that_is_held_here() -> None:
    numbers = count()
    share = Share(8, lambda: 0.0)
    share.divide()
    share.extend(1.0)
    share.lease({3: 1})
    for _ in range(20):
        assert share.partition(share.draw(lambda: f"r{next(numbers)}")) == 3


def test_whoever_decides_for_all_runs_takes_the_first_id() -> None:
    numbers = count()
    assert Share(8, lambda: 0.0).draw(lambda: f"r{next(numbers)}") == "r0"
    assert next(numbers) == 1


def test_whoever_holds_nothing_draws_an_id_nevertheless() -> None:
    share = Share(8, lambda: 0.0)
    share.divide()
    assert share.draw(lambda: "r") == "r"
