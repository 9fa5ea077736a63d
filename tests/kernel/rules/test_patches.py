"""Waits, children, maps, signals: rules 39 and 40 (patch and rerun)."""

import pytest

from perdure.invariants import Checker
from perdure.kernel import commands as c
from perdure.kernel.address import Address
from perdure.kernel.causal_past import evidence, parents
from perdure.kernel.segments import BlobRef
from perdure.model.ir import Reference
from tests.kernel.driver import Run, compiled
from tests.kernel.rules.graphs import AGAIN, ANSWERS, DONE, UNDO, again, human, node, pick, start, violations


def patch(run: Run, *nodes, **workflow):
    return run.tell(c.Patch, ir=compiled(*nodes, **workflow), by="ann", reason="better")


def test_rule_39_a_patch_is_an_event():
    run = start(node("a"))
    patch(run, node("a"), node("b", "a"))
    event = run.events("run.patched")[0]
    assert (event.ir, event.by, event.reason) == (run.state.ir_hashes[-1], "ann", "better")
    run.complete("a")
    assert run.state_of("b") == "queued"


def test_rule_39_the_same_definition_is_no_patch():
    run = start(node("a"))
    patch(run, node("a"))
    assert run.types() == ["run.created", "node.scheduled"]


def test_rule_39_config_retry_and_compensator_are_pinned_when_a_node_is_activated():
    run = start(node("a"), node("b", "a"))
    other = {"config": {"function": "m:new"}, "retry": {"max_attempts": 1}, "compensator": UNDO}
    patch(run, node("a", **other), node("b", "a", **other))
    a = run.state.pinned(run.get("a"))
    assert (a.config, a.retry.max_attempts, a.compensator) == ({"function": "m:f"}, 3, None)
    run.fail("a", retryable=True)
    assert run.state_of("a") == "retrying"
    run.pass_time(60)
    run.complete("a")
    b = run.state.pinned(run.get("b"))
    assert b.config == {"function": "m:new"}
    assert (b.retry.max_attempts, b.compensator is None) == (1, False)
    assert run.state.undoable == []


def test_rule_39_routing_uses_the_ir_current_at_the_commit():
    run = start(node("a", branch=pick(["b"])), node("b"))
    run.begin("a")
    patch(run, node("a", branch=pick(["d"])), node("b", "a"), node("d"))
    run.complete("a", {"rule": 0})
    assert run.states() == {"a": "completed", "b": "queued", "d": "queued"}


def test_rule_39_an_agent_may_add_nodes_and_route_to_them_at_once():
    choose = {"type": "agent_driven", "available_next_nodes": ["b"]}
    run = start(node("a", branch=choose), node("b"))
    run.begin("a")
    patch(run, node("a", branch={**choose, "available_next_nodes": ["b", "new"]}), node("b"), node("new"))
    run.complete("a", choice=("new",))
    assert run.states() == {"a": "completed", "b": "skipped", "new": "queued"}


def test_rule_39_new_edges_from_nodes_that_have_ended_resolve_in_the_patch_event():
    run = start(node("a", branch=pick(["s"])), node("s"), node("b"), node("f", on_failure="continue"))
    run.complete("a", {})
    run.fail("f")
    ruling = patch(
        run,
        node("a", branch=pick(["s"])),
        node("s"),
        node("b"),
        node("f", on_failure="continue"),
        node("after_a", "a"),
        node("after_s", "s"),
        node("after_b", "b"),
        node("after_f", "f"),
    )
    assert ruling.events[0].type == "run.patched"
    states = run.states()
    assert (states["after_a"], states["after_s"], states["after_b"], states["after_f"]) == (
        "queued",
        "skipped",
        "pending",
        "queued",
    )


