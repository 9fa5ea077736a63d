"""Patches the checker was wrong about: what is right in the kernel breaks no promise (rules 7, 11, 31)."""

from typing import Any

from perdure.invariants import Checker, check
from perdure.kernel import commands as c
from tests.kernel.driver import compiled
from tests.kernel.rules.graphs import UNDO, again, child, items, node, pick, start


def blamed(run: Any) -> list[str]:
    return [str(found) for found in check(run.journal, run.state.library)]


def test_a_race_that_a_patch_makes_is_won_also_against_a_loop_that_lives_by_the_older_definition():
    """`z` has fired and cancels its losers; that the one it required is skipped by this changes nothing."""
    before = (node("h"), node("x", "h", loop=again("h")), node("y", "x"), node("q"))
    required = {"node": "y", "required": True}
    run = start(*before, node("z", required, "q"))
    run.complete("q")
    run.complete("h", scope=(1,))
    race = node("z", required, "q", join={"at_least": 1, "cancel_rest": True})
    run.tell(c.Patch, ir=compiled(*before, race))
    assert (run.state_of("z"), run.state_of("y"), run.state_of("x", (1,))) == ("queued", "skipped", "cancelled")
    assert blamed(run) == []


def test_the_items_of_a_map_go_where_it_is_also_when_a_patch_lowers_how_far_runs_may_come():
    """The map got there before, and nothing new comes so far."""
    task = {"type": "task", "config": {"function": "m:f"}}
    each = {"id": "m", "type": "map", "config": {"over": [1, 2], "node": task}, "dependencies": ["b"]}
    nodes = (node("a"), node("b", "a"), each)
    run = start(*nodes)
    run.complete("a")
    run.complete("b")
    items(run, "m", 2, limit=1)
    run.tell(c.Patch, ir=compiled(*nodes, limits={"max_hops": 1}))
    run.complete("m", item=0)
    run.complete("m", item=1)
    assert run.status == "completed"
    assert blamed(run) == []


def test_who_cancels_may_say_later_that_nobody_is_waited_for():
    """Rule 29: the second cancel is by force. Compensation begins although a child has not ended, and no event says why."""
    nodes = (node("a", compensator=UNDO), {"id": "w", "type": "workflow", "config": {"workflow": "inner"}})
    run = start(*nodes, on_failure={"compensate": True})
    run.complete("a")
    child(run, "w")
    run.tell(c.Cancel)
    assert run.status == "cancelling"
    run.tell(c.Cancel, force=True)
    assert run.status == "compensating"
    assert blamed(run) == []


def test_what_was_skipped_for_want_of_what_it_requires_wins_no_race():
    """Rules 7, 11: `b` comes too late for `j`, and nobody is cancelled for it."""
    required = {"node": "r", "required": True}
    race = node("j", required, "b", "d", join={"at_least": 1, "cancel_rest": True})
    run = start(node("a", branch=pick(["r"])), node("r"), node("b"), node("d"), race)
    checker = Checker(run.state.library)
    begun = [found for event in run.journal for found in checker.feed(event)] + checker.settle()
    after = len(run.journal)
    run.complete("a", {})
    run.complete("b")  # in one append, as that of a node that is executed inline
    assert (run.state_of("j"), run.state_of("d")) == ("skipped", "queued")
    assert begun + [found for event in run.journal[after:] for found in checker.feed(event)] + checker.settle() == []


def test_a_patch_in_the_append_in_which_a_race_is_won_makes_no_loser():
    """`slow` leads elsewhere too when `z` wins; that it leads only to `z` after the patch changes nothing."""
    race = (node("fast"), node("slow"), node("z", "fast", "slow", join={"at_least": 1, "cancel_rest": True}))
    run = start(*race, node("other", "slow"))
    after = len(run.journal)
    run.complete("fast")
    run.tell(c.Patch, ir=compiled(*race))
    assert (run.refused, run.state_of("slow"), run.state_of("z")) == (None, "queued", "queued")
    checker = Checker(run.state.library)
    begun = [found for event in run.journal[:after] for found in checker.feed(event)] + checker.settle()
    assert begun + [found for event in run.journal[after:] for found in checker.feed(event)] + checker.settle() == []
