"""Routing: rules 20 to 24."""

from typing import Any

import msgspec
import pytest

from perdure.kernel import commands as c
from perdure.kernel.address import Address
from perdure.kernel.causal_past import parents
from perdure.kernel.decide import advance, decide
from perdure.kernel.values import Error
from tests.kernel.driver import fold
from tests.kernel.rules.graphs import AGAIN, DONE, again, human, node, noting, pick, problems, start

BROKEN = Error("no_such_key", "output has no rule")


def test_rule_20_outcome_and_route_are_two_facts_in_one_append():
    run = start(node("a", branch=pick(["b"], ["d"])), node("b"), node("d"))
    ruling = run.complete("a", {"rule": 1})
    completed = ruling.events[0]
    assert (completed.type, completed.output) == ("node.completed", {"rule": 1})
    assert (completed.route.rule, completed.route.taken) == ("branch[1]", ("d",))
    assert [event.type for event in ruling.events] == ["node.completed", "node.skipped", "node.scheduled"]


def test_rule_20_a_condition_that_cannot_be_evaluated_fails_the_run_and_keeps_the_outcome():
    run = start(node("a", branch=pick(["b"])), node("b"), answers={"branch": BROKEN})
    run.complete("a", "done")
    assert run.status == "failed"
    assert run.state.error.code == "routing_failed"
    assert run.state_of("a") == "completed"
    assert run.get("a").output == "done"
    assert run.state_of("b") == "pending"


@pytest.mark.parametrize("verdict", [None, 1, "yes", [], {}])
def test_rule_20_a_condition_that_is_not_a_bool_is_routing_failed(verdict):
    run = start(node("a", branch=pick(["b"])), node("b"), answers={"branch": lambda question: verdict})
    run.complete("a", {})
    assert run.state.error.code == "routing_failed"


def test_rule_20_a_loop_condition_is_a_condition_too():
    run = start(node("x", loop=again("x")), node("z", "x"), answers={"loop": BROKEN})
    run.complete("x", {}, (1,))
    assert run.state.error.code == "routing_failed"
    assert run.state_of("x", (1,)) == "completed"


@pytest.mark.parametrize("policy", ["continue", {"path": ["repair"]}])
def test_rule_20_other_policies_do_not_handle_it(policy):
    run = start(
        node("a", branch=pick(["b"]), on_failure=policy), node("b"), node("repair", "a"), answers={"branch": BROKEN}
    )
    run.complete("a", {})
    assert run.state.error.code == "routing_failed"
    assert run.state_of("a") == "completed"


def test_rule_20_with_park_it_parks():
    run = start(node("a", branch=pick(["b"]), on_failure="park"), node("b"), answers={"branch": BROKEN})
    run.complete("a", "done")
    assert run.status == "running"
    assert run.state_of("a") == "parked"
    assert run.get("a").error.code == "routing_failed"
    assert run.get("a").output == "done"


def test_rule_20_requeueing_it_evaluates_again_and_executes_nothing():
    run = start(node("a", branch=pick(["b"]), on_failure="park"), node("b"), answers={"branch": BROKEN})
    run.complete("a", "done")
    run.requeue("a")
    assert run.state_of("a") == "parked"
    run.answers["branch"] = True
    run.requeue("a")
    assert run.dispatched() == {"b"}
    assert run.state_of("a") == "completed"
    assert run.get("a").attempt == 1
    assert run.get("a").output == "done"


def test_rule_20_retrying_the_run_evaluates_again_and_executes_nothing():
    run = start(node("a", branch=pick(["b"])), node("b"), answers={"branch": BROKEN})
    run.complete("a", "done")
    run.tell(c.Retry)
    assert run.status == "failed"
    run.answers["branch"] = True
    run.tell(c.Retry)
    assert run.dispatched() == {"b"}
    assert run.get("a").attempt == 1
    run.complete("b")
    assert run.status == "completed"


def test_rule_20_retrying_a_loop_whose_condition_failed_goes_on_with_the_loop():
    run = start(node("x", loop=again("x")), node("z", "x"), answers={"loop": BROKEN})
    run.complete("x", AGAIN, (1,))
    run.answers["loop"] = True
    run.tell(c.Retry)
    assert run.dispatched() == {"x[2]"}
    assert run.get("x", (1,)).attempt == 1


def test_rule_20_a_when_that_cannot_be_evaluated_is_routing_failed():
    run = start(node("a"), node("b", "a", when="inputs.x"), answers={"when": BROKEN})
    run.complete("a")
    assert run.state.error.code == "routing_failed"
    assert run.get("b").attempt == 0


