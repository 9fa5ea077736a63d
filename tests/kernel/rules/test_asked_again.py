"""SEMANTICS, rules 26 and 39, and E6: what a retry does again after compensation is guarded as it was before it was done."""

from typing import Any

import pytest

from perdure.kernel import commands as c
from tests.kernel.driver import compiled
from tests.kernel.rules.graphs import AGAIN, DONE, UNDO, again, human, node, pick, start, undone, violations
from tests.kernel.rules.test_patches import patch

WITHOUT = "'pay' runs only after the approval 'ask'; it would run without it"
UNDONE = {"on_failure": {"compensate": True}}
STRICT = {"approvers": ["ann", "bob"], "quorum": 2}


def ask(*after: str, **keys: Any) -> dict[str, Any]:
    return human("ask", *after, **{"compensator": UNDO, "rejection_path": ["no"], **keys})


def refused(run: Any, *nodes: dict[str, Any]) -> None:
    patch(run, *nodes, **UNDONE)
    assert run.refused is not None, "the patch is taken"
    assert WITHOUT in run.refused.message


def test_rule_39_a_no_that_may_be_undone_is_still_asked_for():
    """The no had its way, so a patch could let the approval go on without a yes; undone, it was asked again, and another
    patch found nothing that it guards (seed 382220)."""
    rest = (node("no"), node("f"))
    run = start(ask(), node("pay", "ask"), *rest, **UNDONE)
    run.vote(run.ask("ask"), "reject")
    refused(run, ask(on_failure="continue"), node("pay", "ask"), *rest)
    run.complete("no")
    run.fail("f")
    undone(run, "ask")
    run.tell(c.Retry)
    assert (run.state_of("ask"), run.state_of("pay")) == ("queued", "pending")
    refused(run, ask(), node("pay"), *rest)
    assert violations(run) == []


@pytest.mark.parametrize("as_", ["continue", {"path": ["pay"]}])
def test_rule_39_a_failed_approval_that_a_retry_asks_again_leads_on_as_it_did(as_):
    """When `x` fails too, `j` cannot fire, and a retry asks again."""
    rest = (node("x"), node("j", "ask", "x", join="any"))
    one = human("ask", on_failure={"path": ["j"]})
    run = start(one, node("pay", "ask"), *rest)
    run.ask("ask", timeout_seconds=5.0, on_timeout="fail")
    run.pass_time(6)
    assert (run.state_of("ask"), run.state_of("pay")) == ("failed", "skipped")
    refused(run, human("ask", on_failure=as_), node("pay", "ask"), *rest)


def test_rule_39_a_yes_that_may_be_undone_still_guards():
    """What waited for it has begun, and failed: both are done again, and the other edge of `pay` waits for neither."""
    rest = (node("no"), node("wait", "ask"))
    run = start(ask(), node("pay", "wait"), *rest, **UNDONE)
    patch(run, ask(), node("pay", "wait"), *rest, node("log"), **UNDONE)
    run.vote(run.ask("ask"), "approve")
    refused(run, ask(), node("x"), node("pay", "x"), *rest, node("log"))
    run.complete("log")
    run.fail("wait")
    undone(run, "ask")
    run.tell(c.Retry)
    assert (run.state_of("ask"), run.state_of("pay")) == ("queued", "pending")
    assert violations(run) == []


def test_rule_39_whom_a_yes_that_may_be_undone_was_asked_of_stays():
    rest = (node("no"), node("pay", "ask"))
    run = start(ask(config=STRICT), *rest, **UNDONE)
    approval = run.ask("ask", approvers=("ann",))
    run.vote(approval, "approve", by="ann")
    assert run.state_of("ask") == "completed"
    patch(run, ask(config={**STRICT, "quorum": 1}), *rest, **UNDONE)
    assert run.refused is not None
    assert "'quorum' cannot change" in run.refused.message


def test_rule_39_work_that_may_be_undone_may_be_discarded_when_it_is_done_again():
    """`a` is done, and led to the approval; done again it may be lost and skipped, and the approval with it."""
    a = node("a", compensator=UNDO)
    rest = (node("f"), node("x"))
    run = start(a, human("ask", "a"), node("pay", "ask"), *rest, **UNDONE)
    run.complete("a")
    refused(run, a, human("ask", "a"), node("pay", "ask", "x"), *rest)


def test_rule_39_what_stays_done_holds_a_patch_back_no_more():
    rest = (node("f"), node("x"))
    run = start(node("a"), human("ask", "a"), node("pay", "ask"), *rest, **UNDONE)
    run.complete("a")
    patch(run, node("a"), human("ask", "a"), node("pay", "ask", "x"), *rest, **UNDONE)
    assert run.refused is None


