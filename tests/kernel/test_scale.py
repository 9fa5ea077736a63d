"""The kernel at size: a hundred thousand nodes are decided in seconds, and no event costs more because the run is large
(PROTOCOL 30).

Times are generous; what they must catch is work that grows with the run.
"""

from __future__ import annotations

import functools
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

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.address import Address
from perdure.kernel.decide import advance
from perdure.kernel.state import Activation, State
from perdure.kernel.values import Error, Wait
from perdure.model import compile_definition
from perdure.model.ir import IR, decode, encode

pytestmark = pytest.mark.slow

LARGE = 100_000
FIFTH = LARGE // 5
"""Shows what grows with the square, in a fifth of the time."""
SMALL = 500
STRETCH = 50
TIMES = 20
"""So much larger is the run in which an event must not cost four times as much."""
TASK = {"type": "task", "config": {"function": "m:f"}}
UNDO = {"type": "task", "config": {"function": "m:undo"}}


def compiled(*nodes: dict[str, Any], **workflow: Any) -> IR:
    result = compile_definition({"name": "scale", **workflow, "nodes": [{**TASK, **node} for node in nodes]})
    assert result.ir is not None, result.problems
    return result.ir


def do(state: State, command: c.Command, verdicts: Any = None) -> c.Ruling:
    ruling = advance(state, command, verdicts or {})
    assert isinstance(ruling, c.Ruling), ruling
    return ruling


def begun(ir: IR) -> State:
    state = State()
    do(state, c.Start(at=0.0, run_id="run", ir=ir))
    return state


def complete(
    name: str, scope: tuple[int, ...] = (), *, item: int | None = None, undo: bool = False, output: Any = None
) -> c.Complete:
    return c.Complete(at=1.0, address=Address("run", name, scope, item, undo=undo), output=output)


@functools.cache
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


CLEAR, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def peak_megabytes() -> float:
    if STATUS.exists():  # `ru_maxrss` would begin with the peak of the process that started this one
        return next(int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)


def measure_fan() -> None:
    """In a process of its own, which has not compiled: what the run adds to memory at its highest, and the time."""
    ir = decode(sys.stdin.buffer.read())
    gc.collect()
    if CLEAR.exists():
        CLEAR.write_text("5")  # forget how high reading went
    before = peak_megabytes()
    started = time.process_time()
    state = play_fan(ir, LARGE)
    seconds = time.process_time() - started
    assert state.state == "completed"
    print(json.dumps({"seconds": seconds, "megabytes": peak_megabytes() - before}))


def test_a_fan_out_and_fan_in_of_100_000_nodes_compiles_within_ten_seconds_and_takes_seconds_and_little_memory():
    code = "from tests.kernel.test_scale import measure_fan; measure_fan()"
    root = Path(__file__).parents[2]
    started = time.process_time()
    ir = fan(LARGE)
    compiling = time.process_time() - started
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, input=encode(ir), capture_output=True, check=True, timeout=110
    )
    found = json.loads(done.stdout)
    print(found, compiling)
    assert compiling < 10
    assert found["seconds"] < 20
    assert found["megabytes"] < 150


def test_a_skip_travels_through_a_chain_of_20_000_nodes_in_one_decision():
    chain = [{"id": f"n{i}", "dependencies": [f"n{i - 1}"]} for i in range(1, FIFTH)]
    branch = {"rules": [{"condition": "output.go", "next_nodes": ["n0"]}], "default": ["other"]}
    ir = compiled({"id": "first", "branch": branch}, {"id": "n0"}, *chain, {"id": "other"})
    state = begun(ir)
    started = time.process_time()
    ruling = do(state, complete("first"), {c.Need("branch", "first"): c.Verdict(value=False)})
    seconds = time.process_time() - started
    print(seconds)
    assert [event.type for event in ruling.events] == ["node.completed", "nodes.skipped", "node.scheduled"]
    assert len(ruling.events[1].places) == FIFTH  # type: ignore[union-attr]
    do(state, complete("other"))
    assert state.state == "completed"
    assert seconds < 4


def test_a_chain_of_10_000_nodes_runs_through():
    size = FIFTH // 2
    chain = [{"id": f"n{i}", "dependencies": [f"n{i - 1}"]} for i in range(1, size)]
    state = begun(compiled({"id": "n0"}, *chain, limits={"max_hops": size}))
    started = time.process_time()
    for i in range(size):
        do(state, complete(f"n{i}"))
    assert state.state == "completed"
    assert time.process_time() - started < 10


# -- the cost of one event does not grow with the run ------------------------------------------------------------------

Steps = Iterator[None]
"""Comes back once when all is set up, and then after every step."""


def completions(size: int) -> Steps:
    state = begun(fan(size))
    do(state, complete("first"))
    yield
    for i in range(size):
        do(state, complete(f"n{i}"))
        yield


def retries(size: int) -> Steps:
    state = begun(fan(size))
    do(state, complete("first"))
    yield
    for i in range(size):
        do(state, c.Fail(at=1.0, address=Address("run", f"n{i}"), error=Error("broken")))
        yield


