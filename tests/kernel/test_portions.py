"""A map starts its items in portions, so that no decision grows with the list it is made over."""

from __future__ import annotations

import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import waits
from perdure.kernel.address import Address
from perdure.kernel.outstanding import outstanding
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


def more(run: Run) -> list[Address]:
    return [effect.address for effect in run.effects if isinstance(effect, fx.StartMore)]


def test_the_next_portion_is_asked_for_though_no_item_moves() -> None:
    run = begun()
    assert started(run) == PORTION
    for expected in (2 * PORTION, COUNT):
        (address,) = more(run)
        run.do(c.NextItems(at=run.now, address=address))
        assert started(run) == expected
    assert more(run) == []


def test_a_portion_that_was_not_asked_for_is_asked_for_after_a_crash() -> None:
    run = begun()
    assert [effect.address for effect in outstanding(run.state) if isinstance(effect, fx.StartMore)] == more(run)
    run.tell(c.Pause)
    assert [effect for effect in outstanding(run.state) if isinstance(effect, fx.StartMore)] == []


def test_a_full_map_asks_for_no_more_than_may_be_open() -> None:
    run = begun(limit=PORTION)
    assert more(run) == []
    run = begun(limit=PORTION + 1)
    assert len(more(run)) == 1


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


def test_while_a_run_has_as_much_open_as_it_may_each_of_its_maps_has_one_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "MOST_OPEN", PORTION + 2)
    run = Run.of({"id": "m", **MAP}, {"id": "n", **MAP})

    def open_of(node: int) -> int:
        return run.state.activations[key_of(node, ())].items_open

    run.suspend("m", Wait(kind="items", count=COUNT))
    run.suspend("n", Wait(kind="items", count=COUNT))
    assert (open_of(0), open_of(1), more(run)) == (PORTION, 1, [])
    run.complete("n", item=0)
    assert (open_of(0), open_of(1), more(run)) == (PORTION, 1, [])
    for item in range(COUNT):
        run.complete("m", item=item)
    for item in range(1, COUNT):
        run.complete("n", item=item)
    assert run.state.terminal
