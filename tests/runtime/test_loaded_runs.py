"""Which runs stay in memory: those that are about to be needed outlast those that rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from perdure.runtime.coordinator.batch import Batch
from perdure.runtime.coordinator.loaded import Loaded
from perdure.runtime.coordinator.loaded_runs import Memory
from perdure.runtime.coordinator.messages import TimerDue
from tests.kernel.mailboxes import trigger


def memory(keep_idle: int) -> Memory:
    return Memory(cast("Any", SimpleNamespace(partition_count=1)), cast("Any", None), cast("Any", None), keep_idle)


def rest(kept: Memory, run_id: str, *, is_open: bool = False) -> Loaded:
    run = trigger()
    run.webhook()
    if is_open:
        run.deliver("a")
    run.state.run_id = run_id
    made = kept.runs.get(run_id) or Loaded(run.state, 1)
    kept.runs[run_id] = made
    kept.rest(made)
    return made


def test_triggers_whose_runs_are_open_stay_three_times_as_many():
    kept = memory(2)
    for number in range(9):
        rest(kept, f"open{number}", is_open=True)
    for number in range(9):
        rest(kept, f"idle{number}")
    assert sorted(kept.runs) == ["idle7", "idle8", *(f"open{number}" for number in range(3, 9))]


def test_a_run_that_waits_for_what_is_fetched_outlasts_others():
    kept = memory(1)
    waits = rest(kept, "waits")
    message = TimerDue("waits", "trigger:receive", 0.0)
    batch = Batch([message], {})
    batch.enter(message, waits)
    batch.take_out(message)
    kept.rest(waits)
    for number in range(5):
        rest(kept, f"idle{number}")
    assert sorted(kept.runs) == ["idle4", "waits"]
    batch.enter(message, waits)  # it is decided now, and rests like others
    kept.rest(waits)
    rest(kept, "idle5")
    assert sorted(kept.runs) == ["idle5"]


def test_where_nothing_is_kept_nothing_stays():
    kept = memory(0)
    rest(kept, "open", is_open=True)
    assert not kept.runs


def test_what_is_forgotten_is_forgotten_wherever_it_rests():
    kept = memory(5)
    rest(kept, "open", is_open=True)
    rest(kept, "idle")
    kept.keep_only(lambda run_id: False)
    assert (kept.runs, kept._resting, kept._awaiting) == ({}, {}, {})
