"""Patches that handlers ask for: rule 87."""

import msgspec
import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.outstanding import outstanding
from perdure.kernel.steps.asked_patches import MOST_PATCHES
from perdure.kernel.values import Ask
from tests.kernel.driver import compiled
from tests.kernel.rules.graphs import UNDO, effects, human, node, start, violations

WANTED = Ask(name="p", kind="patch", content="c1", operations=[{"op": "add"}], reason="more")
CHOOSING = {"branch": {"type": "agent_driven", "available_next_nodes": ["x"], "default": ["x"]}}


def ask(run, by="a", **fields):
    return run._command(c.AskFor, by, (), None, asks=(msgspec.structs.replace(WANTED, **fields),))


def apply(run, *nodes, name="a", wanted="p", base=None, ir=None, **fields):
    """Answer the ask with this definition; None: there is none, and `refused` says why."""
    ir = compiled(*nodes, **fields.pop("workflow", {})) if nodes else ir
    about = {"ask": wanted, "content": fields.pop("content", "c1"), "base": base or run.state.ir_hashes[-1]}
    return run._command(c.ApplyPatch, name, (), None, **about, ir=ir, **fields)


def answer_of(run, name="a", wanted="p"):
    return run.get(name).checkpoint["steps"][wanted]


def asked(*nodes):
    run = start(*nodes)
    ask(run)
    return run


def test_rule_87_a_patch_and_its_answer_are_one_append():
    run = asked(node("a"), node("b", "a"))
    assert (run.events("node.waiting")[0].version, run.state_of("a")) == (4, "waiting")
    assert [effect.ask for effect in effects(run, fx.ApplyPatch)] == ["p"]
    assert [one.ask for one in outstanding(run.state) if isinstance(one, fx.ApplyPatch)] == ["p"]
    ruling = apply(run, node("a"), node("b", "a"), node("n", "a"), node("m", "n"))
    assert [event.type for event in ruling.events[:2]] == ["run.patched", "node.checkpointed"]
    patched = ruling.events[0]
    assert (patched.version, patched.by, patched.ask, patched.reason) == (2, "agent:a", "p", "more")
    said = {"applied": True, "added": ["m", "n"], "edges_added": ["a -> n", "n -> m"], "refused": []}
    assert answer_of(run) == said
    assert not [one for one in outstanding(run.state) if isinstance(one, fx.ApplyPatch)]
    run.complete("a", 1)
    assert (run.state_of("n"), run.state_of("b")) == ("queued", "queued")
    assert violations(run) == []


def test_rule_87_a_refusal_is_an_answer():
    run = asked(node("a"), node("b", "a"))
    apply(run, refused=("it does not compile",))
    assert answer_of(run) == {"applied": False, "added": [], "edges_added": [], "refused": ["it does not compile"]}
    assert (run.events("run.patched"), run.state_of("a")) == ([], "queued")


BEYOND = {
    "removes a node": ([node("a"), node("n", "a")], "changes 'b'"),
    "removes an edge": ([node("a"), node("b"), node("n", "a")], "edges that are there"),
    "changes a config": ([node("a"), node("b", "a", config={"function": "m:g"}), node("n", "a")], "changes 'b'"),
    "changes a join": ([node("a"), node("b", "a", on_failure="continue"), node("n", "a")], "changes 'b'"),
    "leads elsewhere": ([node("a"), node("b", "a", "n"), node("n", "a")], "ends at a node that is there"),
    "begins elsewhere": ([node("a"), node("b", "a"), node("n", "a", "b")], "begins at a node that is there"),
    "begins at nothing": ([node("a"), node("b", "a"), node("n")], "nothing leads to 'n'"),
    "asks people": ([node("a"), node("b", "a"), human("n", "a")], "more than a node that works once"),
    "adds nothing": ([node("a", timeout_seconds=1), node("b", "a")], "adds no node"),
    "has a condition": ([node("a"), node("b", "a"), node("n", "a", when="true")], "more than a node"),
    "undoes": ([node("a"), node("b", "a"), node("n", "a", compensator=UNDO)], "more than a node"),
    "says labels": ([node("a"), node("b", "a"), node("n", "a", labels={"integrity": "trusted"})], "more than a node"),
}


