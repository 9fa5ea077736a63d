"""Loops: rules 14 to 16. What closes an iteration: test_loop_exits.py."""

import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.address import Address
from perdure.kernel.causal_past import parents
from perdure.kernel.decide import advance
from perdure.kernel.state import State
from tests.kernel.driver import Run, compiled
from tests.kernel.rules.graphs import AGAIN, DONE, again, node, pick, problems, start
from tests.model.helpers import by_id, ids


def test_rule_14_loops_that_overlap_without_nesting_are_refused():
    found = problems(
        node("a"), node("b", "a"), node("c", "b", loop=again("a")), node("d", "c", loop=again("b")), node("e", "d")
    )
    assert "loops_overlap" in found


def test_rule_14_loops_may_nest_or_be_disjoint():
    nested = problems(node("a"), node("b", "a"), node("c", "b", loop=again("b")), node("d", "c", loop=again("a")))
    disjoint = problems(node("a"), node("b", "a", loop=again("a")), node("c", "b"), node("d", "c", loop=again("c")))
    assert nested == {}
    assert disjoint == {}


def test_rule_14_loop_back_to_must_lead_to_the_looping_node():
    assert "loop_not_dominated" in problems(node("a"), node("z"), node("x", "a", loop=again("z")), node("y", "z"))


def test_rule_14_a_cycle_made_in_any_other_way_says_use_loop():
    found = problems(node("s"), node("a", "s", "b"), node("b", "a"), node("z", "b"))
    assert "use loop" in found["cycle"]
    assert "use loop" in problems(node("a", "a"))["self_dependency"]


def test_rule_14_the_body_is_every_node_on_a_path_and_the_leaves_only_it_reaches():
    ir = compiled(
        node("w"),
        node("h", "w"),
        node("m", "h"),
        node("n", "h"),
        node("leaf", "m"),
        node("leaf2", "leaf"),
        node("x", "m", "n", loop=again("h")),
        node("out", "x"),
        node("both", "leaf", "w"),
    )
    loop = by_id(ir, "x").loop
    assert loop is not None
    assert set(ids(ir, loop.body)) == {"h", "m", "n", "x", "leaf", "leaf2"}


def test_rule_14_a_leaf_of_the_body_runs_in_every_iteration():
    run = start(node("h"), node("leaf", "h"), node("x", "h", loop=again("h")))
    for iteration in (1, 2):
        run.complete("h", scope=(iteration,))
        run.complete("leaf", scope=(iteration,))
        run.complete("x", {"again": iteration == 1}, (iteration,))
    assert run.get("leaf", (2,)).visit == 2
    assert run.status == "completed"


def test_rule_15_the_condition_sees_output_ctx_and_the_iteration_from_one():
    seen = []

    def look(question):
        seen.append(question.evidence)
        return question.evidence.loop.iteration < 2

    loop = {"condition": "output.n < ctx.h.output.limit", "max_iterations": 3, "loop_back_to": "h"}
    run = start(node("h"), node("x", "h", loop=loop), answers={"loop": look})
    run.complete("h", {"limit": 1}, (1,))
    run.complete("x", {"n": 0}, (1,))
    run.complete("h", {"limit": 2}, (2,))
    run.complete("x", {"n": 1}, (2,))
    assert run.status == "completed"
    first, second = seen[0], seen[-1]
    assert (first.output, first.nodes["h"].output, first.loop.iteration) == ({"n": 0}, {"limit": 1}, 1)
    assert (second.output, second.nodes["h"].output, second.loop.iteration) == ({"n": 1}, {"limit": 2}, 2)
    assert first.loop.previous is None
    assert second.loop.previous.output == {"n": 0}


def test_rule_15_loop_parent_is_the_loop_around():
    seen = []

    def look(question):
        loop = question.evidence.loop
        seen.append((question.need.node, loop.iteration, loop.parent.iteration if loop.parent else None))
        return question.evidence.output["again"]

    run = start(node("o"), node("i", "o", loop=again("i")), node("x", "i", loop=again("o")), answers={"loop": look})
    run.complete("o", scope=(1,))
    run.complete("i", AGAIN, (1, 1))
    run.complete("i", DONE, (1, 2))
    run.complete("x", AGAIN, (1,))
    run.complete("o", scope=(2,))
    run.complete("i", DONE, (2, 1))
    assert list(dict.fromkeys(seen)) == [("i", 1, 1), ("i", 2, 1), ("x", 1, None), ("i", 1, 2)]


def test_rule_15_the_condition_is_looked_at_before_the_count():
    run = start(node("x", loop=again("x", max_iterations=1, timeout_path=["late"])), node("late"), node("z", "x"))
    run.complete("x", DONE, (1,))
    assert (run.state_of("z"), run.state_of("late")) == ("queued", "skipped")


def test_rule_15_max_iterations_counts_executions_of_the_body():
    run = start(node("x", loop=again("x", max_iterations=2)))
    run.complete("x", AGAIN, (1,))
    run.complete("x", AGAIN, (2,))
    assert run.status == "failed"
    assert run.state_of("x", (3,)) == "pending"


