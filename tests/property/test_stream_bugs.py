"""Bugs planted in the rules about streams: the walk must find each, or its checks are worth nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from perdure.kernel import attempts, flows, outcomes, stream_readers
from perdure.kernel.edges import resolve
from perdure.kernel.facts import stream_facts
from tests.property import graphs
from tests.property.streaming import Streaming
from tests.sim.planting import swapped

pytestmark = pytest.mark.slow

MOST = 200
"""Walks in which a bug must show."""


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _count_twice(state: Any, edge: Any, ir: int, source: Any, status: int) -> None:
    """Forget that the edge has resolved, so that it resolves again with the outcome."""
    resolve(state, edge, ir, source, status)
    state.edit(state.activations[edge.target]).edges.pop(edge.source, None)


def _accept_void(state: Any, activation: Any, command: Any, success: bool) -> str | None:
    kept, activation.suspended = activation.suspended, 0
    try:
        return objection(state, activation, command, success)
    finally:
        activation.suspended = kept


objection = attempts._objection

BUGS: dict[str, tuple[str, list[tuple[Any, Callable[..., Any]]]]] = {
    "an edge counts when its stream opens, and again with the outcome": (
        "E1 E2 E4 F4 replay",
        [(resolve, _count_twice)],
    ),
    "an edition outlives its attempt": ("F2 F5", [(flows._find_broken, lambda d: [])]),
    "readers go on with an edition that is over": ("F2", [(flows._stop_readers, _nothing)]),
    "what read an old edition, or wrote it, is accepted": ("F2 V3 F4", [(objection, _accept_void)]),
    "a checkpoint survives its edition": (
        "F6",
        [(stream_readers.forget, _nothing), (stream_readers.forget_old, _nothing)],
    ),
    "a stream ends and its outcome is not accepted": ("F5", [(outcomes.accept, _nothing)]),
    "an outcome is made of a piece of a stream": ("F4", [(stream_readers.find_unread, _nothing)]),
    "a reader begins before there is anything to read": ("62", [(stream_readers.is_fed, lambda state, reader: True)]),
    "a stream is open after the end of its run": ("F10 F2 J4", [(flows.close_all, _nothing)]),
}


@pytest.fixture(params=BUGS)
def bug(request) -> Iterator[str]:
    with ExitStack() as stack:
        for real, planted in BUGS[request.param][1]:
            where = stream_facts if real is resolve else None
            stack.enter_context(swapped(real, planted) if where is None else _in(where, "resolve", planted))
        yield BUGS[request.param][0]


def _in(module: Any, name: str, planted: Any) -> Any:
    patch = pytest.MonkeyPatch.context()
    return _Patched(patch, module, name, planted)


class _Patched:
    """One name of one module: the function is used by other rules too."""

    def __init__(self, context: Any, module: Any, name: str, planted: Any) -> None:
        self._context, self._about = context, (module, name, planted)

    def __enter__(self) -> None:
        self._context.__enter__().setattr(*self._about)

    def __exit__(self, *raised: Any) -> None:
        self._context.__exit__(*raised)


def _walk(seed: int) -> None:
    """A walk in which nearly everything that happens is about streams."""
    nodes = [{"id": name, "type": "task", "config": {"function": "m:f"}} for name in "abcd"]
    edges = [{"from": "a", "to": "b.x"}, {"from": "b", "to": "c.x"}, {"from": "a", "to": "d.x"}]
    definition = {"name": "walk", "nodes": nodes, "edges": edges}
    walk = Streaming(Random(seed), definition, graphs.compile_graph(definition), faults=0.5)
    walk.walk(60)
    walk.heal()


def test_a_walk_without_a_bug_finds_none() -> None:
    for seed in range(40):
        _walk(seed)


def test_the_walk_finds_it(bug: str) -> None:
    for seed in range(MOST):
        try:
            _walk(seed)
        except Exception as error:  # noqa: BLE001  whatever finds it
            said = f"{type(error).__name__} {error}"
            assert any(name in said for name in bug.split()), f"seed {seed}: {said[:2000]}"
            return
    raise AssertionError(f"no walk of {MOST} found it")