def test_rule_39_new_edges_follow_the_way_the_ended_node_went():
    """An error output continues to all that no routing names; a rejection goes its own path only."""
    graph = (
        node("f", on_failure="continue", branch=pick(["g"])),
        node("g"),
        human("ask", rejection_path=["no"]),
        node("no"),
        node("p", on_failure="park"),
        node("q", on_failure={"path": ["fix"]}),
        node("fix"),
    )
    run = start(*graph, answers={"branch": False})
    run.fail("f")
    run.vote(run.ask("ask"), "reject")
    run.fail("p")
    run.discard("p", "continue")
    run.fail("q")
    patch(run, *graph, *(node(f"after_{name}", name) for name in ("f", "ask", "p", "q")))
    states = run.states()
    assert states["after_f"] == "queued"
    assert states["after_ask"] == "skipped"
    assert states["after_p"] == "queued"
    assert states["after_q"] == "skipped"


def test_rule_39_a_new_node_without_dependencies_starts_at_once():
    run = start(node("a"))
    patch(run, node("a"), node("b"))
    assert run.dispatched() == {"b"}


def test_rule_39_a_pending_join_may_gain_and_lose_edges():
    run = start(node("a"), node("b"), node("j", "a", "b"))
    run.complete("a")
    patch(run, node("a"), node("b"), node("j", "a"))
    assert run.state_of("j") == "queued"
    run = start(node("a"), node("b"), node("j", "a"))
    patch(run, node("a"), node("b"), node("j", "a", "b"))
    run.complete("a")
    assert run.state_of("j") == "pending"


def test_rule_39_changes_inside_a_loop_body_apply_from_the_next_iteration():
    run = start(node("h"), node("m", "h"), node("x", "m", loop=again("h")))
    run.complete("h", scope=(1,))
    other = {"config": {"function": "m:new"}}
    patch(run, node("h"), node("m", "h"), node("n", "m", **other), node("x", "n", loop=again("h"), **other))
    run.complete("m", scope=(1,))
    assert run.state_of("n", (1,)) == "pending"
    assert run.state_of("x", (1,)) == "queued"
    assert run.state.pinned(run.get("x", (1,))).config == {"function": "m:f"}
    run.complete("x", AGAIN, (1,))
    run.complete("h", scope=(2,))
    run.complete("m", scope=(2,))
    assert run.state_of("n", (2,)) == "queued"
    run.complete("n", scope=(2,))
    assert run.state.pinned(run.get("x", (2,))).config == {"function": "m:new"}
    run.complete("x", DONE, (2,))
    assert run.status == "completed"


def test_rule_39_a_new_exit_of_an_open_loop_is_taken_when_the_loop_is_left():
    graph = (
        node("h"),
        node("m", "h"),
        node("x", "m", loop=again("h", timeout_path=["late"])),
        node("z", "x"),
        node("late"),
    )
    for output, state in ((DONE, "queued"), (AGAIN, "skipped")):
        run = start(*graph)
        for iteration in (1, 2):
            run.complete("h", scope=(iteration,))
            run.complete("m", scope=(iteration,))
            run.complete("x", AGAIN, (iteration,))
        run.complete("h", scope=(3,))
        patch(run, *graph, node("new", "x"), node("other", "m", "z"))
        run.complete("m", scope=(3,))
        run.complete("x", output, (3,))
        assert (run.state_of("z"), run.state_of("new")) == (state, state)
        assert run.get("other").taken == 1


def test_rule_39_what_has_been_activated_cannot_be_removed():
    run = start(node("a"), node("b"))
    patch(run, node("b"))
    assert run.refused.code == "patch_refused"
    assert "'a'" in run.refused.message


def test_rule_39_a_token_keeps_its_place():
    run = start(node("a"), node("b"), node("j", "a", "b"))
    run.complete("a")
    patch(run, node("a"), node("b"), node("j", "b"))
    assert run.refused.code == "patch_refused"


def test_rule_39_an_approval_that_was_unavoidable_still_is():
    run = start(node("a"), human("ask", "a"), node("pay", "ask"))
    patch(run, node("a"), human("ask", "a"), node("pay", "a"))
    assert run.refused.code == "patch_refused"
    patch(run, node("a"), node("pay", "a"))
    assert run.refused.code == "patch_refused"


