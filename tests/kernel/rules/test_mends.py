"""Rules 26 and 39 together: a failed run goes on by a mended definition."""

from perdure.kernel import commands as c
from perdure.kernel import reruns
from perdure.kernel.values import Wait
from tests.kernel.driver import Run, compiled
from tests.kernel.rules.graphs import AGAIN, again, human, node, start

NEW = {"config": {"function": "m:new"}}


def mend(run: Run, *nodes, **workflow):
    return run.tell(c.Retry, ir=compiled(*nodes, **workflow), by="ann", reason="typo")


def failed(*nodes, node_id="b") -> Run:
    run = start(*nodes)
    run.complete("a", 1)
    run.fail(node_id, retryable=False)
    assert run.state.state == "failed"
    return run


def test_what_failed_runs_again_by_the_mended_definition_and_what_is_done_is_kept():
    run = failed(node("a"), node("b", "a"))
    mend(run, node("a"), node("b", "a", **NEW), node("c", "b"))
    event = run.events("run.patched")[0]
    assert (event.mends, event.by, event.reason) == (True, "ann", "typo")
    assert run.types()[-3:] == ["run.retried", "run.patched", "node.scheduled"]
    assert run.states() == {"a": "completed", "b": "queued", "c": "pending"}
    assert run.state.pinned(run.get("b")).config == {"function": "m:new"}
    run.complete("b", 2)
    run.complete("c", 3)
    assert run.state.state == "completed"


def test_a_patch_that_is_no_mend_leaves_what_is_activated_alone():
    run = start(node("a"))
    run.tell(c.Patch, ir=compiled(node("a", **NEW)))
    assert run.events("run.patched")[0].mends is False
    assert run.state.pinned(run.get("a")).config == {"function": "m:f"}


def test_a_mend_inside_a_loop_is_for_the_node_that_failed():
    run = start(node("a"), node("b", "a", loop=again("a")))
    run.complete("a", 1, (1,))
    run.complete("b", AGAIN, (1,))
    run.complete("a", 1, (2,))
    run.fail("b", scope=(2,))
    assert run.state.state == "failed"
    mend(run, node("a"), node("b", "a", loop=again("a"), **NEW))
    assert run.state.pinned(run.state.find("b", (2,))).config == {"function": "m:new"}


def test_a_refused_mend_gives_every_reason_and_changes_nothing():
    run = failed(node("a"), node("b", "a"), human("h", "b"), node("pay", "h"))
    before = run.types()
    answer = mend(run, node("x"), node("b", "x"), node("pay", "b"))
    assert answer.code == "patch_refused"
    for reason in ("'a' has been activated", "x -> b comes too late", "approval 'h'"):
        assert reason in answer.message
    assert (run.state.state, run.types()) == ("failed", before)
    gone = mend(run, node("a"), human("h", "a"), node("pay", "h"))
    assert "'b' has been activated and cannot be removed" in gone.message


def test_a_map_that_has_begun_keeps_its_items():
    def mapped(over, function):
        item = {"type": "task", "config": {"function": function}}
        return node("m", type="map", config={"over": over, "node": item})

    run = start(mapped([1, 2], "m:f"))
    run.suspend("m", Wait(kind="items", count=2))
    run.complete("m", 10, item=0)
    run.fail("m", item=1, retryable=False)
    assert run.state.state == "failed"
    assert "has begun with its items" in mend(run, mapped([1, 2, 3], "m:f")).message
    mend(run, mapped([1, 2], "m:new"))
    assert run.state.state == "running"
    assert run.state.pinned(run.state.find("m")).item.config == {"function": "m:new"}


def test_only_a_failed_run_is_mended():
    run = start(node("a"))
    assert mend(run, node("a", **NEW)).code == "not_failed"


def test_a_rerun_by_a_mended_definition_keeps_what_came_before_if_that_has_its_place():
    run = failed(node("a"), node("b", "a"))
    state = run.state
    new = compiled(node("a"), node("x", "a"), node("b", "x", **NEW))
    assert reruns.mend(state, new) == []
    assert [one.node for one in reruns.adopt(state, "x")] == ["a"]
    other = failed(node("a"), node("b", "a")).state
    assert "'a' has been activated" in reruns.mend(other, compiled(node("b")))[0]
