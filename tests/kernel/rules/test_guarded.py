"""SEMANTICS, rule 39 and E6: failures lead around no approval, where a race or a loop lets a run go on without what failed."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.invariants import Checker
from perdure.kernel import commands as c
from perdure.kernel.guards import at_least
from tests.kernel.driver import Run, compiled
from tests.kernel.rules.graphs import AGAIN, DONE, again, human, node, start, violations

WITHOUT = "'pay' runs only after the approval 'ask'; it would run without it"


def patch(run: Run, *nodes, **workflow):
    return run.tell(c.Patch, ir=compiled(*nodes, **workflow), by="ann", reason="better")


@pytest.mark.parametrize("policy", ["continue", {"path": ["pay"]}])
def test_rule_39_no_failure_that_a_race_absorbs_leads_around_an_approval(policy):
    """`j` has fired, so a no fails nobody's run: `q` cannot run, and by a patch `pay` went on from there."""
    rest = (node("pay", "q"), node("x"), node("j", "pay", "x", join="any"))
    run = start(human("ask"), node("q", "ask"), *rest)
    run.complete("x")
    patch(run, human("ask"), node("q", "ask", on_failure=policy), *rest)
    assert WITHOUT in run.refused.message
    run.vote(run.ask("ask"), "reject")
    assert run.state_of("pay") == "upstream_failed"


def test_rule_39_what_went_on_from_a_failure_before_may_do_so_after_a_patch():
    """Here `pay` never depended on the answer, only on its being there."""
    nodes = (human("ask"), node("q", "ask", on_failure="continue"), node("pay", "q"), node("x"))
    race = node("j", "pay", "x", join="any")
    run = start(*nodes, race)
    run.complete("x")
    patch(run, *nodes, race, node("z"))
    assert run.refused is None
    run.vote(run.ask("ask"), "reject")
    assert run.state_of("pay") == "queued"
    checker = Checker(run.state.library)
    assert [found for event in run.journal for found in checker.feed(event)] == []


def test_rule_39_a_no_inside_a_loop_leads_on_to_nothing_in_its_iteration():
    """It fails the run, or its iteration is over: `pay` is guarded, whatever `q` does about failures."""
    q = node("q", "ask", on_failure="continue")
    run = start(node("h"), human("ask", "h"), q, node("pay", "q"), node("x", "pay", loop=again("h")))
    patch(run, node("h"), human("ask", "h"), q, node("pay", "h"), node("x", "pay", "q", loop=again("h")))
    assert WITHOUT in run.refused.message


def test_rule_39_a_no_that_leaves_its_loop_leads_on_to_nothing_that_a_patch_lets_go_on():
    """`x` may close the iteration while `ask` is waited for (rule 17); the end of the loop then says that it failed."""
    body = (node("h"), human("ask", "h", effect="at_most_once"), node("x", "h", loop=again("h")), node("o"))
    required = {"node": "ask", "required": True}
    run = start(*body, node("q", required, "o"), node("pay", "q"))
    patch(run, *body, node("q", required, "o", on_failure="continue"), node("pay", "q"))
    assert WITHOUT in run.refused.message


@pytest.mark.parametrize("output", [DONE, AGAIN])
def test_rule_39_a_loop_that_has_begun_was_never_guarded_by_what_a_patch_put_before_its_head(output):
    """Its head runs without `sign`, in each iteration, and what is behind the loop with it (seed 1859833)."""
    rest = (node("x", "h", loop=again("h")), node("pay", "x"))
    run = start(node("h"), *rest)
    patch(run, human("sign"), node("h", "sign"), *rest)
    patch(run, human("sign"), node("h", "sign"), *rest, node("log"))
    assert run.refused is None
    run.complete("h", scope=(1,))
    run.complete("x", output, scope=(1,))
    if output == AGAIN:
        run.complete("h", scope=(2,))
        run.complete("x", DONE, scope=(2,))
    assert run.state_of("pay") == "queued"
    assert violations(run) == []


def test_rule_39_nor_is_the_iteration_under_way_by_what_a_patch_put_before_a_new_head():
    """It goes on by the definition it began with: `k` comes after `h` and `m`, of which the patch knows one, and elsewhere."""
    pay = node("pay", "x")
    run = start(node("h"), node("m", "h"), node("k", "m"), node("x", "k", loop=again("h")), pay)
    body = (human("sign"), node("g", "sign"), node("h", "g"), node("k", "g"), node("x", "k", "h", loop=again("g")))
    patch(run, *body, pay)
    patch(run, *body, pay, node("log"))
    assert run.refused is None, run.refused
    for name in ("h", "m", "k"):
        run.complete(name, scope=(1,))
    run.complete("x", DONE, scope=(1,))
    assert run.state_of("pay") == "queued"
    assert violations(run) == []


