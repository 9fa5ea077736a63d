"""SEMANTICS, rule 39 and E6: failures lead around no approval, where a race or a loop lets a run go on without what failed."""

import pytest

from perdure.invariants import Checker
from perdure.kernel import commands as c
from tests.kernel.driver import Run, compiled
from tests.kernel.rules.graphs import again, human, node, start

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
