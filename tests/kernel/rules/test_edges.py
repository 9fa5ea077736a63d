"""Edges: rules 4 to 7."""

from perdure.kernel.lifecycle import FAILED, SKIPPED, TAKEN
from tests.kernel.driver import compiled
from tests.kernel.rules.graphs import AGAIN, DONE, again, human, node, pick, start
from tests.model.helpers import edge


def status(run, source, target, scope=()):
    """How an edge resolved for this activation of its target; None: not yet."""
    found = run.state.find(target, scope)
    return None if found is None else found.edges.get(run.state.index(source))


def test_rule_04_one_edge_per_pair_however_often_it_is_named():
    run = start(
        node("a", dependents=["b"], branch=pick(["b"], default=["b"])),
        node("b", "a"),
        edges=[{"from": "a", "to": "b"}],
    )
    assert len(run.ir.edges) == 1
    run.complete("a", {"rule": 0})
    assert run.counter == 1
    run.complete("b")
    assert run.types().count("node.scheduled") == 2
    assert run.status == "completed"


def test_rule_04_edges_are_inner_entry_exit_or_back():
    ir = compiled(node("w"), node("h", "w"), node("m", "h"), node("x", "m", loop=again("h")), node("z", "x"))
    kinds = {pair: edge(ir, *pair).kind for pair in (("w", "h"), ("h", "m"), ("m", "x"), ("x", "z"), ("x", "h"))}
    assert kinds == {
        ("w", "h"): "entry",
        ("h", "m"): "inner",
        ("m", "x"): "inner",
        ("x", "z"): "exit",
        ("x", "h"): "back",
    }


def test_rule_04_back_edges_are_in_no_join():
    run = start(node("w"), node("h", "w"), node("x", "h", loop=again("h")))
    run.complete("w")
    assert run.state_of("h", (1,)) == "queued"
    run.complete("h", scope=(1,))
    run.complete("x", AGAIN, (1,))
    assert run.state_of("h", (2,)) == "queued"
    assert set(run.get("h", (2,)).edges) == {run.state.index("w")}


def test_rule_04_an_entry_edge_resolves_once_and_every_iteration_reads_it_again():
    run = start(node("w"), node("h"), node("m", "h", "w"), node("x", "m", loop=again("h")))
    run.complete("w", "from outside")
    for iteration in (1, 2, 3):
        scope = (iteration,)
        run.complete("h", scope=scope)
        assert status(run, "w", "m", scope) == TAKEN
        assert run.state_of("m", scope) == "queued"
        run.complete("m", scope=scope)
        run.complete("x", {"again": iteration < 3}, scope)
    assert run.status == "completed"
    assert len([e for e in run.events("node.completed") if e.node == "w"]) == 1


def test_rule_04_an_entry_edge_into_an_inner_loop_resolves_anew_in_every_outer_iteration():
    run = start(node("o"), node("i", "o"), node("y", "i", loop=again("i")), node("x", "y", loop=again("o")))
    run.complete("o", 1, (1,))
    run.complete("i", scope=(1, 1))
    run.complete("y", DONE, (1, 1))
    run.complete("x", AGAIN, (1,))
    assert status(run, "o", "i", (2, 1)) is None
    assert run.state_of("i", (2, 1)) == "pending"
    run.complete("o", 2, (2,))
    assert status(run, "o", "i", (2, 1)) == TAKEN
    assert run.state_of("i", (2, 1)) == "queued"


def test_rule_04_an_entry_edge_that_comes_late_reaches_the_iteration_that_is_open():
    run = start(
        node("w"), node("h"), node("m", "h", "w"), node("s", "h"), node("x", "s", "m", join="any", loop=again("h"))
    )
    run.complete("h", scope=(1,))
    run.complete("s", scope=(1,))
    run.complete("x", AGAIN, (1,))
    run.complete("h", scope=(2,))
    run.complete("w")
    assert run.state_of("m", (2,)) == "queued"


def test_rule_04_exit_edges_resolve_once_when_the_loop_ends():
    run = start(node("h"), node("x", "h", loop=again("h")), node("z", "x"), node("log", "h", "z"))
    run.complete("h", scope=(1,))
    run.complete("x", AGAIN, (1,))
    assert status(run, "x", "z") is None
    assert status(run, "h", "log") is None
    run.complete("h", scope=(2,))
    assert status(run, "h", "log") is None
    run.complete("x", DONE, (2,))
    assert status(run, "x", "z") == TAKEN
    assert status(run, "h", "log") == TAKEN
    run.complete("z")
    run.complete("log")
    assert run.status == "completed"
    assert run.get("z").visit == 1


