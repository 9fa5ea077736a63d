"""Rule 13: what a node is given is the same over all its attempts, whatever arrives after it was scheduled."""

import pytest

from perdure.kernel import commands as c
from perdure.kernel.address import Address
from perdure.kernel.causal_past import evidence, parents
from perdure.model.ir import Reference
from tests.kernel.driver import Run, compiled
from tests.kernel.rules.graphs import AGAIN, DONE, UNDO, again, node, start


def given(run: Run, name: str) -> dict[str, object]:
    return {source: seen.output for source, seen in parents(run.state, run.get(name)).items()}


def try_again(run: Run, name: str) -> None:
    run.tell(c.Lapse, address=Address("run", name, attempt=run.get(name).attempt, generation=run.state.generation))


def test_rule_13_a_given_input_of_a_rerun_brings_no_edge_that_came_after_the_join_had_fired():
    ir = compiled(node("a"), node("b"), node("j", "a", "b", join="any"))
    run = Run(ir, start=False)
    adopted = (c.Adopted(node="b", output="B"),)
    overrides = {"j": {"a": "given"}}
    run.do(c.Start(at=0.0, run_id="run", ir=ir, adopted=adopted, overrides=overrides, origin=("old", "j")))
    assert given(run, "j") == {"b": "B"}
    run.complete("a", "A")
    try_again(run, "j")
    assert (run.get("j").attempt, given(run, "j")) == (2, {"b": "B"})


LATE = (
    node("h"),
    node("leaf", "h"),
    node("x", "h", "leaf", loop=again("h")),
    node("b"),
    node("j", "leaf", "b", join="any"),
)


def test_rule_13_an_exit_that_resolves_after_the_join_had_fired_brings_nothing_though_its_node_ended_before():
    run = start(*LATE)
    run.complete("h", 1, (1,))
    run.complete("leaf", "L", (1,))
    run.complete("b", "B")
    assert given(run, "j") == {"b": "B"}
    run.complete("x", DONE, (1,))
    assert run.get("j").edges[run.state.index("leaf")]
    try_again(run, "j")
    assert given(run, "j") == {"b": "B"}


@pytest.mark.parametrize("later", [AGAIN, DONE])
def test_rule_19_a_loop_that_runs_has_no_last_iteration_to_be_read_from_outside(later):
    """What was read of the iteration under way was gone when the loop had gone on, and the next attempt read something else."""
    run = start(*LATE)
    run.complete("h", 1, (1,))
    run.complete("leaf", "L", (1,))
    run.complete("b", "B")
    before = evidence(run.state, run.get("j"), [Reference("node", "leaf")]).nodes
    run.complete("x", later, (1,))
    assert evidence(run.state, run.get("j"), [Reference("node", "leaf")]).nodes == before == {}


def test_rule_26_what_came_late_the_first_time_counts_when_the_join_is_decided_anew():
    run = start(
        node("a"),
        node("b", compensator=UNDO),
        node("j", "a", "b", join="any"),
        on_failure={"compensate": True},
    )
    run.complete("b", "B")
    assert given(run, "j") == {"b": "B"}
    run.complete("a", "A")
    run.fail("j")
    run.begin("b", undo=True)
    run.complete("b", undo=True)
    assert run.status == "failed"
    run.tell(c.Retry)
    assert given(run, "j") == {"a": "A"}
    run.complete("b", "again")
    try_again(run, "j")
    assert given(run, "j") == {"a": "A"}