def test_rule_39_what_has_begun_after_a_yes_that_may_be_undone_is_still_behind_it():
    """`pay` failed, and its join was decided anew: the second time people said no, and the edge from `x` let it run."""
    rest = (node("no"), node("x"))
    run = start(ask(), node("pay", "ask"), *rest, **UNDONE)
    run.vote(run.ask("ask"), "approve")
    run.complete("x")
    assert run.state_of("pay") == "queued"
    refused(run, ask(), node("pay", "ask", "x"), *rest)
    run.fail("pay")
    undone(run, "ask")
    run.tell(c.Retry)
    run.vote(run.ask("ask"), "reject")
    assert run.state_of("pay") == "skipped"


REST = (node("no"), node("f", "ask"))


def kept_behind(*rest: dict[str, Any]) -> Any:
    """A run whose approval is asked again, while the outcome of `done` behind it is kept."""
    run = start(ask(), node("done", "ask"), *rest, *REST, **UNDONE)
    run.vote(run.ask("ask"), "approve")
    if run.state_of("sign") == "queued":
        run.ask("sign")
    run.begin("done")
    run.fail("f")
    run.complete("done")
    undone(run, "ask")
    run.tell(c.Retry)
    assert (run.state_of("ask"), run.state_of("done"), run.state_of("pay")) == ("queued", "completed", "pending")
    return run


def test_rule_39_what_waits_behind_a_kept_outcome_waits_for_the_approval_too():
    """`done` is done, and leads on when `ask` has been given again: a patch that freed `pay` of it was taken (seed
    309767)."""
    run = kept_behind(node("pay", "done"))
    refused(run, ask(), node("done", "ask"), node("pay"), *REST)
    refused(run, ask(), node("done", "ask"), node("x"), node("pay", "x"), *REST)
    patch(run, ask(), node("done", "ask"), node("pay", "done", "x"), node("x"), *REST, **UNDONE)
    assert run.refused is None, run.refused
    assert run.state_of("pay") == "pending"
    run.vote(run.ask("ask"), "approve")
    run.complete("x")
    assert run.state_of("pay") == "queued"
    assert violations(run) == []


def test_rule_39_nor_does_a_kept_outcome_take_the_place_of_an_approval():
    """A kept outcome leads on when the approval before it has ended again, given or not: what is behind the approval itself
    stays there."""
    run = kept_behind(node("pay", "ask", "done", join={"at_least": 2}))
    refused(run, ask(), node("done", "ask"), node("pay", "done"), *REST)
    assert violations(run) == []


def test_rule_39_an_approval_put_before_a_kept_outcome_does_not_hold_it():
    """It was activated before: the approval guards nothing behind it, so it takes the place of no other one."""
    run = kept_behind(node("pay", "done", "sign"), human("sign"))
    patch(run, ask(), human("sign"), node("done", "ask", "sign"), node("pay", "done"), *REST, **UNDONE)
    assert run.refused is not None
    assert "'pay' runs only after the approval 'sign'; it would run without it" in run.refused.message


def test_rule_39_what_is_routed_and_waits_for_its_past_is_guarded_by_that():
    """`done` has gone on before; `pay` is early as long as `ask` is asked again, by way of `mid` (rule 26)."""
    run = start(ask(), node("done", "ask"), node("mid", "done"), node("pay", "mid"), *REST, **UNDONE)
    run.vote(run.ask("ask"), "approve")
    run.complete("done")
    run.begin("mid")
    run.fail("f")
    run.complete("mid")
    undone(run, "ask")
    run.tell(c.Retry)
    refused(run, ask(), node("done", "ask"), node("mid", "done"), node("pay"), *REST)
    assert violations(run) == []


LOOP = (node("h", "ask"), node("x", "h", loop=again("h")))


def ends(run: Any, name: str, output: Any = None, scope: tuple[int, ...] = ()) -> None:
    """`f` fails while this node runs, which completes then: its outcome is kept."""
    run.begin(name, scope=scope)
    run.fail("f")
    run.complete(name, output, scope=scope)


def breaks(run: Any, name: str, output: Any = None, scope: tuple[int, ...] = ()) -> None:
    run.begin(name, scope=scope)
    run.fail("f")
    run.fail(name, scope=scope)


H, H2 = ("h", None, (1,)), ("h", None, (2,))
BACK, LEFT = ("x", AGAIN, (1,)), ("x", DONE, (1,))