def test_rule_39_only_a_live_run_can_be_patched():
    run = start(node("a"))
    run.complete("a")
    patch(run, node("a"), node("b", "a"))
    assert run.refused.code == "not_running"


def rerun(run: Run, *adopted: str, frm: str, inputs=None) -> Run:
    """A new run that begins with what these nodes of the old one gave."""
    outcomes = []
    for name in adopted:
        old = next(a for a in reversed(run.state.activations.values()) if run.state.name(a.node) == name)
        outcomes.append(c.Adopted(node=name, output=old.output, taken=old.route.taken if old.route else None))
    return Run(run.ir, answers=ANSWERS, inputs=inputs, adopted=tuple(outcomes), origin=("run", frm))


def test_rule_40_rerun_from_a_node_keeps_what_came_before_it():
    run = start(node("a"), node("b", "a"), node("d", "b"))
    for name in "abd":
        run.complete(name, name.upper())
    again_from_b = rerun(run, "a", frm="b")
    assert again_from_b.state.origin == ("run", "b")
    assert again_from_b.dispatched() == {"b"}
    assert again_from_b.events("node.completed")[0].adopted
    assert parents(again_from_b.state, again_from_b.get("b"))["a"].output == "A"
    again_from_b.complete("b", "other")
    again_from_b.complete("d")
    assert again_from_b.status == "completed"


def test_rule_40_rerun_keeps_the_routes_that_led_there():
    run = start(node("a", branch=pick(["b"], ["d"])), node("b"), node("d"), node("j", "b", "d"))
    run.complete("a", {"rule": 1})
    run.complete("d", "D")
    run.complete("j")
    second = rerun(run, "a", "d", frm="j")
    assert second.dispatched() == {"j"}
    assert second.states() == {"a": "completed", "b": "skipped", "d": "completed", "j": "queued"}


def test_rule_40_what_does_not_lead_to_the_node_runs_again_too():
    run = start(node("a"), node("b", "a"), node("side"))
    run.complete("a", 1)
    second = rerun(run, "a", frm="b")
    assert second.dispatched() == {"b", "side"}


def test_rule_40_rerun_behind_a_loop_sees_its_last_iteration():
    run = start(node("h"), node("x", "h", loop=again("h")), node("z", "x"))
    run.complete("h", 1, (1,))
    run.complete("x", {**AGAIN, "n": 1}, (1,))
    run.complete("h", 2, (2,))
    run.complete("x", {**DONE, "n": 2}, (2,))
    second = rerun(run, "h", "x", frm="z")
    assert second.dispatched() == {"z"}
    assert parents(second.state, second.get("z"))["x"].output["n"] == 2
    seen = evidence(second.state, second.get("z"), (Reference("node", "h"),)).nodes
    assert seen["h"].output == 2
    second.complete("z")
    assert second.status == "completed"


def test_rule_40_changed_inputs_mean_a_run_from_the_start():
    run = start(node("a"), node("b", "a"), inputs={"n": 1})
    second = Run(run.ir, answers=ANSWERS, inputs={"n": 2}, origin=("run", ""))
    assert second.state.inputs == {"n": 2}
    assert second.dispatched() == {"a"}
    assert second.state.origin == ("run", "")


def test_rule_40_rerun_behind_nested_loops():
    graph = (
        node("o"),
        node("i", "o"),
        node("y", "i", loop=again("i")),
        node("x", "y", loop=again("o")),
        node("z", "x"),
    )
    run = start(*graph)
    run.complete("o", scope=(1,))
    run.complete("i", scope=(1, 1))
    run.complete("y", {**DONE, "n": 5}, (1, 1))
    run.complete("x", DONE, (1,))
    second = rerun(run, "o", "i", "y", "x", frm="z")
    assert second.dispatched() == {"z"}
    assert [event.node for event in second.events("loop.ended")] == ["y", "x"]
    seen = evidence(second.state, second.get("z"), (Reference("node", "y"),)).nodes
    assert seen["y"].output["n"] == 5
    second.complete("z")
    assert second.status == "completed"