@pytest.mark.parametrize("name", BEYOND)
def test_rule_87_a_patch_only_adds_what_works_after_the_asker(name):
    nodes, why = BEYOND[name]
    run = asked(node("a"), node("b", "a"))
    apply(run, *nodes)
    assert not run.events("run.patched")
    assert why in " ".join(answer_of(run)["refused"])


@pytest.mark.parametrize("workflow", [{"outputs": {"x": "{{ a }}"}}, {"limits": {"budget": {"usd": 9}}}])
def test_rule_87_the_workflow_itself_stays(workflow):
    run = asked(node("a"), node("b", "a"))
    apply(run, node("a"), node("b", "a"), node("n", "a"), workflow=workflow)
    assert "changes more of the workflow" in " ".join(answer_of(run)["refused"])


def test_rule_87_so_many_nodes_and_so_many_patches():
    run = asked(node("a"))
    apply(run, node("a"), *[node(f"n{i}", "a") for i in range(11)])
    assert "11 nodes" in " ".join(answer_of(run)["refused"])
    nodes = [node("a")]
    for number in range(MOST_PATCHES + 1):
        ask(run, name=f"q{number}")
        nodes.append(node(f"m{number}", "a"))
        apply(run, *nodes, wanted=f"q{number}")
    assert [answer_of(run, wanted=f"q{n}")["applied"] for n in range(MOST_PATCHES + 1)] == [True] * 5 + [False]


def test_rule_87_new_nodes_can_be_chosen_and_lead_where_the_asker_could_go():
    run = asked(node("a", **CHOOSING), node("x", "a"), node("y", "x"))
    choosing = {"branch": {**CHOOSING["branch"], "available_next_nodes": ["x", "n"]}}
    apply(run, node("a", **choosing), node("x", "a", "n"), node("y", "x"), node("n", "a"))
    assert answer_of(run)["applied"], answer_of(run)
    run.complete("a", 1, choice=("n",))
    run.complete("n", 1)
    assert run.state_of("x") == "queued"
    assert violations(run) == []


def test_rule_87_where_a_patch_let_it_go_is_no_end_for_the_next_one():
    run = asked(node("a", **CHOOSING), node("x", "a"), node("y", "x"))
    wider = {"branch": {**CHOOSING["branch"], "available_next_nodes": ["x", "y"]}}
    run.tell(c.Patch, ir=compiled(node("a", **wider), node("x", "a"), node("y", "x", "a")))
    assert run.refused is None
    more = {"branch": {**CHOOSING["branch"], "available_next_nodes": ["x", "y", "n"]}}
    apply(run, node("a", **more), node("x", "a"), node("y", "x", "a", "n"), node("n", "a"))
    assert "ends at a node that is there" in " ".join(answer_of(run)["refused"])


def test_rule_87_no_other_node_can_be_chosen():
    run = asked(node("a", **CHOOSING), node("x", "a"), node("y", "x"), node("n0", "a"))
    wider = {"branch": {**CHOOSING["branch"], "available_next_nodes": ["x", "n", "n0"]}}
    apply(run, node("a", **wider), node("x", "a"), node("y", "x"), node("n", "a"), node("n0", "a"))
    assert not answer_of(run)["applied"]


def test_rule_87_h1_no_approval_is_led_around():
    """H1: `x` could be chosen, and yet comes after an approval; a new edge would let it run once that is rejected."""
    graph = [node("a", **CHOOSING), human("h", rejection_path=[]), node("x", "a", "h")]
    run = asked(*graph)
    choosing = {"branch": {**CHOOSING["branch"], "available_next_nodes": ["x", "n"]}}
    apply(run, node("a", **choosing), human("h", rejection_path=[]), node("x", "a", "h", "n"), node("n", "a"))
    applied = answer_of(run)["applied"]
    run.complete("a", 1, choice=("n",) if applied else ("x",))
    assert violations(run) == []


def test_rule_87_people_may_patch_between():
    run = asked(node("a"), node("b", "a"))
    base = run.state.ir_hashes[-1]
    run.tell(c.Patch, ir=compiled(node("a"), node("b", "a"), node("by", "b")))
    late = compiled(node("a"), node("b", "a"), node("n", "a"))
    ruling = run._command(c.ApplyPatch, "a", (), None, ask="p", content="c1", base=base, ir=late)
    assert (ruling.events, [type(one) for one in ruling.effects]) == ((), [fx.ApplyPatch])
    assert run.state_of("a") == "waiting"
    apply(run, node("a"), node("b", "a"), node("by", "b"), node("n", "a"))
    assert answer_of(run)["applied"]