@pytest.mark.parametrize(
    ("done", "last", "how"),
    [
        pytest.param([], H, ends, id="its head is kept"),
        pytest.param([H], LEFT, ends, id="its end is kept"),
        pytest.param([H], LEFT, breaks, id="its end failed"),
        pytest.param([H, BACK], H2, ends, id="it came back"),
        pytest.param([H, BACK], H2, breaks, id="its head came back and failed"),
        pytest.param([H, LEFT], ("mid", None, ()), ends, id="it is left"),
    ],
)
def test_rule_39_what_waits_behind_a_loop_waits_for_the_approval_that_is_asked_again_before_it(done, last, how):
    """The loop has begun, and goes on only when `ask` has been given again: a patch that freed `pay` of it was taken."""
    rest = (*LOOP, node("mid", "x"))
    run = start(ask(), *rest, node("pay", "mid"), *REST, **UNDONE)
    run.vote(run.ask("ask"), "approve")
    for one in done:
        run.complete(*one)
    how(run, *last)
    undone(run, "ask")
    run.tell(c.Retry)
    assert (run.state_of("ask"), run.state_of("pay")) == ("queued", "pending")
    refused(run, ask(), *rest, node("pay"), *REST)
    refused(run, ask(), *rest, node("go"), node("pay", "go"), *REST)
    patch(run, ask(), *rest, node("pay", {"node": "mid", "required": True}, "log"), node("log"), *REST, **UNDONE)
    assert run.refused is None, run.refused
    assert violations(run) == []


def test_rule_39_an_approval_inside_a_loop_guards_what_waits_behind_an_outcome_kept_after_that():
    body = (node("h"), human("ask", "h", compensator=UNDO), node("x", "ask", loop=again("h")), node("mid", "x"))
    run = start(*body, node("pay", "mid"), node("f"), **UNDONE)
    run.complete("h", scope=(1,))
    run.vote(run.ask("ask", scope=(1,)), "approve")
    run.complete("x", DONE, (1,))
    ends(run, "mid")
    run.begin("ask", scope=(1,), undo=True)
    run.complete("ask", scope=(1,), undo=True)
    run.tell(c.Retry)
    assert (run.state_of("ask", (1,)), run.state_of("pay")) == ("queued", "pending")
    refused(run, *body, node("pay"), node("f"))
    assert violations(run) == []


# -- a yes that becomes a no -----------------------------------------------------------------------------------------------


ASK = ask()


def asked_again(*nodes: dict[str, Any], done: Any = (), patched: bool = False, ask: Any = ASK) -> Any:
    """A run whose approval was given, undone, and is asked again. `done` completes before the run fails, but for the last of
    it, which completes then."""
    everything = (ask, *nodes, *REST)
    run = start(*everything, **UNDONE)
    if patched:
        patch(run, *everything, node("log"), **UNDONE)
        run.complete("log")
    run.vote(run.ask("ask"), "approve")
    *before, last = done
    for one in before:
        run.complete(*one)
    ends(run, *last)
    undone(run, "ask")
    run.tell(c.Retry)
    assert run.state_of("ask") == "queued"
    return run


MID = (node("done", "ask"), node("mid", "done"), node("pay", "mid"))


@pytest.mark.parametrize("patched", [False, True])
@pytest.mark.parametrize(
    ("nodes", "done"),
    [
        pytest.param((node("done", "ask"), node("pay", "done")), [("done",)], id="kept"),
        pytest.param(MID, [("done",), ("mid",)], id="kept behind what is done"),
        pytest.param((*LOOP, node("pay", "x")), [H, LEFT], id="a loop is left"),
        pytest.param((*LOOP, node("pay", "x")), [H, BACK, H2], id="a loop came back"),
    ],
)
def test_rule_26_what_was_done_after_a_yes_does_not_lead_on_after_a_no(nodes, done, patched):
    """A person said no, and `pay` ran: the outcome before it was kept, and led on when `ask` had ended."""
    run = asked_again(*nodes, done=done, patched=patched)
    run.vote(run.ask("ask"), "reject", by="bob")
    assert (run.state.state, run.state_of("pay")) == ("failing", "pending")
    [error] = [event.error for event in run.events("run.failing")][1:]
    assert (error.code, error.node) == ("rejected", "ask")
    assert "ask was given before" in error.message
    assert violations(run) == []


def test_rule_26_what_waits_for_more_than_a_yes_does_not_begin_after_a_no():
    """`pay` has what `done` led to, and begins when `z` is done: long after the no."""
    run = asked_again(
        node("done", "ask"), node("y"), node("z", "y"), node("pay", "done", "z"), done=[("done",), ("y",)]
    )
    run.vote(run.ask("ask"), "reject")
    assert (run.state.state, run.state_of("pay")) == ("running", "pending")
    run.complete("z")
    assert (run.state.state, run.state_of("pay")) == ("failing", "pending")
    assert violations(run) == []


