"""Runs that are large: no turn of the loop grows with them (S05)."""

import gc
import os

import pytest

from perdure.kernel import snapshot
from perdure.kernel.lifecycle import NodeState
from perdure.kernel.state import Activation, Key, State, key_of
from perdure.kernel.waits import has_more_items
from tests.api.helpers import serving
from tests.attack.__main__ import CASES, GENERATED
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.engine.helpers import until_true

COUNT = 100_000 if int(os.environ.get(GENERATED, "0")) >= CASES else 20_000
"""As many as it may have with `make attack`."""
MAP = {
    "name": "w",
    "nodes": [
        {
            "id": "m",
            "type": "map",
            "config": {"over": "{{ inputs.x }}", "node": {"type": "transform", "config": {"value": "{{ item }}"}}},
        }
    ],
}


@pytest.mark.slow
@attack("S05", "a map of as many items as it may have, and its rerun")
async def test_the_items_of_a_map_are_started_in_portions_and_hold_up_nobody(tmp_path):
    async with serving(tmp_path) as server:
        with watching():
            run = await server.start(MAP, {"x": [0] * COUNT}, wait=0)
            await until_true(lambda: _is(server, run["run_id"], "completed"), "the map is done", 300)
        with watching():
            shown = await server.ok(f"/runs/{run['run_id']}")
        assert shown["state"] == "completed"
        with watching():
            again = await server.ok(f"/runs/{run['run_id']}/rerun", {"from_node": "m"})
            await until_true(lambda: _is(server, again["run_id"], "completed"), "the rerun is done", 300)


async def _is(server, run_id, state):
    return (await server.engine.journal.find_run(run_id)).row.state == state


@pytest.mark.slow
@attack("S05", "a run is cancelled in which as many items wait as may")
async def test_to_cancel_a_run_whose_items_wait_holds_up_nobody(tmp_path):
    waiting = {"type": "wait", "config": {"signal": "go"}}
    node = {"id": "m", "type": "map", "config": {"over": "{{ inputs.x }}", "node": waiting}}
    async with serving(tmp_path) as server:
        run_id = (await server.start({"name": "w", "nodes": [node]}, {"x": [0] * 100_000}, wait=0))["run_id"]
        await until_true(lambda: _waits(server, run_id), "no more items begin", 300)
        with watching():
            await server.ok(f"/runs/{run_id}/cancel", {})
            await until_true(lambda: _is(server, run_id, "cancelled"), "the run is cancelled", 60)


async def _waits(server, run_id):
    state = await server.engine.runs.state_of(await server.engine.journal.find_run(run_id))
    found = state.activations.get(key_of(0, ()))
    return found is not None and found.items_open > 0 and not has_more_items(state, found)


@attack("S05", "a look at a run whose snapshot has as many items as a map may have")
def test_a_snapshot_is_written_and_read_without_the_collector(monkeypatch):
    """Its decoder lets no thread have a turn: of 100,000 items it took 40 ms, and the collector within it 80 to 140 more."""
    collecting = []

    class Noting:
        def __init__(self, real):
            self.real = real

        def __getattr__(self, name):
            collecting.append(gc.isenabled())
            return getattr(self.real, name)

    for name in ("_decoder", "_encoder"):
        monkeypatch.setattr(snapshot, name, Noting(getattr(snapshot, name)))
    state = State(run_id="r", activations={0: Activation(node=0, state=NodeState.COMPLETED, output=[1])})
    found = snapshot.decode(snapshot.encode(state), {})
    assert found is not None
    assert found.activations == state.activations
    assert collecting.count(False) == len(collecting) > 3
    assert gc.isenabled()


@attack("S05", "a look at a run, or its rerun, of as many items as a map may have")
def test_the_collector_looks_at_nothing_that_a_run_keeps_of_each_item():
    """It looks at all that there is in one go, in whichever thread: of a list for each of 100,000 items it took 80 to 120 ms."""
    made: dict[Key, Activation] = {number: Activation(node=number, edges={1: 1}) for number in (0, 1)}
    kept = snapshot.decode(snapshot.encode(State(run_id="r", activations=made)), {})
    assert kept is not None
    for one, other in (made.values(), kept.activations.values()):
        own = [name for name in one.__struct_fields__ if getattr(one, name) is not getattr(other, name)]
        assert "edges" in own
        assert [name for name in own if gc.is_tracked(getattr(one, name))] == []
        assert not gc.is_tracked(one)