def test_rule_15_the_count_starts_anew_when_the_enclosing_scope_moves_on():
    run = start(node("o"), node("i", "o", loop=again("i", max_iterations=2)), node("x", "i", loop=again("o")))
    for outer in (1, 2):
        run.complete("o", scope=(outer,))
        run.complete("i", AGAIN, (outer, 1))
        run.complete("i", DONE, (outer, 2))
        run.complete("x", {"again": outer == 1}, (outer,))
    assert run.status == "completed"


def test_rule_15_max_iterations_is_required():
    loop = {"condition": "output.again", "loop_back_to": "a"}
    assert "loop_without_maximum" in problems(node("a", loop=loop))


def test_rule_15_an_endless_loop_must_contain_a_wait():
    loop = {"condition": "output.again", "loop_back_to": "a"}
    wait = {"id": "w", "type": "wait", "config": {"signal": "go"}, "dependencies": ["a"]}
    assert "endless_without_wait" in problems(node("a", loop=loop), endless=True)
    assert problems(node("a"), wait, node("x", "w", loop=loop), endless=True) == {}


def test_rule_15_an_endless_loop_goes_on_without_a_maximum():
    loop = {"condition": "output.again", "loop_back_to": "w"}
    run = start({"id": "w", "type": "wait", "config": {"signal": "go"}}, node("x", "w", loop=loop), endless=True)
    run.replay_each_step = False
    for iteration in range(1, 30):
        run.complete("w", {}, (iteration,))
        run.complete("x", AGAIN, (iteration,))
    assert run.state_of("w", (30,)) == "queued"


@pytest.mark.slow
def test_rule_15_an_endless_run_continues_as_a_new_run_when_its_journal_grows_long():
    loop = {"condition": "output.again", "loop_back_to": "w"}
    ir = compiled({"id": "w", "type": "wait", "config": {"signal": "go"}}, node("x", "w", loop=loop), endless=True)
    state, goes_on = State(), list[fx.ContinueRun]()
    advance(state, c.Start(at=0.0, run_id="run", ir=ir))
    for iteration in range(1, 20_000):
        need = {c.Need("loop", "x", (iteration,)): c.Verdict(value=True)}
        advance(state, c.Complete(at=0.0, address=Address("run", "w", (iteration,))))
        ruling = advance(state, c.Complete(at=0.0, address=Address("run", "x", (iteration,)), output=AGAIN), need)
        assert isinstance(ruling, c.Ruling)
        if iteration == 100:
            advance(state, c.Signal(at=0.0, name="later", payload=7))
        goes_on = [effect for effect in ruling.effects if isinstance(effect, fx.ContinueRun)]
        if goes_on:
            break
    assert state.state == "completed"
    assert state.continued_as == "run~2" == goes_on[0].run_id
    run = Run(ir, start=False, answers={"loop": lambda question: question.evidence.loop.previous.output["again"]})
    run.do(
        c.Start(
            at=0.0, run_id="run~2", ir=ir, adopted=goes_on[0].adopted, signals=goes_on[0].signals, origin=("run", "")
        )
    )
    assert [(name, payload) for _, name, payload in run.state.signals] == [("later", 7)]
    run.complete("w", {}, (1,))
    run.complete("x", {"again": False}, (1,))  # the condition sees the output of the iteration before, in the old run
    assert run.state_of("w", (2,)) == "queued"


def test_rule_16_holds_and_iterations_remain_goes_back():
    run = start(node("h"), node("x", "h", loop=again("h")), node("z", "x"))
    run.complete("h", scope=(1,))
    run.complete("x", AGAIN, (1,))
    assert run.state_of("h", (2,)) == "queued"
    assert run.state_of("z") == "pending"


def test_rule_16_holds_and_none_remain_takes_the_timeout_path():
    run = start(
        node("x", loop=again("x", max_iterations=1, timeout_path=["late"], break_path=["ok"])), node("late"), node("ok")
    )
    run.complete("x", AGAIN, (1,))
    assert (run.state_of("late"), run.state_of("ok")) == ("queued", "skipped")


def test_rule_16_with_a_timeout_path_the_unnamed_dependents_are_the_break_path():
    run = start(node("x", loop=again("x", max_iterations=1, timeout_path=["late"])), node("late"), node("z", "x"))
    run.complete("x", AGAIN, (1,))
    assert (run.state_of("late"), run.state_of("z")) == ("queued", "skipped")


def test_rule_16_beside_a_break_path_unnamed_dependents_are_taken_on_exhaustion_too():
    run = start(
        node("x", loop=again("x", max_iterations=1, timeout_path=["late"], break_path=["ok"])),
        node("late"),
        node("ok"),
        node("z", "x"),
    )
    run.complete("x", AGAIN, (1,))
    assert (run.state_of("late"), run.state_of("ok"), run.state_of("z")) == ("queued", "skipped", "queued")


