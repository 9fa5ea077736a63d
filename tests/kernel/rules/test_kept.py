"""SEMANTICS, rule 25: what was kept and has no way on fails its node in the next generation, as it would have failed it at once."""

from typing import Any

import pytest

from perdure.invariants import check
from perdure.kernel import commands as c
from perdure.kernel.values import Error
from tests.kernel.driver import compiled
from tests.kernel.rules.graphs import AGAIN, DONE, again, human, node, start


def rejected(*more: dict[str, Any], **keys: Any) -> Any:
    """`ask` was rejected while its run failed."""
    run = start(human("ask", **keys), node("z", "ask"), node("slow"), node("f"), *more)
    approval = run.ask("ask")
    run.begin("slow")
    run.fail("f")
    run.vote(approval, "reject")
    run.complete("slow")
    return retried(run, "ask")


def exhausted(*more: dict[str, Any], **keys: Any) -> Any:
    """The last iteration of `x` asked for another while its run failed."""
    run = start(node("x", loop=again("x", max_iterations=1), **keys), node("z", "x"), node("f"), *more)
    run.begin("x", (1,))
    run.fail("f")
    run.complete("x", AGAIN, (1,))
    return retried(run, "x", (1,))


def retried(run: Any, name: str, scope: tuple[int, ...] = ()) -> Any:
    assert (run.status, run.state_of(name, scope), run.get(name, scope).routed) == ("failed", "completed", False)
    run.tell(c.Retry)
    return run


KEPT = [(rejected, "ask", (), "rejected"), (exhausted, "x", (1,), "loop_exhausted")]


def sound(run: Any) -> None:
    assert check(run.journal, run.state.library) == []


@pytest.mark.parametrize(("kept", "name", "scope", "code"), KEPT)
def test_rule_25_a_kept_outcome_without_a_way_on_fails_its_node_and_the_next_retry_runs_it_again(
    kept, name, scope, code
):
    run = kept()
    run.withdraw("f")
    assert (run.status, run.state.error.code, run.state_of(name, scope)) == ("failed", code, "failed")
    run.tell(c.Retry)
    assert (run.status, run.state_of(name, scope), run.get(name, scope).rejected) == ("running", "queued", False)
    run.complete("f")
    if name == "ask":
        run.vote(run.ask("ask"), "approve")
    else:
        run.complete(name, DONE, scope)
    run.complete("z")
    assert run.status == "completed"
    sound(run)


@pytest.mark.parametrize(("kept", "name", "scope", "code"), KEPT)
def test_rule_25_on_failure_continue_handles_a_kept_outcome_without_a_way_on(kept, name, scope, code):
    run = kept(on_failure="continue")
    assert (run.status, run.state_of(name, scope), run.state_of("z")) == ("running", "failed", "queued")
    assert run.get(name, scope).output["error"]["code"] == code
    assert run.events("node.failed")[-1].outcome == "continue"
    run.complete("z")
    run.complete("f")
    assert run.status == "completed"
    sound(run)


@pytest.mark.parametrize(("kept", "name", "scope", "code"), KEPT)
def test_rule_25_the_path_of_on_failure_is_taken_for_a_kept_outcome_without_a_way_on(kept, name, scope, code):
    run = kept(node("other"), on_failure={"path": ["other"]})
    assert (run.status, run.state_of("other"), run.state_of("z")) == ("running", "queued", "skipped")
    run.complete("other")
    run.complete("f")
    assert run.status == "completed"
    sound(run)


@pytest.mark.parametrize(("kept", "name", "scope", "code"), KEPT)
def test_rule_25_a_kept_outcome_without_a_way_on_is_parked_and_requeueing_it_runs_it_again(kept, name, scope, code):
    run = kept(on_failure="park")
    assert (run.status, run.state_of(name, scope), run.get(name, scope).error.code) == ("running", "parked", code)
    run.requeue(name, scope)
    assert run.state_of(name, scope) == "queued"
    run.complete("f")
    if name == "ask":
        run.vote(run.ask("ask"), "approve")
    else:
        run.complete(name, DONE, scope)
    run.complete("z")
    assert run.status == "completed"
    sound(run)


@pytest.mark.parametrize(("kept", "name", "scope", "code"), KEPT)
@pytest.mark.parametrize("way", ["skip", "continue", "fail"])
def test_rule_28_a_kept_outcome_that_was_parked_can_be_discarded(kept, name, scope, code, way):
    run = kept(on_failure="park")
    run.discard(name, way, scope)
    if name == "ask" and way == "continue":
        assert run.refused.code == "approval_not_given"
    else:
        assert run.state_of(name, scope) == ("skipped" if way == "skip" else "failed")
    sound(run)


def choosing(*available: str) -> tuple[dict[str, Any], ...]:
    branch = {"type": "agent_driven", "available_next_nodes": list(available), "default": ["other"]}
    return node("k", branch=branch), node("e"), node("other"), node("f")


@pytest.mark.parametrize("policy", ["fail", "park"])
def test_rule_22_a_choice_that_was_kept_is_not_taken_when_a_mended_definition_does_not_allow_it(policy):
    """S3. Its work stays done (rule 20): it goes its way when a definition allows that."""
    wide, narrow = choosing("e", "other"), choosing("other")
    wide[0]["on_failure"] = narrow[0]["on_failure"] = policy
    run = start(*wide)
    run.begin("k")
    run.fail("f")
    run.complete("k", choice=("e",))
    run.tell(c.Retry, ir=compiled(*narrow))
    if policy == "park":
        assert (run.get("k").error.code, run.get("k").accepted) == ("routing_failed", True)
    else:
        assert (run.status, run.state.error.code, run.state_of("k")) == ("failed", "routing_failed", "completed")
        assert "k chose e, which its definition no longer allows" in run.state.error.message
        run.tell(c.Retry, ir=compiled(*wide))
        assert (run.get("k").attempt, run.get("k").route.taken) == (1, ("e",))
        assert run.state_of("other") == "skipped"
    sound(run)


def test_rule_25_the_loser_of_a_race_whose_kept_outcome_has_no_way_on_is_no_error():
    run = start(human("ask"), node("b"), node("z", "ask", "b", join="any"), node("slow"), node("f"))
    approval = run.ask("ask")
    run.begin("slow")
    run.fail("f")
    run.vote(approval, "reject")
    run.complete("slow")
    run.withdraw("b")
    run = retried(run, "ask")
    assert (run.status, run.events("node.failed")[-1].outcome) == ("running", "absorbed")
    run.complete("b")
    run.complete("z")
    run.complete("f")
    assert run.status == "completed"
    sound(run)


def test_rule_25_a_kept_outcome_that_was_parked_for_its_routing_and_has_no_way_on_may_be_parked_again():
    """First its condition could not be evaluated, and its work was done; then it says that the loop is exhausted."""
    run = start(node("x", loop=again("x", max_iterations=1), on_failure="park"), answers={"loop": Error("odd", "odd")})
    run.complete("x", AGAIN, (1,))
    assert run.get("x", (1,)).accepted
    run.answers["loop"] = True
    run.requeue("x", (1,))
    found = run.get("x", (1,))
    assert (found.state, found.accepted, found.error.code) == ("parked", False, "loop_exhausted")
    run.requeue("x", (1,))
    run.answers["loop"] = False
    run.complete("x", DONE, (1,))
    assert run.status == "completed"
    sound(run)
