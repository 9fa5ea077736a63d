"""Streams that go on, in simulated histories: what is repeated is dropped, what no checkpoint covers is not read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from perdure.kernel import events as e
from perdure.runtime.worker import lasting_outflow
from perdure.simulation.stage.user_world import rough_plan
from perdure.testing import histories
from perdure.transports.local_streams import LocalStreams
from tests.sim.planting import method
from tests.sim.test_streams import NUMBERS, SUM, _small_pieces, node

pytestmark = pytest.mark.slow

SEEDS = 24
MOST = 240
"""Histories in which a bug must show."""

FLOW = {
    "name": "lasting",
    "nodes": [
        node(
            "a", "repeat_count", args={"n": NUMBERS, "seconds": 1.5}, stream={"restart": "repeat", "collect": "count"}
        ),
        node("b", "keep_adding"),
        node("c", "double_in_turn", stream={"restart": "checkpoint", "collect": "count"}),
        node("d", "add_in_order"),
        node("e", "go_on", args={"n": NUMBERS, "pause": 1.5}, stream={"restart": "checkpoint", "collect": "count"}),
        node("f", "add_in_order"),
        node("g", "add"),
    ],
    "edges": [
        {"from": "a", "to": "b.numbers"},
        {"from": "a", "to": "c.numbers"},
        {"from": "c", "to": "d.numbers"},
        {"from": "e", "to": "f.numbers"},
        {"from": "a", "to": "g.numbers"},
    ],
}
WANTED = {"a": NUMBERS, "b": SUM, "c": NUMBERS, "d": SUM, "e": NUMBERS, "f": SUM, "g": SUM}


def play(seeds: int, start: int = 0) -> Iterator[tuple[int, Any]]:
    """What each history came to: the outputs, or what was wrong with it."""
    setting = histories.make_rough_setting(FLOW, inputs=None, stubs=None, signals=(), real=True)
    for seed in range(start, start + seeds):
        world = histories._play(setting, rough_plan(setting, seed))
        if world.failures:
            yield seed, str(world.failures[0])
            continue
        last = world.last()
        found = {last.name(one.node): one.output for one in last.activations.values()}
        events = [e.decode(one.body) for one in world.store.events[last.run_id]]
        closed = [one for one in events if isinstance(one, e.StreamClosed)]
        if last.state != "completed":
            yield seed, f"{last.state}: {last.error}"
        elif any(one.reason == "restart" for one in closed):
            yield seed, "a stream that goes on was begun anew"
        else:
            yield seed, found


def test_every_history_comes_to_the_right_sums() -> None:
    found = dict(play(SEEDS))
    assert {seed: one for seed, one in found.items() if one != WANTED} == {}


def test_nor_is_any_other_sum_found_where_streams_are_kept_in_small_pieces() -> None:
    with _small_pieces():
        assert {seed: one for seed, one in play(SEEDS // 2, 1000) if one != WANTED} == {}


# -- planted bugs ------------------------------------------------------------------------------------------------------


async def _take_twice(self: Any, stream: Any, edition: int, first: int, bodies: Any, **more: Any) -> int:
    """What is sent again is appended again."""
    held = self._get(stream, edition)
    held.tail += bodies
    self._wake(stream)
    return max(held.next, first + len(bodies))


async def _claim_nothing(self: Any, stream: Any, edition: int, attempt: int) -> tuple[int, int]:
    """Nobody says what is there: all of it is sent again."""
    self._get(stream, edition)
    return 1, 0


async def _show_first(self: Any, upto: Any, save: Any) -> None:
    """Pieces are shown before the checkpoint that covers them is kept."""
    for name, port in self._ports.items():
        await self.settle()
        if (count := upto[name] - port.kept) > 0:
            await self._put(name, port, count, is_small=True)
            port.shown = len(port.parts)
            await self._show(name, port)
    await _cover(self, upto, save)


def _cover_all(self: Any) -> dict[str, int]:
    """A checkpoint covers one chunk less than was yielded before it."""
    return {name: max(0, number - 1) for name, number in _cut(self).items()}


def _begin_again(self: Any, *given: Any, **more: Any) -> None:
    """What goes on counts from 1 again."""
    _init(self, *given, **more)
    for port in self._ports.values():
        port.parts, port.count, port.taken, port.shown = [], 0, 0, 0


_cover, _cut, _init = lasting_outflow.Covered.cover, lasting_outflow.Covered.cut, lasting_outflow.Covered.__init__


class _Both:
    def __init__(self, *bugs: Any) -> None:
        self._bugs = bugs

    def __enter__(self) -> None:
        for one in self._bugs:
            one.__enter__()

    def __exit__(self, *raised: Any) -> None:
        for one in self._bugs:
            one.__exit__(*raised)


BUGS = {
    "what is repeated is not dropped": _Both(
        method(LocalStreams, "append", _take_twice), method(LocalStreams, "claim", _claim_nothing)
    ),
    "pieces are shown before their checkpoint is kept": method(lasting_outflow.Covered, "cover", _show_first),
    "a checkpoint covers less than was yielded": method(lasting_outflow.Covered, "cut", _cover_all),
    "what goes on counts from 1 again": method(lasting_outflow.Covered, "__init__", _begin_again),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_gives_another_sum(name: str) -> None:
    with BUGS[name]:
        assert any(one != WANTED for _, one in play(MOST)), "no history found it"