def test_rule_20_a_when_that_cannot_be_evaluated_parks_where_that_is_asked_for():
    run = start(node("a"), node("b", "a", when="inputs.x", on_failure="park"), answers={"when": BROKEN})
    run.complete("a")
    assert run.state_of("b") == "parked"
    run.answers["when"] = True
    run.requeue("b")
    assert run.state_of("b") == "queued"


def test_rule_20_a_requeued_when_is_asked_again():
    run = start(node("a"), node("b", "a", when="inputs.x", on_failure="park"), answers={"when": BROKEN})
    run.complete("a")
    run.answers["when"] = False
    run.requeue("b")
    assert run.state_of("b") == "skipped"
    assert run.status == "completed"


def test_rule_20_trouble_of_the_evaluator_changes_nothing_and_is_asked_again():
    run = start(node("a", branch=pick(["b"])), node("b"))
    command = c.Complete(at=run.now, address=Address("run", "a"), output={"rule": 0})
    first = advance(run.state, command)
    second = advance(run.state, command)
    assert first == second
    assert isinstance(first, c.Needs)
    assert run.state_of("a") == "queued"


def test_rule_21_when_sees_inputs_and_the_taken_parents_and_no_output():
    seen: list[Any] = []
    run = start(
        node("a", branch=pick(["b"], ["d"])),
        node("b"),
        node("d"),
        node("j", "b", "d", when="inputs.city != '' && ctx.b.output == 1"),
        inputs={"city": "Ulm"},
        answers={"when": noting(seen, True)},
    )
    run.complete("a", {"rule": 0})
    run.complete("b", 1)
    evidence = seen[0].evidence
    assert evidence.output is None
    assert {name: value.output for name, value in evidence.nodes.items()} == {"b": 1}
    assert [r.root for r in seen[0].condition.references] == ["inputs", "node"]
    assert run.state.inputs == {"city": "Ulm"}
    assert set(parents(run.state, run.get("j"))) == {"b"}


def test_rule_21_when_may_not_read_output():
    assert "bad_reference" in problems(node("a", when="output.x == 1"))


def test_rule_21_when_is_asked_after_the_join_and_false_skips():
    run = start(node("a"), node("b", "a", when="inputs.x"), node("d", "b"), answers={"when": False})
    assert run.state_of("b") == "pending"
    run.complete("a")
    assert (run.state_of("b"), run.state_of("d")) == ("skipped", "skipped")
    assert run.status == "completed"


def test_rule_21_when_is_asked_once_not_at_every_attempt():
    asked: list[Any] = []
    run = start(node("a", when="inputs.x"), answers={"when": noting(asked, True)})
    asked.clear()
    run.fail("a", retryable=True)
    run.pass_time(60)
    assert run.get("a").attempt == 2
    assert asked == []


def test_rule_21_all_entry_nodes_skipped_the_run_completes_at_once():
    run = start(node("a", when="inputs.x"), node("b", when="inputs.y"), node("j", "a", "b"), answers={"when": False})
    assert run.status == "completed"
    assert run.types() == ["run.created", "nodes.skipped", "node.skipped", "run.completed"]
    assert run.state.outputs == {"j": None}


AGENT = {"type": "agent_driven", "available_next_nodes": ["b", "d"], "default": ["e"]}


def test_rule_22_the_agent_chooses_nodes_and_says_why():
    run = start(node("a", branch=AGENT), node("b"), node("d"), node("e"))
    run.complete("a", "thought", choice=("d",), reasoning="d fits")
    assert run.states() == {"a": "completed", "b": "skipped", "d": "queued", "e": "skipped"}
    route = run.events("node.completed")[0].route
    assert (route.rule, route.taken, route.reasoning) == ("branch.agent", ("d",), "d fits")


def test_rule_22_the_agent_may_choose_several():
    run = start(node("a", branch=AGENT), node("b"), node("d"), node("e"), node("z", "a"))
    run.complete("a", choice=("b", "d"))
    assert run.states() == {"a": "completed", "b": "queued", "d": "queued", "e": "skipped", "z": "queued"}


@pytest.mark.parametrize("choice", [(), None])
def test_rule_22_an_empty_choice_means_default(choice):
    run = start(node("a", branch=AGENT), node("b"), node("d"), node("e"))
    run.complete("a", choice=choice)
    assert run.states() == {"a": "completed", "b": "skipped", "d": "skipped", "e": "queued"}


@pytest.mark.parametrize("choice", [("e",), ("b", "zz"), ("a",)])
def test_rule_22_a_node_outside_the_available_ones_fails_the_attempt(choice):
    run = start(node("a", branch=AGENT), node("b"), node("d"), node("e"))
    run.complete("a", choice=choice)
    assert run.state_of("a") == "retrying"
    assert run.get("a").error.code == "route_not_allowed"
    run.pass_time(60)
    run.complete("a", choice=("b",))
    assert run.state_of("b") == "queued"


