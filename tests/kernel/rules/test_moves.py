"""Rule 39: what a patch moves into a loop or out of one waits for nothing that has been decided already."""

import pytest

from perdure.invariants import Checker
from tests.kernel.rules.graphs import AGAIN, DONE, again, human, node, pick, start
from tests.kernel.rules.test_patches import patch

LOOP = (node("h"), node("x", "h", loop=again("h")))


def blamed(run):
    """What the checker of invariants says of the journal."""
    checker = Checker(run.state.library)
    found = [violation for event in run.journal for violation in checker.feed(event)]
    return [*found, *checker.settle()]


def over(*others):
    """A run whose loop has ended."""
    run = start(*LOOP, *others)
    run.complete("h", "H", (1,))
    run.complete("x", DONE, (1,))
    return run


def test_rule_39_what_leaves_a_loop_that_is_over_has_what_the_loop_gave():
    """It waited for an edge that was no new one, and that no end of a loop would resolve."""
    run = over(node("w"))
    patch(run, *LOOP, node("w"), node("p", "h"))
    assert run.state_of("p") == "pending"
    patch(run, *LOOP, node("w"), node("q"), node("p", "h", "q"))
    assert run.refused is None
    run.complete("q")
    assert run.state_of("p") == "queued"
    run.complete("p")
    run.complete("w")
    assert (run.status, blamed(run)) == ("completed", [])


def test_rule_39_what_waits_for_a_node_that_leaves_a_loop_hears_of_it():
    run = over(node("w"))
    patch(run, *LOOP, node("w"), node("p", "h"), node("z", "p", "w"))
    patch(run, *LOOP, node("w"), node("q"), node("p", "h", "q"), node("z", "p", "w"))
    assert run.refused is None
    run.complete("w")
    assert run.state_of("z") == "pending", "p has not run yet"
    run.complete("q")
    run.complete("p", "P")
    assert run.state_of("z") == "queued"
    run.complete("z")
    assert (run.status, blamed(run)) == ("completed", [])


def test_rule_39_a_loop_that_begins_later_reads_what_was_decided_before_one_of_its_nodes_moved_there():
    a, b = node("a", branch=pick(["p"])), node("b")
    run = start(a, b, node("h", "b"), node("p", "a", "b"), node("x", "h", loop=again("h")))
    run.complete("a", {"rule": 1})
    assert run.state.find("p").skipped == 1
    patch(run, a, b, node("h", "b"), node("p", "a", "h"), node("x", "p", loop=again("h")))
    assert run.refused is None
    run.complete("b")
    for iteration, output in ((1, AGAIN), (2, DONE)):
        run.complete("h", None, (iteration,))
        run.complete("p", None, (iteration,))
        run.complete("x", output, (iteration,))
    assert (run.status, blamed(run)) == ("completed", [])


def test_rule_39_what_moves_into_a_loop_that_is_over_holds_nobody_up():
    run = over(node("w"), node("p", "h", "w"), node("z", "p"))
    # p holds the token of h, so only what hangs on w may move
    patch(run, *LOOP, node("w"), node("p", "h", "w"), node("q", "w"), node("z", "p", "q"))
    patch(run, *LOOP, node("w"), node("p", "h", "w"), node("q", "h"), node("z", "p", "q"))
    assert run.refused is None
    run.complete("w")
    run.complete("p")
    assert run.state_of("z") == "queued"
    run.complete("z")
    assert (run.status, blamed(run)) == ("completed", [])


def test_rule_39_an_approval_that_could_not_be_avoided_does_not_go_where_nobody_is_asked_any_more():
    run = over(node("w"), human("ok", "w"))
    patch(run, *LOOP, node("w"), human("ok", "h"))
    assert "the approval 'ok' was unavoidable and would no longer be" in run.refused.message


@pytest.mark.parametrize("iteration", [1, 2, 3])
def test_rule_39_a_new_head_begins_with_the_next_iteration_or_not_at_all(iteration):
    run = start(*LOOP, node("w"))
    for number in range(1, iteration):
        run.complete("h", None, (number,))
        run.complete("x", AGAIN if number < 2 else DONE, (number,))
    patch(run, node("g"), node("h", "g"), node("x", "h", loop=again("g")), node("w"))
    assert run.refused is None
    assert run.dispatched() == set()
    if iteration < 3:
        run.complete("h", None, (iteration,))
        run.complete("x", AGAIN, (iteration,))
        assert run.dispatched() == {f"g[{iteration + 1}]"}
        run.complete("g", None, (iteration + 1,))
        run.complete("h", None, (iteration + 1,))
        run.complete("x", DONE, (iteration + 1,))
    run.complete("w")
    assert (run.status, blamed(run)) == ("completed", [])
