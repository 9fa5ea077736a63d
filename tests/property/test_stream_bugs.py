"""Bugs planted in the rules about streams: the walk must find each, or its checks are worth nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from perdure.kernel import attempts, outcomes
from perdure.kernel.edges import resolve
from perdure.kernel.facts import stream_facts
from perdure.kernel.streams import flows, stream_readers
from perdure.kernel.streams.stream_readers import is_lasting
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


def _goes_on(d: Any, source: Any) -> None:
    """What is made of an edition that is over goes on, because its own node goes on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flows, "_break_off", lambda d, activation, edition: None)
        stop_readers(d, source)


def _keep_alone(d: Any, activation: Any, command: Any) -> bool:
    """The pieces in the append, and the state that was to come with them in none."""
    keep_pieces(d, activation, command)
    return False


def _only_anew(d: Any) -> Any:
    return [found for found in find_broken(d) if not is_lasting(d.state, found[0])]


objection = attempts._objection
stop_readers = flows._stop_readers
keep_pieces = attempts._keep_pieces
find_broken = flows._find_broken

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
    "what was made of an edition goes on when that is over (G16)": ("F2 F6 G16", [(stop_readers, _goes_on)]),
    "pieces are shown, and what they are covered by is not kept": ("F6", [(keep_pieces, _keep_alone)]),
    "a stream ends before what was kept of it": ("F5 F3", [(flows._find_short, _nothing)]),
    "one that has failed for good goes on": ("F2 F10", [(flows._find_broken, _only_anew)]),
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
    random = Random(seed)
    restarts = {name: {"restart": random.choice(("anew", "repeat", "checkpoint"))} for name in "ab"}
    config = {"function": "m:f"}
    nodes = [{"id": name, "type": "task", "config": config, "stream": restarts.get(name, {})} for name in "abcd"]
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
