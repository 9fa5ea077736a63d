"""The kernel at size: a hundred thousand nodes are decided in seconds, and no event costs more because the run is large.

Times are generous; what they must catch is work that grows with the run.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from weft.kernel import commands as c
from weft.kernel.decide import advance
from weft.kernel.state import State
from weft.kernel.values import Wait
from weft.model import compile_definition
from weft.model.ir import IR, decode, encode

pytestmark = pytest.mark.slow

LARGE = 100_000
SMALL = 1_000
TASK = {"type": "task", "config": {"function": "m:f"}}
UNDO = {"type": "task", "config": {"function": "m:undo"}}


def compiled(*nodes: dict[str, Any], **workflow: Any) -> IR:
    result = compile_definition({"name": "scale", **workflow, "nodes": [{**TASK, **node} for node in nodes]})
    assert result.ir is not None, result.problems
    return result.ir


def do(state: State, command: c.Command, verdicts: Any = None) -> c.Decision:
    decision = advance(state, command, verdicts or {})
    assert isinstance(decision, c.Decision), decision
    return decision


def begun(ir: IR) -> State:
    state = State()
    do(state, c.Start(at=0.0, run_id="run", ir=ir))
    return state


def complete(name: str, scope: tuple[int, ...] = (), **fields: Any) -> c.Complete:
    return c.Complete(at=1.0, node=name, scope=scope, attempt=1, **fields)


def fan(size: int) -> IR:
    """One node, `size` behind it, one behind all of those."""
    middle = [{"id": f"n{i}", "dependencies": ["first"]} for i in range(size)]
    return compiled({"id": "first"}, *middle, {"id": "last", "dependencies": [node["id"] for node in middle]})


def play_fan(ir: IR, size: int) -> State:
    state = begun(ir)
    do(state, complete("first"))
    for i in range(size):
        do(state, complete(f"n{i}", output=i))
    do(state, complete("last"))
    return state


def measure_fan() -> None:
    """In a process of its own, which has not compiled: what the run adds to memory at its highest, and the time."""
    ir = decode(sys.stdin.buffer.read())
    gc.collect()
    peak = Path("/proc/self/clear_refs")
    if peak.exists():
        peak.write_text("5")  # forget how high reading went
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    started = time.perf_counter()
    state = play_fan(ir, LARGE)
    seconds = time.perf_counter() - started
    assert state.state == "completed"
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit - before
    print(json.dumps({"seconds": seconds, "megabytes": megabytes}))


def test_a_fan_out_and_fan_in_of_100_000_nodes_takes_seconds_and_little_memory():
    code = "from tests.kernel.test_scale import measure_fan; measure_fan()"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, input=encode(fan(LARGE)), capture_output=True, check=True, timeout=110
    )
    found = json.loads(done.stdout)
    print(found)
    assert found["seconds"] < 20
    assert found["megabytes"] < 150


def test_a_skip_travels_through_a_chain_of_100_000_nodes_in_one_decision():
    chain = [{"id": f"n{i}", "dependencies": [f"n{i - 1}"]} for i in range(1, LARGE)]
    branch = {"rules": [{"condition": "output.go", "next_nodes": ["n0"]}], "default": ["other"]}
    ir = compiled({"id": "first", "branch": branch}, {"id": "n0"}, *chain, {"id": "other"})
    state = begun(ir)
    started = time.perf_counter()
    decision = do(state, complete("first"), {c.Need("branch", "first"): c.Verdict(value=False)})
    seconds = time.perf_counter() - started
    print(seconds)
    assert [event.type for event in decision.events] == ["node.completed", "nodes.skipped", "node.scheduled"]
    assert len(decision.events[1].places) == LARGE  # type: ignore[union-attr]
    do(state, complete("other"))
    assert state.state == "completed"
    assert seconds < 20


def test_a_chain_of_20_000_nodes_runs_through():
    size = 20_000
    chain = [{"id": f"n{i}", "dependencies": [f"n{i - 1}"]} for i in range(1, size)]
    state = begun(compiled({"id": "n0"}, *chain, limits={"max_hops": size}))
    started = time.perf_counter()
    for i in range(size):
        do(state, complete(f"n{i}"))
    assert state.state == "completed"
    assert time.perf_counter() - started < 20


# -- the cost of one event does not grow with the run ------------------------------------------------------------------

Step = Callable[[], None]


def completions(size: int) -> Iterator[Step]:
    state = begun(fan(size))
    do(state, complete("first"))
    return (lambda i=i: do(state, complete(f"n{i}")) and None for i in range(size))


def retries(size: int) -> Iterator[Step]:
    state = begun(fan(size))
    do(state, complete("first"))
    error = c.Error("broken")
    return (lambda i=i: do(state, c.Fail(at=1.0, node=f"n{i}", attempt=1, error=error)) and None for i in range(size))


def iterations(size: int) -> Iterator[Step]:
    """The last of `size` iterations."""
    loop = {"condition": "output", "max_iterations": size + 1000, "loop_back_to": "h"}
    state = begun(compiled({"id": "h"}, {"id": "x", "dependencies": ["h"], "loop": loop}, limits={"max_hops": 10**9}))

    def turn() -> None:
        scope = (state.loops[(1, ())].iteration,)
        do(state, complete("h", scope))
        do(state, complete("x", scope), {c.Need("loop", "x", scope): c.Verdict(value=True)})

    for _ in range(size):
        turn()
    return (turn for _ in range(1000))


def items(size: int) -> Iterator[Step]:
    config = {"over": "{{ inputs.list }}", "node": TASK}
    state = begun(compiled({"id": "m", "type": "map", "config": config}))
    do(state, c.Suspend(at=1.0, node="m", attempt=1, wait=Wait(kind="items", count=size, limit=10)))
    return (lambda i=i: do(state, complete("m", item=i)) and None for i in range(size))


def compensations(size: int) -> Iterator[Step]:
    nodes = [{"id": f"n{i}", "compensator": UNDO} for i in range(size)]
    names = [node["id"] for node in nodes]
    state = begun(compiled(*nodes, {"id": "last", "dependencies": names}, on_failure={"compensate": True}))
    for name in names:
        do(state, complete(name))
    do(state, c.Fail(at=1.0, node="last", attempt=1, error=c.Error("broken"), retryable=False))
    return (lambda name=name: do(state, complete(name, undo=True)) and None for name in reversed(names))


def races(size: int) -> Iterator[Step]:
    """Many small races, each of which cancels its loser."""
    nodes = []
    for i in range(size // 3):
        nodes += [{"id": f"a{i}"}, {"id": f"b{i}"}]
        nodes.append({"id": f"j{i}", "dependencies": [f"a{i}", f"b{i}"], "join": {"at_least": 1, "cancel_rest": True}})
    state = begun(compiled(*nodes))
    return (lambda i=i: do(state, complete(f"a{i}")) and None for i in range(size // 3))


def signals(size: int) -> Iterator[Step]:
    """Signals to a run in which many wait for others."""
    state = begun(compiled(*({"id": f"n{i}"} for i in range(size))))
    for i in range(size):
        do(state, c.Suspend(at=1.0, node=f"n{i}", attempt=1, wait=Wait(kind="signal", name=f"s{i}")))
    return (lambda i=i: do(state, c.Signal(at=1.0, name=f"s{i}")) and None for i in range(size))


def cost(make: Callable[[int], Iterator[Step]], size: int) -> float:
    """Seconds for one step, the best of a few stretches of it."""
    steps = make(size)
    gc.collect()
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        for _ in range(100):
            next(steps)()
        best = min(best, (time.perf_counter() - started) / 100)
    return best


@pytest.mark.parametrize("make", [completions, retries, iterations, items, compensations, races, signals])
def test_the_cost_of_an_event_does_not_grow_with_the_run(make):
    size = LARGE if make in (completions, items) else 30_000
    small, large = cost(make, SMALL), cost(make, size)
    print(f"{make.__name__}: {small * 1e6:.0f} µs at {SMALL}, {large * 1e6:.0f} µs at {size}")
    assert large < 5 * small