def test_rule_40_a_rerun_overrides_the_inputs_of_its_node_only():
    ir = compiled(node("a"), node("b", "a"), node("z", "a", "b"))
    run = Run(ir, start=False)
    adopted = (c.Adopted(node="a", output={"n": 1}),)
    start = c.Start(at=0.0, run_id="r2", ir=ir, adopted=adopted, overrides={"b": {"a": {"n": 9}}}, origin=("run", "b"))
    run.do(start)
    assert {name: seen.output for name, seen in parents(run.state, run.get("b")).items()} == {"a": {"n": 9}}
    run.complete("b", {"m": 2})
    assert {name: seen.output for name, seen in parents(run.state, run.get("z")).items()} == {
        "a": {"n": 1},
        "b": {"m": 2},
    }


def test_rule_39_a_refused_patch_gives_every_reason():
    run = start(node("a"), node("b"), human("ok", "a"), node("pay", "ok"))
    run.complete("b")
    patch(run, node("pay"), name="other")
    assert run.refused.code == "patch_refused"
    for reason in (
        "the run is of workflow 'test', the patch of 'other'",
        "node 'a' has been activated and cannot be removed",
        "node 'b' has been activated and cannot be removed",
        "the approval 'ok' was unavoidable and would no longer be",
        "'pay' runs only after the approval 'ok'; it would run without it",
    ):
        assert reason in run.refused.message


def test_rule_39_a_patch_that_lowers_the_hops_does_not_stop_what_is_activated():
    run = start(node("a"), node("b", "a"), node("d", "b"))
    run.complete("a")
    patch(run, node("a"), node("b", "a"), node("d", "b"), limits={"max_hops": 1})
    run.fail("b", retryable=True)
    run.pass_time(60)
    assert run.state_of("b") == "queued"
    run.tell(c.Lapse, address=Address("run", "b", attempt=2))
    assert run.state_of("b") == "queued"
    run.complete("b")
    assert (run.status, run.state.error.code) == ("failed", "limit_exceeded"), "what comes after it is too far"


def test_rule_39_an_edge_that_a_patch_brings_gives_nothing_to_what_is_activated():
    run = start(node("a"), node("b"), node("d", "b"))
    run.complete("a", "A")
    run.complete("b", "B")
    assert list(parents(run.state, run.get("d"))) == ["b"]
    patch(run, node("a"), node("b"), node("d", "a", "b"))
    run.tell(c.Lapse, address=Address("run", "d"))
    assert (run.get("d").attempt, list(parents(run.state, run.get("d")))) == (2, ["b"])
    run.complete("d")
    assert run.status == "completed"


# -- E6: whom an approval asks ------------------------------------------------------------------------------------------

STRICT = {
    "approvers": ["ann", "bob"],
    "quorum": 2,
    "timeout_seconds": 60.0,
    "form": {"type": "object"},
    "title": "Pay?",
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("approvers", ["mallory"]),
        ("quorum", 1),
        ("on_timeout", "approve"),
        ("timeout_seconds", 1.0),
        ("form", None),
        ("notify", {"url": "https://x.test", "secret": "own"}),
    ],
)
def test_rule_39_a_patch_cannot_make_a_nod_of_an_approval_that_nobody_was_asked_for_yet(key, value):
    run = start(node("a"), human("ask", "a", config=STRICT), node("pay", "ask"))
    changed = {name: one for name, one in {**STRICT, key: value}.items() if one is not None}
    patch(run, node("a"), human("ask", "a", config=changed), node("pay", "ask"))
    assert run.refused.code == "patch_refused"
    told = f"the approval 'ask' asks as it did when the run began, so '{key}' cannot change; rerun instead"
    assert run.refused.message == told


def test_rule_39_nor_can_a_definition_that_comes_with_a_retry():
    run = start(node("a"), human("ask", "a", config=STRICT), node("pay", "ask"))
    run.fail("a")
    weaker = human("ask", "a", config={**STRICT, "quorum": 1})
    run.tell(c.Retry, ir=compiled(node("a"), weaker, node("pay", "ask")))
    assert "'quorum' cannot change" in run.refused.message


