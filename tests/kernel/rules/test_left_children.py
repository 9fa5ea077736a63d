"""Rules 11, 17, 28, 32, 35 and 36: a child whose node has ended without it is stopped, also when the stop was lost."""

from typing import Any

import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.outstanding import outstanding
from perdure.kernel.values import Wait
from perdure.runtime.coordinator.projections import row_of
from tests.kernel.driver import Run
from tests.kernel.rules.graphs import AGAIN, again, child, effects, end_child, items, node, start, violations

CHILD: dict[str, Any] = {"id": "w", "type": "workflow", "config": {"workflow": "inner"}}
EACH: dict[str, Any] = {
    "id": "m",
    "type": "map",
    "config": {"over": "{{ inputs.list }}", "node": {"type": "workflow", "config": {"workflow": "inner"}}},
}


def in_a_loop() -> tuple[Run, str]:
    run = start(node("h"), {**CHILD, "dependencies": ["h"]}, node("l", "h", loop=again("h")), node("z", "l"))
    run.complete("h", scope=(1,))
    run.suspend("w", Wait(kind="child"), (1,), workflow="inner")
    name = run.get("w", (1,)).child
    run.complete("l", AGAIN, (1,))
    return run, name


def in_a_race() -> tuple[Run, str]:
    run = start(CHILD, node("a"), node("j", "w", "a", join={"at_least": 1, "cancel_rest": True}))
    name = child(run, "w")
    run.complete("a")
    return run, name


def in_a_map() -> tuple[Run, str]:
    run = start({**EACH, "on_failure": "continue"}, node("z", "m"))
    items(run, "m", 2)
    for item in (0, 1):
        run.suspend("m", Wait(kind="child"), item=item, workflow="inner")
    name = run.get("m", item=1).child
    end_child(run, run.get("m", item=0).child, "failed")
    return run, name


def too_late() -> tuple[Run, str]:
    run = start({**CHILD, "total_timeout_seconds": 5, "on_failure": "continue"}, node("z", "w"))
    name = child(run, "w")
    run.pass_time(6)
    return run, name


def discarded() -> tuple[Run, str]:
    run = start({**CHILD, "total_timeout_seconds": 5, "on_failure": "park"}, node("a"))
    name = child(run, "w")
    run.pass_time(6)
    assert run.state_of("w") == "parked"
    assert effects(run, fx.StopChild) == stops(run) == [], "its success may still release the node"
    run.discard("w")
    return run, name


def parked_in_a_run_that_ends() -> tuple[Run, str]:
    run = start({**CHILD, "total_timeout_seconds": 5, "on_failure": "park"}, node("a"))
    name = child(run, "w")
    run.begin("a")
    run.pass_time(6)
    run.tell(c.Cancel)
    return run, name


def stops(run: Run) -> list[fx.StopChild]:
    return [effect for effect in outstanding(run.state) if isinstance(effect, fx.StopChild)]


@pytest.mark.parametrize(
    "make",
    [in_a_loop, in_a_race, in_a_map, too_late, discarded, parked_in_a_run_that_ends],
    ids=lambda make: make.__name__,
)
def test_rule_35_a_child_that_its_node_ended_without_is_stopped(make):
    """Once, and again by whoever takes the run over, until it is known to have ended."""
    run, name = make()
    assert [stop.child for stop in effects(run, fx.StopChild)] == [name]
    assert stops(run) == [fx.StopChild(child=name)]
    before = run.states()
    end_child(run, name, "cancelled", orphaned=True)
    assert stops(run) == []
    assert run.states() == before, "the end of the child changes nothing else"
    end_child(run, name, "cancelled", orphaned=True)
    assert len([event for event in run.events("child.ended") if event.child == name]) == 1
    assert violations(run) == []


def test_rule_35_a_child_that_never_began_is_not_stopped_for_ever():
    run, name = in_a_race()
    end_child(run, name, "cancelled", begun=False)
    assert stops(run) == []
    assert violations(run) == []


def test_rule_35_a_child_that_ended_its_node_is_not_stopped():
    run = start({**CHILD, "on_failure": "continue"}, node("z", "w"))
    end_child(run, child(run, "w"), "failed")
    assert (run.state_of("w"), stops(run)) == ("failed", [])


def test_rule_34_a_rollback_is_heard_from_a_child_that_had_fewer_generations_than_its_parent_counts():
    """A child that completed after its parent had ceased to wait was told as the end of the next generation too."""
    run = start(CHILD, node("f", "w"), on_failure={"compensate": True})
    name = child(run, "w")
    end_child(run, name, "completed", generation=2)
    run.fail("f")
    assert effects(run, fx.StopChild) == [fx.StopChild(child=name, rollback=True)]
    end_child(run, name, "completed", generation=2)
    assert run.status == "compensating"
    end_child(run, name, "rolled_back", generation=2)
    assert run.status == "failed"
    assert violations(run) == []


def test_rule_35_a_run_that_only_waits_is_taken_over_while_a_child_has_to_be_stopped():
    """Its row said that there was nothing to do for it: a stop that was lost was sent again when a timer was due, or never."""
    run = start(CHILD, node("a"), node("j", "w", "a", join={"at_least": 1, "cancel_rest": True}))
    name = child(run, "w")
    run.complete("a")
    run.suspend("j", Wait(kind="timer", until=run.now + 900))
    assert stops(run)
    assert row_of(run.state, 1).busy
    end_child(run, name, "cancelled", orphaned=True)
    assert not row_of(run.state, 1).busy