def test_rule_16_holds_and_none_remain_without_timeout_path_is_loop_exhausted():
    run = start(node("x", loop=again("x", max_iterations=1)), node("z", "x"))
    run.complete("x", AGAIN, (1,))
    assert run.status == "failed"
    assert run.state.error.code == "loop_exhausted"


def test_rule_16_loop_exhausted_is_a_failure_the_node_may_handle():
    run = start(
        node("x", loop=again("x", max_iterations=1), on_failure={"path": ["repair"]}), node("repair"), node("z", "x")
    )
    run.complete("x", AGAIN, (1,))
    assert (run.state_of("repair"), run.state_of("z")) == ("queued", "skipped")
    assert run.get("x", (1,)).output["error"]["code"] == "loop_exhausted"


def test_rule_16_an_empty_timeout_path_is_a_quiet_end():
    run = start(node("x", loop=again("x", max_iterations=1, timeout_path=[])), node("z", "x"))
    run.complete("x", AGAIN, (1,))
    assert run.state_of("z") == "queued"
    run.complete("z")
    assert run.status == "completed"


def test_rule_16_an_empty_timeout_path_leaves_the_break_path_alone():
    run = start(node("x", loop=again("x", max_iterations=1, timeout_path=[], break_path=["ok"])), node("ok"))
    run.complete("x", AGAIN, (1,))
    assert run.state_of("ok") == "skipped"
    assert run.status == "completed"


def test_rule_16_branch_is_not_evaluated_on_exhaustion():
    run = start(
        node("x", loop=again("x", max_iterations=1, timeout_path=["late"]), branch=pick(["b"])),
        node("late"),
        node("b"),
        answers={"branch": lambda question: pytest.fail("the branch was asked")},
    )
    run.complete("x", AGAIN, (1,))
    assert (run.state_of("late"), run.state_of("b")) == ("queued", "skipped")


def test_rule_16_does_not_hold_takes_the_break_path():
    run = start(node("x", loop=again("x", break_path=["ok"])), node("ok"), node("z", "x"))
    run.complete("x", DONE, (1,))
    assert (run.state_of("ok"), run.state_of("z")) == ("queued", "queued")


def test_rule_16_does_not_hold_without_break_path_takes_the_unnamed_dependents():
    run = start(node("x", loop=again("x")), node("y", "x"), node("z", "x"))
    run.complete("x", DONE, (1,))
    assert (run.state_of("y"), run.state_of("z")) == ("queued", "queued")


def test_rule_16_does_not_hold_takes_what_the_branch_picks_besides():
    run = start(node("x", loop=again("x"), branch=pick(["b"], ["d"])), node("b"), node("d"), node("z", "x"))
    run.complete("x", {"again": False, "rule": 1}, (1,))
    assert (run.state_of("b"), run.state_of("d"), run.state_of("z")) == ("skipped", "queued", "queued")
    run = start(
        node("x", loop=again("x", break_path=["ok"]), branch=pick(["b"], ["d"])), node("b"), node("d"), node("ok")
    )
    run.complete("x", {"again": False, "rule": 0}, (1,))
    assert (run.state_of("b"), run.state_of("d"), run.state_of("ok")) == ("queued", "skipped", "queued")


def test_rule_16_the_branch_is_not_asked_while_the_loop_goes_back():
    run = start(
        node("x", loop=again("x"), branch=pick(["b"])),
        node("b"),
        answers={"branch": lambda question: pytest.fail("the branch was asked")},
    )
    run.complete("x", AGAIN, (1,))
    assert run.state_of("x", (2,)) == "queued"
    assert run.state_of("b") == "pending"


def test_rule_16_break_path_and_branch_get_a_compile_warning():
    graph = (node("x", loop=again("x", break_path=["ok"]), branch=pick(["b"])), node("b"), node("ok"))
    assert "break_and_branch" in problems(*graph)
    assert compiled(*graph).nodes


def test_rule_16_loop_exhausted_may_be_continued_or_parked():
    run = start(node("x", loop=again("x", max_iterations=1), on_failure="continue"), node("z", "x"))
    run.complete("x", AGAIN, (1,))
    assert parents(run.state, run.get("z"))["x"].output["error"]["code"] == "loop_exhausted"
    run = start(node("x", loop=again("x", max_iterations=1), on_failure="park"), node("z", "x"))
    run.complete("x", AGAIN, (1,))
    assert run.state_of("x", (1,)) == "parked"
    run.requeue("x", (1,))
    run.complete("x", DONE, (1,))
    assert run.state_of("z") == "queued"


def test_rule_16_delay_is_waited_between_iterations():
    run = start(node("x", loop=again("x", delay_ms=5000)))
    run.complete("x", AGAIN, (1,))
    assert run.state_of("x", (2,)) == "waiting"
    run.pass_time(5)
    assert run.state_of("x", (2,)) == "queued"
