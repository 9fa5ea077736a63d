"""`preview`: what a change would do is what it then does, and looking changes nothing."""

import pytest

from perdure.kernel import commands as c
from perdure.kernel import snapshot
from perdure.kernel.address import Address
from perdure.kernel.readings.previews import preview, preview_rerun
from tests.kernel.driver import compiled
from tests.kernel.rules.graphs import UNDO, node, start


def seen(run, command):
    before = snapshot.encode(run.state)
    found = preview(run.state, command)
    assert snapshot.encode(run.state) == before, "looking changed the state"
    return found


def failed():
    """`a` and `b` completed, `charge` failed, `ship` was not reached; `aside` stands alone and completed."""
    run = start(node("a"), node("b", "a"), node("charge", "b"), node("ship", "charge"), node("aside"))
    for name in ("a", "b", "aside"):
        run.complete(name)
    run.fail("charge")
    assert run.status == "failed"
    return run


def test_a_retry_runs_again_what_it_says_and_keeps_the_rest():
    run = failed()
    found = seen(run, c.Retry(at=run.now))
    assert (found.again, set(found.kept), found.state, found.why_not) == (
        ("charge", "ship"),
        {"a", "b", "aside"},
        "running",
        "",
    )
    run.tell(c.Retry)
    assert run.dispatched() == {"charge"}
    run.complete("charge")
    assert run.dispatched() == {"ship"}
    run.complete("ship")
    assert run.status == "completed"
    attempts = {name: run.get(name).attempt for name in (*found.again, *found.kept)}
    assert attempts == {"charge": 2, "ship": 1, "a": 1, "b": 1, "aside": 1}


def test_a_retry_by_a_mended_definition_names_its_nodes():
    run = failed()
    mended = compiled(
        node("a"), node("b", "a"), node("charge", "b"), node("pack", "charge"), node("ship", "pack"), node("aside")
    )
    found = seen(run, c.Retry(at=run.now, ir=mended))
    assert found.again == ("charge", "pack", "ship")
    assert "pack" not in run.state.ir.numbers


def test_a_rerun_keeps_what_came_before_its_node():
    run = failed()
    found = preview_rerun(run.state, "b")
    assert (set(found.again), found.kept) == ({"aside", "b", "charge", "ship"}, ("a",))
    whole = preview_rerun(run.state, "")
    assert (set(whole.again), whole.kept) == ({"a", "b", "charge", "ship", "aside"}, ())
    refused = preview_rerun(run.state, "b", ["ship"])
    assert (refused.code, refused.again) == ("rerun_refused", ())
    assert "'ship' is not one of them" in refused.why_not


@pytest.mark.parametrize("compensate", [False, True])
def test_a_cancel_says_what_stops_and_what_is_undone(compensate):
    run = start(
        node("a", compensator=UNDO),
        node("b", "a", compensator=UNDO),
        node("c", "b"),
        node("d", "b"),
        on_failure={"compensate": compensate},
    )
    run.complete("a")
    run.complete("b")
    run.begin("c")
    found = seen(run, c.Cancel(at=run.now))
    assert set(found.stops) == {"c", "d"}
    assert found.undo == (("b", "a") if compensate else ())
    assert found.kept == (() if compensate else ("a", "b"))
    assert found.state == "cancelling"
    run.tell(c.Cancel)
    assert run.status == "cancelling"
    run.withdraw("d")
    run.complete("c")
    plan = run.events("run.compensating")
    assert [place.node for one in plan for place in one.plan] == list(found.undo)


def test_a_forced_cancel_of_a_compensation_names_what_stays_undone():
    run = start(node("a", compensator=UNDO), node("b", "a", compensator=UNDO))
    run.complete("a")
    run.complete("b")
    run.tell(c.Rollback)
    refused = seen(run, c.Cancel(at=run.now))
    assert (refused.code, refused.state) == ("compensating", "compensating")
    forced = seen(run, c.Cancel(at=run.now, force=True))
    assert (forced.stops, forced.undo, forced.state) == (("b", "a"), (), "cancelled")
    run.tell(c.Cancel, force=True)
    assert run.status == forced.state


def test_a_rollback_names_the_order():
    run = start(node("a", compensator=UNDO), node("b", "a", compensator=UNDO), node("c", "b"))
    for name in "abc":
        run.complete(name)
    found = seen(run, c.Rollback(at=run.now))
    assert (found.undo, found.kept, found.state) == (("b", "a"), ("c",), "compensating")
    run.tell(c.Rollback)
    assert [place.node for place in run.events("run.compensating")[0].plan] == list(found.undo)


def test_what_is_not_possible_says_why_in_the_words_of_the_refusal():
    run = start(node("a"))
    for command in (c.Retry(at=1.0), c.Rollback(at=1.0)):
        found = seen(run, command)
        run.do(command)
        assert (found.code, found.why_not) == (run.refused.code, run.refused.message)
    run.complete("a")
    assert seen(run, c.Pause(at=1.0)).code == "not_running"


def test_a_pause_and_its_end_name_what_is_held():
    run = start(node("a"), node("b"), node("c", "a"))
    run.begin("a")
    assert seen(run, c.Pause(at=run.now)).stops == ("b",)
    run.tell(c.Pause)
    run.withdraw("b")
    run.complete("a")
    again = seen(run, c.Resume(at=run.now)).again
    run.tell(c.Resume)
    assert set(again) == run.dispatched() == {"b", "c"}


@pytest.mark.parametrize(
    ("as_", "state", "again", "stops"),
    [("skip", "running", (), ()), ("continue", "running", ("ship",), ()), ("fail", "failing", (), ("other",))],
)
def test_discarding_says_how_the_run_goes_on(as_, state, again, stops):
    run = start(node("charge", on_failure="park"), node("ship", "charge"), node("other"))
    run.begin("other")
    run.fail("charge")
    assert run.state_of("charge") == "parked"
    command = c.Discard(at=run.now, address=Address("run", "charge", (), None, 0, 1), as_=as_)
    found = seen(run, command)
    assert (found.state, found.again, found.stops) == (state, again, stops)
    run.discard("charge", as_)
    assert run.status == state
    assert run.dispatched() == set(again)