def test_rule_05_an_edge_is_taken_skipped_or_failed():
    run = start(
        node("a", branch=pick(["b"], ["c"])),
        node("b"),
        node("c"),
        node("d"),
        node("j", "b", "c", "d", join="any"),
    )
    run.complete("a", {"rule": 0})
    run.fail("d")
    assert [status(run, name, "j") for name in "bcd"] == [None, SKIPPED, FAILED]
    run.complete("b")
    assert status(run, "b", "j") == TAKEN


def test_rule_05_an_edge_resolves_once_per_activation_of_its_targets_scope():
    run = start(node("h"), node("a", "h"), node("x", "a", loop=again("h")))
    for iteration in (1, 2):
        assert status(run, "h", "a", (iteration,)) is None
        run.complete("h", scope=(iteration,))
        assert status(run, "h", "a", (iteration,)) == TAKEN
        run.complete("h", "again", (iteration,), attempt=1)
        assert run.get("a", (iteration,)).taken == 1
        run.complete("a", scope=(iteration,))
        run.complete("x", {"again": iteration == 1}, (iteration,))
    assert run.status == "completed"


def test_rule_06_edges_a_branch_names_are_taken_only_when_chosen():
    run = start(node("a", branch=pick(["b"], ["c"], default=["d"])), node("b"), node("c"), node("d"))
    run.complete("a", {"rule": 1})
    assert run.states() == {"a": "completed", "b": "skipped", "c": "queued", "d": "skipped"}


def test_rule_06_edges_a_loop_names_are_taken_only_when_chosen():
    run = start(
        node("h"), node("x", "h", loop=again("h", break_path=["ok"], timeout_path=["late"])), node("ok"), node("late")
    )
    run.complete("h", scope=(1,))
    run.complete("x", DONE, (1,))
    assert (run.state_of("ok"), run.state_of("late")) == ("queued", "skipped")


def test_rule_06_edges_of_a_rejection_path_are_taken_only_when_chosen():
    graph = (human("ask", rejection_path=["no"]), node("yes", "ask"), node("no"))
    run = start(*graph)
    run.vote(run.ask("ask"), "approve")
    assert (run.state_of("yes"), run.state_of("no")) == ("queued", "skipped")
    run = start(*graph)
    run.vote(run.ask("ask"), "reject")
    assert (run.state_of("yes"), run.state_of("no")) == ("skipped", "queued")


def test_rule_06_a_failure_path_is_skipped_on_success():
    run = start(node("a", on_failure={"path": ["repair"]}), node("b", "a"), node("repair"))
    run.complete("a")
    assert (run.state_of("b"), run.state_of("repair")) == ("queued", "skipped")


def test_rule_06_a_failure_path_is_taken_on_failure_and_nothing_else():
    run = start(node("a", on_failure={"path": ["repair"]}), node("b", "a"), node("repair"))
    run.fail("a")
    assert (run.state_of("b"), run.state_of("repair")) == ("skipped", "queued")


def test_rule_06_dependents_no_routing_names_are_taken_whenever_the_node_completes():
    run = start(node("a", branch=pick(["b"], ["c"])), node("b"), node("c"), node("always", "a"))
    run.complete("a", {"rule": 0})
    assert run.state_of("always") == "queued"
    assert run.state_of("c") == "skipped"
    run = start(node("a", branch=pick(["b"], ["c"])), node("b"), node("c"), node("always", "a"))
    run.complete("a", {})
    assert run.state_of("always") == "queued"
    assert run.state_of("b") == "skipped"


def test_rule_06_unnamed_dependents_of_a_body_node_are_taken_when_its_loop_ends():
    run = start(node("h"), node("x", "h", loop=again("h")), node("z", "h", "x"))
    run.complete("h", scope=(1,))
    assert run.state_of("z") == "pending"
    run.complete("x", DONE, (1,))
    assert run.state_of("z") == "queued"


def test_rule_07_a_node_is_skipped_when_a_required_dependency_is_skipped():
    run = start(
        node("a", branch=pick(["b"], ["c"])),
        node("b"),
        node("c"),
        node("d", {"node": "b", "required": True}, "c"),
    )
    run.complete("a", {"rule": 1})
    assert run.state_of("d") == "skipped"


def test_rule_07_whatever_the_others_do():
    run = start(
        node("a", branch=pick(["b"], ["c"])),
        node("b"),
        node("c"),
        node("other"),
        node("d", {"node": "b", "required": True}, "other", join="any"),
        node("e", {"node": "b", "required": True}, "other"),
    )
    run.complete("a", {"rule": 1})
    assert run.state_of("d") == "skipped"
    assert run.state_of("e") == "skipped"
    run.complete("other")
    run.complete("c")
    assert run.status == "completed"


def test_rule_07_a_required_dependency_that_ran_is_like_any_other():
    run = start(
        node("a", branch=pick(["b"], ["c"])),
        node("b"),
        node("c"),
        node("d", {"node": "b", "required": True}, "c"),
    )
    run.complete("a", {"rule": 0})
    run.complete("b")
    assert run.state_of("d") == "queued"
