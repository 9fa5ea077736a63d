"""Streams in simulated histories: real functions, faults of every kind, and the sum is right in each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from perdure.runtime.worker import inflow, outflow
from perdure.simulation.stage.user_world import rough_plan
from perdure.testing import histories
from perdure.transports.local_streams import LocalStreams, _Edition
from tests.sim.planting import method

pytestmark = pytest.mark.slow

NUMBERS = 60
SEEDS = 30


def node(id: str, function: str, **more: Any) -> dict[str, Any]:
    config = {"function": f"tests.engine.streaming:{function}", "args": more.pop("args", {})}
    return {"id": id, "type": "task", "config": config, "max_crashes": 1000, "retry": 1000, **more}


FLOW = {
    "name": "flow",
    "nodes": [
        node("a", "count", args={"n": NUMBERS, "pause": 3, "seconds": 0.5}, stream={"collect": "count"}),
        node("b", "double", stream={"collect": "last"}),
        node("c", "keep_adding"),
        node("d", "add"),
        node("e", "own_count", args={"n": NUMBERS, "pause": 2.0}, stream={"collect": "count"}),
        node("f", "add_one_count"),
    ],
    "edges": [
        {"from": "a", "to": "b.numbers"},
        {"from": "b", "to": "c.numbers"},
        {"from": "a", "to": "d.numbers"},
        {"from": "b", "to": "d.numbers"},
        {"from": "e", "to": "f.numbers"},
    ],
}
SUM = NUMBERS * (NUMBERS + 1) // 2
WANTED = {"a": NUMBERS, "b": 2 * NUMBERS, "c": 2 * SUM, "d": 3 * SUM, "e": NUMBERS, "f": SUM}


def play(seeds: int = SEEDS) -> Iterator[tuple[int, Any]]:
    """What each history came to: the outputs, or what was wrong with it."""
    setting = histories.make_rough_setting(FLOW, inputs=None, stubs=None, signals=(), real=True)
    for seed in range(seeds):
        plan = rough_plan(setting, seed)
        world = histories._play(setting, plan)
        if world.failures:
            yield seed, str(world.failures[0])
            continue
        last = world.last()
        found = {last.name(one.node): one.output for one in last.activations.values()}
        yield seed, found if last.state == "completed" else f"{last.state}: {last.error}"


def test_every_history_comes_to_the_right_sums() -> None:
    found = dict(play())
    assert len(found) > SEEDS // 4
    assert {seed: one for seed, one in found.items() if one != WANTED} == {}


@contextmanager
def _small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outflow, "PART_BYTES", 20)
        yield


def test_nor_is_any_other_sum_found_where_streams_are_kept_in_small_pieces() -> None:
    with _small_pieces():
        assert {seed: one for seed, one in play(SEEDS // 2) if one != WANTED} == {}


# -- planted bugs ------------------------------------------------------------------------------------------------------


async def _take_all(self: Any, stream: Any, edition: int, first: int, bodies: Any) -> int:
    """An older edition writes on into the newer one."""
    held = self._runs.setdefault(stream[0], {}).setdefault(stream[1], _Edition(edition))
    held.edition = max(held.edition, edition)
    held.tail += bodies
    self._wake(stream)
    return max(held.next, first + len(bodies))


def _no_cursors(self: Any) -> dict[str, tuple[int, int]]:
    return {name: (edition, 0) for name, (edition, _) in _cursors(self).items()}


_cursors = inflow.Inflows.cursors
_end = outflow.Outflow.end


async def _without_the_tail(self: Any) -> Any:
    """The last piece is not stored, and nobody says so."""
    await self.settle()
    for port in self._ports.values():
        port.unkept = port.unkept[:-1]
    return await _end(self)


BUGS = {
    "what an attempt before it yields is taken": method(LocalStreams, "append", _take_all),
    "a checkpoint does not say how far it has read": method(inflow.Inflows, "cursors", _no_cursors),
    "the last chunk is not in what is stored": method(outflow.Outflow, "end", _without_the_tail),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_gives_another_sum(name: str) -> None:
    with BUGS[name]:
        assert any(one != WANTED for _, one in play(8 * SEEDS)), "no history found it"