def iterations(size: int) -> Steps:
    """Iterations that come after `size` others."""
    loop = {"condition": "output", "max_iterations": 10**6, "loop_back_to": "h"}
    state = begun(compiled({"id": "h"}, {"id": "x", "dependencies": ["h"], "loop": loop}, limits={"max_hops": 10**9}))
    for iteration in range(1, 10**6):
        if iteration > size:
            yield
        scope = (iteration,)
        do(state, complete("h", scope))
        do(state, complete("x", scope), {c.Need("loop", "x", scope): c.Verdict(value=True)})


def items(size: int) -> Steps:
    state = begun(compiled({"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": TASK}}))
    do(state, c.Suspend(at=1.0, address=Address("run", "m"), wait=Wait(kind="items", count=size, limit=10)))
    yield
    for i in range(size):
        do(state, complete("m", item=i))
        yield


def compensations(size: int) -> Steps:
    names = [f"n{i}" for i in range(size)]
    nodes = [{"id": name, "compensator": UNDO} for name in names]
    state = begun(compiled(*nodes, {"id": "last", "dependencies": names}, on_failure={"compensate": True}))
    for name in names:
        do(state, complete(name))
    do(state, c.Fail(at=1.0, address=Address("run", "last"), error=Error("broken"), retryable=False))
    yield
    for name in reversed(names):
        do(state, complete(name, undo=True))
        yield


def races(size: int) -> Steps:
    """Many small races, each of which cancels its loser."""
    nodes: list[dict[str, Any]] = []
    for i in range(size // 3):
        nodes += [{"id": f"a{i}"}, {"id": f"b{i}"}]
        nodes.append({"id": f"j{i}", "dependencies": [f"a{i}", f"b{i}"], "join": {"at_least": 1, "cancel_rest": True}})
    state = begun(compiled(*nodes))
    yield
    for i in range(size // 3):
        do(state, complete(f"a{i}"))
        yield


def signals(size: int) -> Steps:
    """Signals to a run in which many wait for others."""
    state = begun(compiled(*({"id": f"n{i}"} for i in range(size))))
    for i in range(size):
        do(state, c.Suspend(at=1.0, address=Address("run", f"n{i}"), wait=Wait(kind="signal", name=f"s{i}")))
    yield
    for i in range(size):
        do(state, c.Signal(at=1.0, name=f"s{i}"))
        yield


def wait_for(name: str) -> c.Suspend:
    return c.Suspend(at=1.0, address=Address("run", name), wait=Wait(kind="signal", name="go", until=9.0))


def run_node(state: State, number: int) -> Activation:
    found = state.find(f"n{number}")
    assert found is not None
    return found


def unconsumed(size: int) -> Steps:
    """Signals that come after many others for which nothing waits."""
    state = begun(compiled({"id": "n"}))
    for _ in range(size):
        do(state, c.Signal(at=1.0, name="go"))
    yield
    while True:
        do(state, c.Signal(at=1.0, name="go"))
        yield


def consumed(size: int) -> Steps:
    """Waits that take signals, of which many more are there."""
    state = begun(compiled(*({"id": f"n{i}"} for i in range(SMALL))))
    for i in range(size):
        do(state, c.Signal(at=1.0, name="go", payload=i))
    yield
    for i in range(SMALL):
        do(state, wait_for(f"n{i}"))
        assert run_node(state, i).output == i
        yield


def same_waits(size: int) -> Steps:
    """Signals for one name that many wait for."""
    state = begun(compiled(*({"id": f"n{i}"} for i in range(size))))
    for i in range(size):
        do(state, wait_for(f"n{i}"))
    yield
    for i in range(size):
        do(state, c.Signal(at=1.0, name="go"))
        assert run_node(state, i).state == "completed"
        yield


def given_up(size: int) -> Steps:
    """Waits for one name that end by time, the last one first."""
    state = begun(compiled(*({"id": f"n{i}", "on_failure": "park"} for i in range(size))))
    timers = []
    for i in range(size):
        timers += [effect.timer for effect in do(state, wait_for(f"n{i}")).effects if isinstance(effect, fx.SetTimer)]
    yield
    for timer in reversed(timers):
        assert len(do(state, c.FireTimer(at=9.0, timer=timer)).events) == 2
        yield


def cost(make: Callable[[int], Steps], size: int) -> float:
    """Seconds for one step, the best of a few stretches of it."""
    steps = make(size)
    next(steps)
    gc.collect()
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        for _ in range(STRETCH):
            next(steps)
        best = min(best, (time.process_time() - started) / STRETCH)
    return best


KINDS = [completions, retries, iterations, items, compensations, races]
SIGNALS = [signals, unconsumed, consumed, same_waits, given_up]


@pytest.mark.parametrize("make", KINDS + SIGNALS)
def test_the_cost_of_an_event_does_not_grow_with_the_run(make):
    small, large = cost(make, SMALL), cost(make, SMALL * TIMES)
    print(f"{make.__name__}: {small * 1e6:.0f} µs at {SMALL}, {large * 1e6:.0f} µs at {SMALL * TIMES}")
    assert large < 4 * small