def test_rule_22_an_agent_that_never_chooses_well_fails_for_good():
    run = start(node("a", branch=AGENT, retry={"max_attempts": 1}), node("b"), node("d"), node("e"))
    run.complete("a", choice=("zz",))
    assert run.status == "failed"
    assert run.state.error.code == "route_not_allowed"


def test_rule_88_an_agent_chooses_no_more_nodes_than_its_node_may_take():
    run = start(node("a", branch=AGENT, limits={"max_fanout": 1}), node("b"), node("d"), node("e"))
    run.complete("a", choice=("b", "d"))
    assert (run.status, run.state.error.code) == ("failed", "limit_exceeded")
    assert run.events("limit.reached")[0].maximum == 1


def test_rule_22_a_choice_kept_while_failing_is_routed_by_the_next_generation():
    run = start(node("a", branch=AGENT), node("b"), node("d"), node("e"), node("bad"))
    run.begin("a")
    run.fail("bad")
    run.complete("a", choice=("d",))
    run.tell(c.Retry)
    assert run.dispatched() == {"bad", "d"}


@pytest.mark.parametrize("said", ["reject", "maybe"])
def test_rule_20_no_output_is_read_as_a_decision(said):
    """A task's data decides nothing, whatever it looks like."""
    run = start(node("a"), node("b", "a"), node("bad"))
    run.begin("a")
    run.fail("bad")
    run.complete("a", {"decision": said})
    assert (run.status, run.get("a").rejected) == ("failed", False)
    run.tell(c.Retry)
    assert (run.status, run.dispatched()) == ("running", {"bad", "b"})


def test_rule_20_a_routing_failure_of_data_that_looks_like_a_rejection_is_asked_again():
    run = start(
        node("a", branch=pick(["b"]), on_failure="park"), node("b"), answers={"branch": Error("bad", "cannot be read")}
    )
    run.complete("a", {"decision": "reject"})
    assert run.state_of("a") == "parked"
    run.answers["branch"] = True
    run.requeue("a")
    assert (run.state_of("a"), run.dispatched()) == ("completed", {"b"})


def test_rule_20_a_handler_that_calls_its_error_routing_failed_is_executed_again():
    """The code of a failure is the handler's to choose; that an outcome was accepted is a fact of its own (R7)."""
    run = start(node("a", on_failure="park"), node("b", "a"))
    run.fail("a", "routing_failed")
    run.requeue("a")
    assert (run.state_of("a"), run.dispatched()) == ("queued", {"a"})


@pytest.mark.parametrize("code", ["rejected", "loop_exhausted", "error"])
def test_rule_20_the_code_of_a_failure_chooses_no_way(code):
    run = start(
        node("a", on_failure="continue", branch=pick(["b"], default=["d"])),
        node("b"),
        node("d"),
        answers={"branch": True},
    )
    run.fail("a", code)
    assert run.states() == {"a": "failed", "b": "queued", "d": "skipped"}


def test_rule_23_a_rejection_is_a_fact_beside_the_output():
    run = start(human("ask", rejection_path=["no"]), node("no"), node("yes", "ask"), human("fine"))
    run.vote(run.ask("ask"), "reject")
    run.vote(run.ask("fine"), "approve")
    assert [event.rejected for event in run.events("node.completed")] == [True, False]


def test_rule_23_a_rejection_kept_while_failing_is_one_for_the_next_generation():
    for path in ({"rejection_path": ["no"]}, {}):
        run = start(
            human("ask", **path), node("yes", "ask"), node("bad"), node("slow"), *([node("no")] if path else [])
        )
        approval = run.ask("ask")
        run.begin("slow")
        run.fail("bad")
        run.vote(approval, "reject", by="bob")
        run.complete("slow")
        run.tell(c.Retry)
        if path:
            assert (run.state_of("no"), run.state_of("yes")) == ("queued", "skipped")
        else:
            assert (run.state.error.code, run.state.error.message) == ("rejected", "ask was rejected by bob")


def test_rule_23_a_journal_of_before_the_fact_was_written_still_has_the_rejection():
    run = start(human("ask", rejection_path=["no"]), node("no"), node("yes", "ask"), node("bad"), node("slow"))
    approval = run.ask("ask")
    run.begin("slow")
    run.fail("bad")
    run.vote(approval, "reject")
    run.complete("slow")
    old = [msgspec.structs.replace(one, rejected=False) if one.type == "node.completed" else one for one in run.journal]
    run.journal, run.state = old, fold(old, run.state.library)
    run.tell(c.Retry)
    assert (run.state_of("no"), run.state_of("yes")) == ("queued", "skipped")


def test_rule_23_a_rejection_without_a_path_fails_with_rejected():
    run = start(human("ask"), node("z", "ask"))
    run.vote(run.ask("ask"), "reject", by="bob")
    assert run.status == "failed"
    assert run.state.error.code == "rejected"
    assert run.state_of("z") == "pending"


