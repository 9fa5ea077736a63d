"""A map starts its items in portions, so that no decision grows with the list it is made over."""

from __future__ import annotations

import pytest

from perdure.kernel import commands as c
from perdure.kernel import waits
from perdure.kernel.state import key_of
from perdure.kernel.values import Wait
from tests.kernel.driver import Run

MAP = {"type": "map", "config": {"over": "{{ inputs.x }}", "node": {"type": "task", "config": {"function": "m:f"}}}}
PORTION = 4
COUNT = 2 * PORTION + 2


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "PORTION", PORTION)


def started(run: Run) -> int:
    return run.state.activations[key_of(0, ())].items_started


def begun(limit: int = 0) -> Run:
    run = Run.of({"id": "m", **MAP})
    run.suspend("m", Wait(kind="items", count=COUNT, limit=limit))
    return run


@pytest.mark.parametrize("move", ["begin", "suspend", "complete", "fail"])
def test_the_next_portion_is_started_when_an_item_moves(move: str) -> None:
    run = Run.of({"id": "m", **MAP})
    run.suspend("m", Wait(kind="items", count=COUNT, tolerated=COUNT))
    assert started(run) == PORTION
    if move == "suspend":
        run.suspend("m", Wait(kind="timer", until=100.0), item=0)
    else:
        getattr(run, move)("m", item=0)
    assert started(run) == 2 * PORTION
    run.begin("m", item=1)
    assert started(run) == COUNT
    run.begin("m", item=2)
    assert started(run) == COUNT


def test_no_more_is_started_than_may_be_open() -> None:
    run = begun(limit=PORTION + 1)
    assert started(run) == PORTION
    run.begin("m", item=0)
    assert started(run) == PORTION + 1
    run.begin("m", item=1)
    assert started(run) == PORTION + 1
    run.complete("m", item=0)
    assert started(run) == PORTION + 2


def test_a_map_that_is_done_in_portions_ends() -> None:
    run = begun()
    for item in range(COUNT):
        run.complete("m", item=item)
    assert run.status == "completed"


def test_a_paused_map_goes_on_where_it_was() -> None:
    run = begun()
    run.tell(c.Pause)
    run.complete("m", item=0)
    run.tell(c.Resume)
    for item in range(1, COUNT):
        run.complete("m", item=item)
    assert run.status == "completed"


def test_a_map_whose_items_all_ended_while_the_run_failed_goes_on_with_the_retry() -> None:
    run = Run.of({"id": "m", **MAP}, {"id": "b"})
    run.suspend("m", Wait(kind="items", count=3, limit=1))
    run.begin("m", item=0)
    run.fail("b")
    run.complete("m", item=0)
    run.tell(c.Retry)
    run.suspend("m", Wait(kind="items", count=3, limit=1))
    assert "m#1" in run.dispatched()