def test_rule_28_nor_can_somebody_who_requeues_an_approval_that_is_parked():
    """A no, parked: it was approved by a timeout of none."""
    run = start(human("ask", config=STRICT, on_failure="park"), node("pay", "ask"))
    run.vote(run.ask("ask"), "reject")
    assert run.state_of("ask") == "parked"
    run.requeue("ask", config={**STRICT, "on_timeout": "approve", "timeout_seconds": 0})
    assert run.refused.code == "patch_refused"
    assert "'on_timeout', 'timeout_seconds' cannot change" in run.refused.message
    run.requeue("ask", config={**STRICT, "title": "Pay, please?"})
    assert (run.refused, run.state_of("ask")) == (None, "queued")


def test_rule_28_a_config_too_large_to_be_looked_into_is_refused_for_an_approval_and_taken_for_others():
    run = start(human("ask", config=STRICT, on_failure="park"), node("a", on_failure="park", retry={"max_attempts": 1}))
    run.vote(run.ask("ask"), "reject")
    run.requeue("ask", config=BlobRef("blob"))
    assert "'config' cannot change" in run.refused.message
    run.fail("a")
    run.requeue("a", config=BlobRef("blob"))
    assert (run.refused, run.state_of("a")) == (None, "queued")


def test_rule_39_what_approvers_are_shown_may_change_and_an_approval_that_is_given_is_over():
    run = start(node("a"), human("ask", "a", config=STRICT), node("pay", "ask"))
    patch(run, node("a"), human("ask", "a", config={**STRICT, "title": "Pay 5?", "show": {"n": 5}}), node("pay", "ask"))
    assert run.refused is None
    run.complete("a")
    approval = run.ask("ask", approvers=("ann",))
    run.vote(approval, "approve", by="ann")
    assert run.state_of("pay") == "queued"
    patch(run, node("a"), human("ask", "a", config={}), node("pay", "ask"))
    assert run.refused is None


# -- E6: what an approval guards ----------------------------------------------------------------------------------------

ASK = human("ask", rejection_path=["no"])


def guarded(run, *nodes, **workflow):
    """The patch is refused because `pay` would run without `ask`."""
    patch(run, *nodes, **workflow)
    assert run.refused is not None, "the patch is taken"
    assert "'pay' runs only after the approval 'ask'; it would run without it" in run.refused.message


def test_rule_39_no_other_edge_leads_around_a_pending_approval():
    run = start(ASK, node("no"), node("pay", "ask"))
    run.ask("ask")
    guarded(run, ASK, node("no"), node("x"), node("pay", "ask", "x"))


def test_rule_39_no_edge_leads_around_an_approval_that_nobody_was_asked_for_yet():
    run = start(node("a"), human("ask", "a", rejection_path=["no"]), node("no"), node("pay", "ask"))
    guarded(run, node("a"), human("ask", "a", rejection_path=["no"]), node("no"), node("pay", "ask", "a"))


def test_rule_39_without_a_rejection_path_another_edge_is_harmless():
    """A rejection fails the run, and the join waits for the approval."""
    run = start(human("ask"), node("pay", "ask"))
    approval = run.ask("ask")
    patch(run, human("ask"), node("x"), node("pay", "ask", "x"))
    assert run.refused is None
    run.complete("x")
    assert run.state_of("pay") == "pending"
    run.vote(approval, "reject")
    assert (run.status, run.state_of("pay")) == ("failed", "pending")


def test_rule_39_a_way_on_from_a_rejection_is_a_way_around():
    run = start(human("ask"), node("pay", "ask"), node("x"))
    run.ask("ask")
    for ask in (
        human("ask", rejection_path=["pay"]),
        human("ask", on_failure="continue"),
        human("ask", on_failure={"path": ["pay"]}),
    ):
        guarded(run, ask, node("pay", "ask"), node("x"))
    patch(run, node("ask"), node("pay", "ask"), node("x"))
    assert run.refused.message == "the approval 'ask' was unavoidable and would no longer be"
    for ask in (human("ask", rejection_path=[]), human("ask", on_failure={"path": ["x"]}), human("ask", when="true")):
        guarded(run, ask, node("pay", "ask", "y"), node("x"), node("y"))