def test_rule_23_a_rejection_takes_the_rejection_path():
    run = start(human("ask", rejection_path=["no"]), node("no"), node("yes", "ask"))
    run.vote(run.ask("ask"), "reject")
    assert run.states() == {"ask": "completed", "no": "queued", "yes": "skipped"}


def test_rule_23_an_empty_rejection_path_is_a_quiet_end():
    run = start(human("ask", rejection_path=[]), node("yes", "ask"))
    run.vote(run.ask("ask"), "reject")
    assert run.states() == {"ask": "completed", "yes": "skipped"}
    assert run.status == "completed"


def test_rule_23_with_a_branch_the_branch_handles_the_rejection():
    run = start(
        human("ask", branch=pick(["no"], default=["yes"])),
        node("no"),
        node("yes"),
        answers={"branch": lambda question: question.evidence.output["decision"] == "reject"},
    )
    run.vote(run.ask("ask"), "reject")
    assert run.states() == {"ask": "completed", "no": "queued", "yes": "skipped"}


def test_rule_23_rejected_is_a_failure_the_node_may_handle():
    run = start(human("ask", on_failure={"path": ["repair"]}), node("repair"), node("yes", "ask"))
    run.vote(run.ask("ask"), "reject")
    assert run.states() == {"ask": "failed", "repair": "queued", "yes": "skipped"}


def test_rule_23_in_a_loop_every_activation_asks_anew_and_the_condition_sees_the_decision():
    decisions = []

    def look(question):
        decisions.append(question.evidence.output["decision"])
        return question.evidence.output["decision"] == "reject"

    run = start(node("draft"), human("ask", "draft", loop=again("draft")), node("z", "ask"), answers={"loop": look})
    run.complete("draft", "one", (1,))
    first = run.ask("ask", (1,))
    run.vote(first, "reject", comments="no")
    assert run.state_of("draft", (2,)) == "queued"
    run.complete("draft", "two", (2,))
    second = run.ask("ask", (2,))
    assert first != second
    run.vote(second, "approve")
    assert run.state_of("z") == "queued"
    assert set(decisions) == {"reject", "approve"}


def test_rule_23_a_rejection_that_does_not_go_back_leaves_by_the_rejection_path():
    run = start(
        human("ask", loop=again("ask"), rejection_path=["no"]), node("no"), node("yes", "ask"), answers={"loop": False}
    )
    run.vote(run.ask("ask", (1,)), "reject")
    assert (run.state_of("no"), run.state_of("yes")) == ("queued", "skipped")


def test_rule_23_a_rejection_that_does_not_go_back_and_has_no_path_fails():
    run = start(human("ask", loop=again("ask")), node("yes", "ask"), answers={"loop": False})
    run.vote(run.ask("ask", (1,)), "reject")
    assert run.state.error.code == "rejected"


def test_rule_23_the_output_carries_what_the_approver_saw_merged_with_the_decision():
    run = start(human("ask"), node("z", "ask"))
    approval = run.ask("ask", shown={"amount": 12, "decision": "shown, not decided"})
    run.vote(approval, "approve", by="ann", comments="fine", data={"limit": 20})
    assert run.get("ask").output == {
        "amount": 12,
        "decision": "approve",
        "decided_by": "ann",
        "comments": "fine",
        "data": {"limit": 20},
    }


def test_rule_24_the_kernel_hands_numbers_of_cross_node_expressions_over_as_they_are():
    """How they are compared is the evaluator's; nothing on the way there may turn an integer into a double or back."""
    seen: list[Any] = []
    compare = {"type": "cross_node_comparison", "expression": "current.n / ctx.a.output.n > 1"}
    run = start(
        node("a"),
        node(
            "b",
            "a",
            branch={"type": "conditional", "rules": [{"condition": compare, "next_nodes": ["d"]}], "default": []},
        ),
        node("d"),
        answers={"branch": noting(seen, True)},
    )
    run.complete("a", {"n": 2})
    run.complete("b", {"n": 3.0})
    question = seen[0]
    assert question.condition.kind == "cross_node_comparison"
    assert question.condition.spec["expression"] == compare["expression"]
    assert repr((question.evidence.output["n"], question.evidence.nodes["a"].output["n"])) == "(3.0, 2)"


def test_rule_24_plain_cel_is_another_kind_of_condition():
    seen: list[Any] = []
    run = start(node("a", branch=pick(["b"])), node("b"), answers={"branch": noting(seen, False)})
    question = decide(run.state, c.Complete(at=run.now, address=Address("run", "a"), output=DONE))
    assert isinstance(question, c.Needs)
    condition = question.questions[0].condition
    assert condition is not None
    assert condition.kind == "cel"