def test_rule_26_nor_does_the_head_of_a_loop_that_runs_again():
    run = start(ask(), *LOOP, node("pay", "x"), *REST, **UNDONE)
    run.vote(run.ask("ask"), "approve")
    run.complete(*H)
    run.complete(*BACK)
    breaks(run, *H2)
    undone(run, "ask")
    run.tell(c.Retry)
    run.vote(run.ask("ask"), "reject")
    assert (run.state.state, run.state_of("h", (2,))) == ("compensating", "pending")
    assert run.events("run.failing")[-1].error.node == "ask"
    assert violations(run) == []


def test_rule_26_the_next_generation_asks_again_and_a_yes_leads_on():
    run = asked_again(node("done", "ask"), node("pay", "done"), done=[("done",)])
    run.vote(run.ask("ask"), "reject")
    run.complete("no")
    undone(run, "ask")
    assert run.state.state == "failed"
    run.tell(c.Retry)
    run.vote(run.ask("ask"), "approve")
    assert (run.state.state, run.state_of("pay")) == ("running", "queued")
    assert violations(run) == []


@pytest.mark.parametrize(
    ("way", "state", "mended"),
    [
        ({"rejection_path": ["no"]}, "completed", {}),
        ({"rejection_path": ["no"]}, "completed", {"on_failure": {"compensate": True}}),
        ({"on_failure": {"path": ["no"]}}, "failed", {"on_failure": {"compensate": True}}),
    ],
)
def test_rule_26_a_no_that_has_a_way_is_asked_again_though_nothing_undid_it(way, state, mended):
    """Its failure was handled, or its compensator was gone: each retry failed with `rejected`, and only a rerun helped."""
    rest = (node("done", "ask"), node("pay", "done"), node("no"), node("f"))
    run = start(human("ask", compensator=UNDO, **way), *rest, **UNDONE)
    run.vote(run.ask("ask"), "approve")
    run.complete("done")
    run.begin("pay")
    run.fail("f", retryable=False)
    run.fail("pay", retryable=False)
    undone(run, "ask")
    keeps = {} if state == "completed" else {"compensator": UNDO}
    run.tell(c.Retry, ir=compiled(human("ask", **keeps, **way), *rest, **mended))
    assert run.refused is None
    for _ in range(2):
        run.vote(run.ask("ask"), "reject")
        assert (run.state_of("ask"), run.events("run.failing")[-1].error.code) == (state, "rejected")
        run.withdraw("f")
        run.withdraw("no")
        assert run.status == "failed"
        run.tell(c.Retry)
        assert (run.status, run.state_of("ask"), run.state_of("pay")) == ("running", "queued", "held")
    run.vote(run.ask("ask"), "approve")
    assert (run.state_of("pay"), run.state_of("no"), violations(run)) == ("queued", "skipped", [])


def test_rule_26_a_no_has_its_way_where_nothing_builds_upon_the_yes():
    run = asked_again(node("y"), node("z", "y"), done=[("y",)])
    run.vote(run.ask("ask"), "reject")
    assert (run.state.state, run.state_of("f"), run.state_of("no")) == ("running", "skipped", "queued")
    run.complete("z")
    run.complete("no")
    assert (run.state.state, violations(run)) == ("completed", [])


def test_rule_26_what_an_approval_leads_to_anyway_goes_on_after_a_no():
    reads = human("ask", compensator=UNDO, branch=pick(["no"], default=["done"]))
    run = asked_again(node("done"), node("pay", "done"), done=[("done",)], ask=reads)
    run.vote(run.ask("ask"), "reject")
    assert (run.state.state, run.state_of("pay")) == ("running", "queued")
    assert violations(run) == []


@pytest.mark.parametrize("repair", ["requeue", "continue"])
def test_rule_28_what_ran_after_a_yes_that_was_undone_is_not_repaired_past_a_no(repair):
    """`pay` had run after the yes; asked again and refused, its join failed, and a requeue had it executed (seed 339508)."""
    rest = (node("pay", "ask", join={"at_least": 1}, on_failure="park", compensator=UNDO), node("f"))
    run = start(human("ask", compensator=UNDO), *rest, **UNDONE)
    run.vote(run.ask("ask"), "approve")
    run.complete("pay")
    run.fail("f")
    undone(run, "pay", "ask")
    run.tell(c.Retry)
    run.vote(run.ask("ask"), "reject")
    assert (run.state_of("ask"), run.state_of("pay")) == ("failed", "parked")
    if repair == "requeue":
        run.requeue("pay")
    else:
        run.discard("pay", "continue")
    assert run.refused.code == "join_failed"
    assert violations(run) == []