def test_rule_39_an_approval_that_was_given_guards_no_more():
    run = start(ASK, node("no"), node("wait"), node("pay", "ask", {"node": "wait", "required": True}))
    run.vote(run.ask("ask"), "approve")
    patch(run, ASK, node("no"), node("wait"), node("pay", "wait"))
    assert "the token on" in run.refused.message or "edge" in run.refused.message
    run = start(ASK, node("no"), node("wait", "ask"), node("pay", "wait"))
    run.vote(run.ask("ask"), "approve")
    patch(run, ASK, node("no"), node("wait", "ask"), node("x"), node("pay", "x"))
    assert run.refused is None


def test_rule_39_a_rejection_is_no_approval():
    """The next iteration of the loop would run what a person has said no to."""
    run = start(ASK, node("no"), node("h"), node("pay", "ask", "h"), node("x", "h", "pay", loop=again("h")))
    run.vote(run.ask("ask"), "reject")
    patch(run, ASK, node("no"), node("h"), node("pay", "ask", "h"), node("x", "h", "pay", loop=again("h")), node("log"))
    assert run.refused is None, "it runs by its other edge, before and after"
    needs = {"node": "ask", "required": True}
    run = start(ASK, node("no"), node("h"), node("pay", needs, "h"), node("x", "h", "pay", loop=again("h")))
    run.vote(run.ask("ask"), "reject")
    run.complete("h", scope=(1,))
    assert run.state_of("pay", (1,)) == "skipped"
    guarded(run, ASK, node("no"), node("h"), node("pay", "ask", "h"), node("x", "h", "pay", loop=again("h")))


def test_rule_39_what_was_skipped_by_a_rejection_stays_behind_it():
    run = start(ASK, node("no"), node("pay", "ask"), node("x"), node("z", "x"))
    run.vote(run.ask("ask"), "reject")
    assert run.state_of("pay") == "skipped"
    guarded(run, ASK, node("no"), node("pay", "ask", "x"), node("x"), node("z", "x"))


def test_rule_39_nor_does_an_approval_that_a_branch_did_not_choose_let_anything_pass():
    graph = (node("b", branch=pick(["ask"], default=["other"])), human("ask"), node("other"))
    run = start(*graph, node("pay", "ask"))
    run.complete("b", {"rule": 7})
    assert run.state_of("pay") == "skipped"
    guarded(run, *graph, node("pay", "ask", "other"))


def test_rule_39_a_branch_that_reads_the_decision_is_believed_as_long_as_it_is_the_same():
    ask = human("ask", branch=pick(["pay"], default=["no"]))
    run = start(ask, node("pay"), node("no"), answers={"branch": lambda q: q.evidence.output["decision"] == "approve"})
    approval = run.ask("ask")
    patch(run, ask, node("pay"), node("no"), node("log"))
    assert run.refused is None
    guarded(run, ask, node("pay", "log"), node("no"), node("log"))
    guarded(run, human("ask", branch=pick(["no"], default=["pay"])), node("pay"), node("no"), node("log"))
    run.vote(approval, "reject")
    assert (run.state_of("pay"), run.state_of("no")) == ("skipped", "queued")


def test_rule_39_an_approval_behind_a_branch_guards_what_runs_beside_it():
    """`x` leads to both: without it neither is looked at, with it `pay` waits for the approval."""
    graph = (node("b", branch=pick(["x"])), node("x"), human("ask", "x"))
    run = start(*graph, node("pay", "ask", "x"))
    guarded(run, *graph, node("pay", "x"))
    patch(run, *graph, node("y", "x"), node("pay", "ask", "y"))
    assert run.refused is None


def test_rule_39_a_node_that_went_and_comes_back_is_guarded_as_before():
    run = start(node("a"), ASK, node("no"), node("pay", "ask"))
    patch(run, node("a"), ASK, node("no"))
    assert run.refused is None
    guarded(run, node("a"), ASK, node("no"), node("pay", "a"))