def test_rule_87_late_and_repeated_answers_change_nothing():
    run = asked(node("a"), node("b", "a"))
    assert not apply(run, node("a"), node("b", "a"), node("n", "a"), content="other").events
    assert not apply(run, node("a"), node("b", "a"), node("n", "a"), wanted="q").events
    apply(run, node("a"), node("b", "a"), node("n", "a"))
    before = len(run.journal)
    apply(run, node("a"), node("b", "a"), node("n", "a"), node("m", "a"))
    assert len(run.journal) == before


@pytest.mark.parametrize("paused", [True, False])
def test_rule_87_a_pause_does_not_keep_a_patch_back_and_the_end_of_a_run_does(paused):
    run = asked(node("a"), node("b"))
    if paused:
        run.tell(c.Pause)
    else:
        run.complete("b", 1)
        run.tell(c.Cancel)
    assert bool([one for one in outstanding(run.state) if isinstance(one, fx.ApplyPatch)]) is paused
    apply(run, node("a"), node("b"), node("n", "a"))
    assert bool(run.events("run.patched")) is paused


def test_rule_87_the_next_generation_asks_anew():
    run = asked(node("a"), node("b"))
    run.fail("b", retryable=False)
    apply(run, node("a"), node("b"), node("n", "a"))
    assert not run.events("run.patched")
    run.tell(c.Retry)
    ask(run)
    apply(run, node("a"), node("b"), node("n", "a"))
    assert answer_of(run)["applied"]


def test_rule_87_who_asked_people_in_vain_changes_nothing_of_where_it_may_go():
    run = start(node("a", **CHOOSING), node("x", "a"))
    run._command(c.AskFor, "a", (), None, asks=(Ask(name="ok", kind="approval", approvers=("ann",)),))
    run.vote(run.get("a").asks["ok"].approval, "reject", "ann")
    ask(run)
    choosing = {"branch": {**CHOOSING["branch"], "available_next_nodes": ["x", "n"]}}
    apply(run, node("a", **choosing), node("x", "a"), node("n", "a"))
    assert "has asked people and has no yes" in " ".join(answer_of(run)["refused"])


def test_rule_87_an_ask_without_operations_is_refused():
    run = start(node("a"))
    ask(run, operations=None)
    assert run.get("a").state == "failed" or run.state.error.code == "bad_ask"


def test_ag3_the_checker_sees_a_patch_that_does_more():
    run = asked(node("a"), node("b", "a"))
    apply(run, node("a"), node("b", "a"), node("n", "a"))
    more = compiled(node("a"), node("b", "a", "n"), node("n", "a"))
    run.state.library[more.hash] = more
    place = next(n for n, one in enumerate(run.journal) if isinstance(one, e.RunPatched))
    run.journal[place] = msgspec.structs.replace(run.journal[place], ir=more.hash)
    assert "AG3" in str(violations(run))


def test_ag3_the_checker_sees_a_patch_without_an_answer():
    run = asked(node("a"), node("b", "a"))
    apply(run, node("a"), node("b", "a"), node("n", "a"))
    place = next(n for n, one in enumerate(run.journal) if isinstance(one, e.RunPatched))
    run.journal[place] = msgspec.structs.replace(run.journal[place], ask="other")
    assert "AG3" in str(violations(run))


@pytest.mark.parametrize(
    ("first", "workflow", "added"),
    [
        (node("a"), {"policies": [{"when": "to == 'b'", "then": "ask"}]}, {}),
        (node("a", limits={"max_fanout": 3}), {}, {}),
        (node("a"), {}, {"limits": {"max_fanout": 3}}),
    ],
)
def test_rule_88_a_patch_of_a_handler_keeps_policies_and_how_far_nodes_fan_out(first, workflow, added):
    run = start(first, **workflow)
    ask(run)
    apply(run, node("a"), node("n", "a", **added))
    assert answer_of(run)["applied"] is False
