"""Maps over child workflows from Python: children that take their time, and children that fail."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

import perdure
from perdure.kernel.lifecycle import NodeState, RunState
from perdure.sdk.asks import look

MEMORY = ":memory:"


@perdure.task
def slowly(number: int) -> int:
    threading.Event().wait(0.02)  # long enough for others to start and end meanwhile
    return number


@perdure.task(retry=perdure.Retry(max_attempts=1))
def odd(number: int) -> int:
    if number % 2 == 0:
        raise perdure.Abort(f"{number} is even")
    return number


@perdure.workflow
def child(number: int) -> int:
    return slowly(number)


@perdure.workflow
def odd_child(number: int) -> int:
    return odd(number)


@perdure.workflow
def family(numbers: list[int]):
    return perdure.map(child, numbers, max_concurrency=5)


@perdure.workflow
def tolerant(numbers: list[int]):
    return perdure.map(odd_child, numbers, tolerated_failures=1)


async def test_a_run_may_go_on_while_its_children_are_looked_at():
    """What a run waits for is read at once; its children are read from the database, and meanwhile it goes on."""
    waiting = [
        SimpleNamespace(node=0, state=NodeState.WAITING, wait=SimpleNamespace(kind=kind, name=name), undo=None)
        for kind, name in (("child", "r/a"), ("child", "r/b"), ("approval", "r/ask"))
    ]
    approval = SimpleNamespace(approvers=("ann",), votes={}, shown=None)
    state = SimpleNamespace(
        run_id="r",
        terminal=False,
        state=RunState.RUNNING,
        name=lambda node: "node",
        pinned=lambda activation: SimpleNamespace(config={}, rejection_path=()),
        activations=dict(enumerate(waiting)),
        approvals={"r/ask": approval},
    )

    class Tenancy:
        async def find_run(self, run_id: str) -> None:
            state.activations[len(state.activations)] = waiting[0]
            state.approvals.clear()

    found = await look(cast("Any", SimpleNamespace(tenancy=Tenancy())), cast("Any", state))
    assert [ask.name for ask in found.asks] == ["r/ask"]
    assert found.busy


@pytest.mark.slow
def test_children_that_take_their_time_may_start_and_end_while_the_run_is_looked_at():
    run = perdure.run(family, numbers=list(range(60)), db=MEMORY)
    assert run.result() == list(range(60))


def test_the_failed_child_of_a_map_that_tolerates_it_stands_among_the_results_as_its_error():
    run = perdure.run(tolerant, numbers=[1, 2, 3], db=MEMORY)
    assert run.state == "completed", run.error
    first, second, third = run.result()
    assert (first, third) == (1, 3)
    assert second["error"]["message"].endswith("2 is even")