def test_rule_39_a_node_that_a_patch_takes_out_of_a_loop_that_is_over_resolves_its_edges_anew():
    """The end of the loop resolved them without it, and what is behind has run (seeds 6161 and 1051474)."""
    head, wait = node("h"), human("sign")
    run = start(head, node("x", "h", loop=again("h")), node("after", "x"), wait)
    patch(run, head, node("p", "h"), node("x", "h", "p", loop=again("h")), node("after", "x", "p"), wait)
    run.complete("h", scope=(1,))
    run.complete("x", DONE, scope=(1,))
    run.complete("after")
    patch(run, head, node("x", "h", loop=again("h")), node("p", "x"), node("after", "x", "p"), wait)
    assert run.refused is None, run.refused
    run.complete("p")
    assert run.state_of("after") == "completed"
    assert violations(run) == []


# -- repair --------------------------------------------------------------------------------------------------------------

ONCE = {"effect": "at_most_once"}
NEEDED = {"node": "ask", "required": True}


@pytest.mark.parametrize("first", [node("a", **ONCE), node("a"), node("a", on_failure="continue")])
def test_rule_39_a_patch_leads_around_no_approval_by_way_of_a_discard(first):
    """Whatever a worker runs may be parked, and then skipped by a person: so is `ask`, which leads on to `pay`."""
    run = start(first, human("ask", "a"), node("pay", "ask"))
    patch(run, first, human("ask", "a"), node("b"), node("pay", "ask", "b"))
    assert WITHOUT in run.refused.message
    assert "required" in run.refused.message
    patch(run, first, human("ask", "a"), node("b"), node("pay", NEEDED, "b"))
    assert run.refused is None
    run.complete("b")
    for _ in range(5):
        run.begin("a")
        run.lapse("a", reason="crashed")
    assert run.state_of("a") == "parked"
    run.discard("a")
    assert (run.state_of("ask"), run.state_of("pay")) == ("skipped", "skipped")


def test_rule_39_a_discard_can_be_of_anything_that_a_quorum_before_the_approval_needs():
    before = (node("a", **ONCE), node("b"), human("ask", "a", "b", join={"at_least": 2}))
    run = start(*before, node("pay", "ask"))
    run.complete("b")
    run.begin("a")
    run.fail("a")
    assert run.state_of("a") == "parked"
    patch(run, *before, node("c"), node("pay", "ask", "c"))
    assert WITHOUT in run.refused.message


def test_rule_39_what_could_be_got_around_by_a_discard_is_guarded_against_all_else():
    """`pay` waits for a yes, unless somebody skips `a` by repair: that is no reason to let a patch go without asking."""
    nodes = (node("s"), node("a", "s"), human("ask", "a"), node("b", "s"))
    run = start(*nodes, node("pay", "ask", "b"))
    patch(run, *nodes, node("pay", "b"))
    assert WITHOUT in run.refused.message
    patch(run, *nodes, node("pay", "ask", "b"), node("z"))
    assert run.refused is None


def test_rule_39_an_approval_that_a_condition_skipped_is_not_given_when_a_patch_drops_the_condition():
    run = start(human("ask", when="inputs.big"), node("pay", "ask"), node("w"), answers={"when": False})
    assert (run.state_of("ask"), run.state_of("pay")) == ("skipped", "skipped")
    patch(run, human("ask"), node("x"), node("pay", "ask", "x"), node("w"))
    assert WITHOUT in run.refused.message


def test_rule_39_nor_by_the_discard_of_a_node_whose_join_failed_for_want_of_the_approval():
    before = (human("ask"), node("b"))
    run = start(*before, node("mid", "ask", "b", join={"at_least": 2}), node("pay", "mid"))
    parks = node("mid", "ask", "b", join={"at_least": 2}, on_failure="park")
    patch(run, *before, parks, node("x"), node("pay", "mid", "x"))
    assert WITHOUT in run.refused.message


def test_rule_39_nor_by_the_discard_of_the_approval_as_a_failure_that_a_race_absorbs():
    run = start(human("ask"), node("mid", "ask", join="any"), node("pay", "mid"))
    mid = node("mid", "ask", join="any", on_failure="continue")
    patch(run, human("ask", on_failure="park"), mid, node("pay", "mid"))
    assert WITHOUT in run.refused.message