def test_rule_39_what_has_begun_is_not_guarded_by_an_approval_that_a_patch_puts_before_it():
    """`x` runs on, whoever approves: what is hung behind it would run without `h`."""
    run = start(human("h"), node("x"), node("pay", "h"))
    run.begin("x")
    patch(run, human("h"), node("x", "h"), node("pay", "h"))
    patch(run, human("h"), node("x", "h"), node("pay", "x"))
    assert [len(run.events("run.patched")), run.refused.code] == [1, "patch_refused"]
    run.complete("x")
    assert run.state_of("pay") == "pending"


def test_rule_39_what_is_behind_something_that_has_begun_was_never_guarded_by_what_a_patch_put_before_that():
    run = start(human("h"), node("x"), node("y", "x"))
    patch(run, human("h"), node("x", "h"), node("y", "x"))
    patch(run, human("h"), node("x", "h"), node("y", "x"), node("z"))
    checker = Checker({ir.hash: ir for ir in run.state.library.values()})
    run.complete("x")
    assert run.state_of("y") == "queued"
    assert [violation for event in run.journal for violation in checker.feed(event)] == []


def test_rule_39_a_loop_that_goes_back_brings_its_head_without_an_approval():
    """`m` may run by `go` alone, the loop goes back, and its head needs no edge then."""
    graph = (ASK, node("no"), node("go"), node("h", "ask"))
    run = start(*graph, node("pay", "h"), node("x", "pay", loop=again("h")))
    guarded(run, *graph, node("pay", "h"), node("m", "pay", "go"), node("x", "m", loop=again("h")))


def test_rule_39_a_loop_that_has_ended_leads_on_whatever_a_patch_puts_before_it():
    """An approval before it guards nothing of what follows it: `pay` waited for `ask`, and was led around it (seed 1918910)."""
    turns = node("x", "a", loop=again("x"))
    run = start(node("a"), turns, node("slow"))
    run.complete("a")
    run.complete("x", DONE, (1,))
    asked = (node("a"), human("ask", "a"), node("x", "a", "ask", loop=again("x")), node("slow"))
    patch(run, *asked, node("pay", "ask"))
    patch(run, *asked, node("pay", "x"))
    assert len(run.events("run.patched")) == 1, "the second patch is taken"
    assert "'pay' runs only after the approval 'ask'; it would run without it" in run.refused.message
    assert violations(run) == []


def test_rule_39_a_quorum_of_ways_counts_those_without_the_approval():
    graph = (ASK, node("no"), node("x"), node("y"))
    run = start(*graph, node("pay", "ask", "x", join={"at_least": 2}))
    guarded(run, *graph, node("pay", "ask", "x", "y", join={"at_least": 2}))
    patch(run, *graph, node("pay", "ask", "x", "y", join={"at_least": 3}))
    assert run.refused is None


def test_rule_39_a_new_edge_into_a_node_behind_a_pending_approval_does_not_lead_around_it():
    ask = {"id": "h", "type": "human", "config": {}, "rejection_path": ["no"]}
    run = start(ask, node("pay", "h"), node("no", "h"))
    approval = run.ask("h")
    run.tell(c.Patch, ir=compiled(ask, node("pay", "h", "n1"), node("no", "h"), node("n1")))
    assert run.refused.code == "patch_refused"
    run.vote(approval, "reject")
    assert run.state_of("pay") == "skipped"


def test_rule_39_what_a_patch_requires_counts_though_it_was_skipped_before():
    """The edge of `s` was resolved when nothing was required: the join was judged by what it required then."""
    chosen, slow = node("a", branch=pick(["x"], ["s"])), node("slow")
    run = start(chosen, node("x"), node("s"), slow, node("j", "s", "slow"))
    run.complete("a", {"rule": 0})
    patch(run, chosen, node("x"), node("s"), slow, node("j", {"node": "s", "required": True}, "slow"))
    assert run.refused is None
    run.complete("slow")
    assert run.state_of("j") == "skipped"
