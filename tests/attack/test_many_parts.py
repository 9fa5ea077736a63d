"""Values that are short and have very many parts: each stays below every limit, and together they held the loop (S05)."""

import json
from functools import partial
from typing import Any

import pytest

from perdure.kernel import snapshot
from perdure.kernel.state import Activation, Key, State, key_of
from perdure.runtime.coordinator.tasks import room
from perdure.runtime.coordinator.tasks.room import FEW_PARTS, MOST_PARTS, Room, look, needs_a_look
from perdure.weight import count_parts
from tests.api.helpers import serving
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.engine.helpers import DEADLINE, until_true

LISTS: list[Any] = [[]] * 10_000
"""30 KB of JSON, which stays in its event."""
ITEMS = 700


def mapping(value: Any) -> dict[str, Any]:
    config = {"over": "{{ inputs.x }}", "node": {"type": "transform", "config": {"value": value}}}
    return {"name": "w", "nodes": [{"id": "m", "type": "map", "config": config}], "outputs": {"n": "{{ m | length }}"}}


async def parts_in_events(server: Any, run_id: str) -> int:
    found, after = 0, 0
    while events := await server.engine.journal.read_events(run_id, after, 500):
        found += sum(count_parts(event.body) for event in events)
        after = events[-1].seq
    return found


async def _is_ended(server: Any, run_id: str) -> bool:
    return (await server.engine.journal.find_run(run_id)).row.ended_at is not None


@pytest.mark.slow
@attack("S05", "a map of so many items that each give ten thousand empty lists")
async def test_a_run_of_millions_of_small_lists_holds_up_nobody(tmp_path):
    """Of 2,000 items they were 20 million objects in memory: 370 ms for each look at the run, and 640 for its rerun."""
    async with serving(tmp_path) as server:
        with watching():
            run = await server.start(mapping("{{ inputs.v }}"), {"x": [0] * ITEMS, "v": LISTS}, wait=0)
            await until_true(partial(_is_ended, server, run["run_id"]), "the run is done", DEADLINE * 4)
        with watching():
            seen = await server.ok(f"/runs/{run['run_id']}")
        assert (seen["state"], seen["outputs"]) == ("completed", {"n": ITEMS})
        with watching():
            again = await server.ok(f"/runs/{run['run_id']}/rerun", {})
            await until_true(partial(_is_ended, server, again["run_id"]), "the rerun is done", DEADLINE * 4)
        assert await parts_in_events(server, run["run_id"]) < 2 * MOST_PARTS


@attack("S05", "values that are few, and have many parts together")
@pytest.mark.parametrize("how", ["output", "signal", "details"])
async def test_the_parts_of_all_values_of_a_run_have_a_sum(tmp_path, monkeypatch, how):
    """Beyond it they are stored as blobs, and what reads them sees no difference."""
    monkeypatch.setattr(room, "MOST_PARTS", 5_000)
    value: list[Any] = [[]] * 1_000
    count = 12
    async with serving(tmp_path) as server:
        match how:
            case "output":
                run = await server.start(mapping("{{ inputs.v }}"), {"x": [0] * count, "v": value})
                assert run["outputs"] == {"n": count}
                items = (await server.ok(f"/runs/{run['run_id']}/nodes/m/items"))["items"]
                assert len(items) == count
            case "signal":
                nodes = [{"id": "w", "type": "wait", "config": {"signal": "go"}}]
                run = await server.start({"name": "w", "nodes": nodes}, wait=0)
                for _ in range(count):
                    await server.ok(f"/runs/{run['run_id']}/signal", {"name": "other", "payload": value})
                await server.ok(f"/runs/{run['run_id']}/signal", {"name": "go", "payload": value})
                await until_true(partial(_is_ended, server, run["run_id"]), "the run is done")
                shown = await server.ok(f"/runs/{run['run_id']}")
                assert value in _values(shown["outputs"])
            case _:
                calls = {"type": "task", "config": {"function": "tests.attack.saying:fail_with_many_parts"}}
                config = {"over": "{{ inputs.x }}", "node": calls, "tolerated_failures": count}
                flow = {"name": "w", "nodes": [{"id": "m", "type": "map", "config": config}]}
                run = await server.start(flow, {"x": [0] * count})
                assert run["state"] == "completed"
        assert 2_000 < await parts_in_events(server, run["run_id"]) < 10_000


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else [value]


def test_values_of_few_parts_stay_and_cost_nothing():
    full = Room(MOST_PARTS)
    assert full.admits(b"[{},{}]")
    assert not full.admits(json.dumps([[]] * FEW_PARTS).encode())
    assert full.parts == MOST_PARTS


def test_what_is_decided_in_one_turn_counts_before_it_is_written():
    one = json.dumps([*LISTS, [], [], []]).encode()
    some = Room()
    taken = sum(some.admits(one) for _ in range(100))
    assert taken == MOST_PARTS // count_parts(one)
    some.write([one] * taken)
    assert some.parts > MOST_PARTS - count_parts(one)
    assert not some.admits(one)


def test_brackets_in_texts_are_no_parts():
    assert count_parts(json.dumps(["[{" * 1_000, {"a": '"[{'}]).encode()) == 2


@pytest.mark.parametrize("count", [1, 15, 16, 70_000])
def test_a_snapshot_in_steps_is_the_same(count):
    made = {}
    for number in range(count, 0, -1):
        one = Activation(node=number % 3, scope=(number % 2,), item=number, edges={2: 1, 1: 1}, output={"n": number})
        made[key_of(one.node, one.scope, one.item)] = one
    state = State(run_id="r", activations=made)
    whole = snapshot.decode(snapshot.encode(state), {})
    assert whole is not None
    assert list(whole.activations.values()) == sorted(made.values(), key=lambda one: (one.node, one.scope, one.item))
    assert snapshot.encode(whole) == snapshot.encode(state)
    plain = snapshot.Snapshot(
        **{name: find(whole) for name, find in snapshot._FIELDS.items()}  # its activations are in order by now
    )
    assert snapshot._encoder.encode(plain) == snapshot.encode(state)


def test_a_run_that_is_loaded_counts_what_it_has():
    made: dict[Key, Activation] = {number: Activation(node=number, output=LISTS) for number in range(3)}
    state = State(run_id="r", activations=made, bytes=3 * 30_000)
    assert needs_a_look(state)
    assert look(state).parts == 3 * (10_001 - FEW_PARTS)