# -- loops under way -----------------------------------------------------------------------------------------------------


def test_rule_39_an_iteration_under_way_knows_nothing_of_an_approval_that_a_patch_puts_before_its_loop():
    """It goes on by the definition it began with, leaves the loop, and `pay` ran without `ask`."""
    run = start(human("ask"), node("x", loop=again("x")), node("pay", "ask"))
    patch(run, human("ask"), node("x", "ask", loop=again("x")), node("pay", "x"))
    assert WITHOUT in run.refused.message


def test_rule_39_nor_of_one_that_a_patch_puts_into_its_loop():
    run = start(human("ask"), node("h"), node("x", "h", loop=again("h")), node("pay", "ask"))
    run.complete("h", None, (1,))
    patch(run, human("ask"), node("h"), node("x", "h", NEEDED, loop=again("h")), node("pay", "x"))
    assert WITHOUT in run.refused.message


def test_rule_39_nor_do_the_iterations_after_it():
    run = start(human("ask"), node("x", loop=again("x")), node("pay", "ask"))
    patch(run, human("ask"), node("x", "ask", loop=again("x")), node("pay", "ask"))
    run.complete("x", {"again": True}, (1,))
    patch(run, human("ask"), node("x", "ask", loop=again("x")), node("pay", "x"))
    assert WITHOUT in run.refused.message


def test_rule_39_what_is_guarded_in_a_loop_under_way_may_change_and_stays_guarded():
    body = (node("h"), human("ask", "h"))
    run = start(*body, node("pay", "ask"), node("x", "pay", loop=again("h")))
    patch(run, *body, node("y", "h"), node("pay", NEEDED, "y"), node("x", "pay", loop=again("h")))
    assert (run.refused, len(run.events("run.patched"))) == (None, 1)
    patch(run, *body, node("y", "h"), node("pay", "y"), node("x", "pay", "ask", loop=again("h")))
    refused: Any = run.refused
    assert WITHOUT in refused.message


def test_rule_39_the_head_of_a_loop_that_goes_back_from_a_failure_was_never_guarded():
    """`j` has fired, so a no fails nobody's run: `x` goes on from there, and back to `h`. The checker knows that way too."""
    ask, rest = human("ask"), (node("x", "h", loop=again("h")), node("w"), node("j", "x", "w", join="any"))
    run = start(ask, node("h", "ask", on_failure="continue"), *rest)
    run.complete("w")
    run.vote(run.ask("ask"), "reject")
    run.complete("x", {"again": True}, (1,))
    assert run.state_of("h", (2,)) == "queued"
    run = start(ask, node("h", "ask", on_failure="continue"), *rest)
    run.complete("w")
    patch(run, ask, node("h", on_failure="continue"), *rest)
    assert (run.refused, run.state_of("h", (1,))) == (None, "queued")
    checker = Checker(run.state.library)
    assert [found for event in run.journal for found in checker.feed(event)] == []


@pytest.mark.slow
def test_e6_a_run_too_large_for_the_proof_cannot_be_patched():
    """The proof is counted in steps, over all definitions and passes: nobody waits for it."""
    people = [human(f"ask{n}") for n in range(1_500)]
    rest = [node(f"pay{n}", *(one["id"] for one in people), join={"at_least": 700}) for n in range(3)]
    run = Run(compiled(*people, *rest), start=False)
    run.replay_each_step = False
    run.do(c.Start(at=run.now, run_id="run", ir=run.ir))
    before = time.thread_time()
    patch(run, *people, *rest, node("more"))
    assert time.thread_time() - before < 5, "it took minutes when every approval was asked of every edge"
    assert run.refused is not None
    assert "1500 approvals, 1504 nodes and 4500 edges the run is too large to prove" in run.refused.message


@given(st.integers(1, 12), st.lists(st.integers(0, 2**12 - 1), max_size=12), st.integers(-1, 14))
def test_e6_an_approval_counts_where_enough_edges_are_free_of_it(approvals, masks, needed):
    bits = {n: 1 << n for n in range(approvals)}
    every = (1 << approvals) - 1
    masks = [mask & every for mask in masks]
    wanted = sum(bit for bit in bits.values() if sum(bool(mask & bit) for mask in masks) >= needed)
    assert at_least(needed, masks, every) == wanted
