"""What is seen beside the journal: a node that is executed is shown as running, and nothing is said that is not so."""

from perdure.kernel import commands as c
from perdure.kernel.address import Address
from perdure.kernel.lifecycle import NodeState
from perdure.kernel.readings.explain import explain
from perdure.kernel.readings.run_view import node_view, run_view
from perdure.kernel.readings.seen import Seen, Working
from tests.kernel.rules.graphs import items, node, start

W = Working("w1", 1010.0, "box", 4711)
MAP = {"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": {"type": "task", "config": {}}}}


def seen(run, name="a", working=W, item=None):
    return Seen({run.state.find(name, (), item).key: working})


def test_a_node_that_a_worker_executes_is_running_with_who_and_since_when():
    run = start(node("a"), node("b", "a"))
    view = run_view(run.state, seen=seen(run))
    assert view["nodes"]["a"] == {
        "state": "running",
        "visit": 1,
        "attempt": 1,
        "started_at": 1010.0,
        "worker": "w1",
        "host": "box",
        "pid": 4711,
    }
    assert view["started_at"] == 1010.0
    assert run_view(run.state)["nodes"]["a"]["state"] == "queued"
    assert run_view(run.state)["started_at"] is None


def test_it_is_explained_so_also_to_those_behind_it():
    run = start(node("a"), node("b", "a"))
    assert explain(run.state, "a", seen(run)) == (
        "a is running on worker w1 (process 4711 on box) since 1970-01-01 00:16:50 UTC, attempt 1."
    )
    assert explain(run.state, "b", seen(run)).endswith("waits for a (running).")


def test_a_worker_that_was_not_heard_of_for_long_is_not_said_to_work():
    run = start(node("a"))
    said = explain(run.state, "a", seen(run, working=Working("w1", 1010.0, silent_seconds=12.4)))
    assert said.endswith("it was last heard of 12 s ago; if it is dead, another attempt follows.")


def test_what_cannot_be_seen_is_not_said():
    run = start(node("a"))
    said = explain(run.state, "a", Seen(blind="workers cannot be asked (no answer)"))
    assert said == (
        "a is queued in 'default' (attempt 1), and may be running already: workers cannot be asked (no answer)."
    )


def test_what_a_worker_says_of_a_node_that_has_ended_is_not_shown():
    run = start(node("a"))
    told = seen(run)
    run.complete("a")
    assert node_view(run.state, 0, told)["state"] == "completed"
    assert told.state(run.state.find("a")) is NodeState.COMPLETED


def test_items_that_are_executed_are_counted():
    run = start(MAP, inputs={"list": [1, 2, 3]})
    items(run, "m", 3)
    told = seen(run, "m", item=1)
    assert node_view(run.state, 0, told)["items"] == {"completed": 0, "failed": 0, "open": 3, "running": 1}
    assert explain(run.state, "m", told) == "m waits for its items: 0 of 3 ended, 3 open (1 running)."


# -- when a run began --------------------------------------------------------------------------------------------------


def test_a_run_began_when_its_first_attempt_did_whatever_became_of_it():
    run = start(node("a", retry={"jitter": False}), node("b"))
    run.tell(c.Fail, address=Address("run", "a"), error=run_error(), started_at=1003.0)
    assert run.state.started_at == 1003.0
    run.tell(c.Complete, address=Address("run", "b"), started_at=1002.0)
    assert run_view(run.state)["started_at"] == 1002.0


def test_a_node_that_failed_says_when_it_began():
    run = start(node("a"))
    run.tell(c.Fail, address=Address("run", "a"), error=run_error(), retryable=False, started_at=1003.0)
    assert node_view(run.state, 0)["started_at"] == 1003.0


def run_error():
    from perdure.kernel.values import Error

    return Error("error", "no")


# -- attempts as people count them -------------------------------------------------------------------------------------


def test_what_is_held_and_released_counts_no_attempt():
    run = start(node("a"))
    for attempt in range(1, 7):
        run.tell(c.HoldBack, address=Address("run", "a", attempt=attempt), detail="process 7 (in /x) cannot import o")
        assert node_view(run.state, 0)["attempt"] == 0
        run.tell(c.Release, nodes=("a",))
    assert run.state.find("a").attempt == 7
    assert node_view(run.state, 0)["attempt"] == 1
    assert "(attempt 1)" in explain(run.state, "a")


def test_what_is_handed_back_counts_no_attempt_and_what_dies_counts_one():
    run = start(node("a"))
    run.tell(c.Lapse, address=Address("run", "a"), reason="handed_back")
    assert run.state.find("a").tries == 1
    run.tell(c.Lapse, address=Address("run", "a", attempt=2), reason="crashed")
    assert run.state.find("a").tries == 2
    run.tell(c.Fail, address=Address("run", "a", attempt=3), error=run_error())
    assert node_view(run.state, 0)["attempt"] == 2


def test_what_is_withdrawn_by_a_pause_counts_no_attempt():
    run = start(node("a"))
    run.tell(c.Pause)
    run.tell(c.Withdraw, address=Address("run", "a"))
    assert run.state.find("a").tries == 0
    run.tell(c.Resume)
    assert (run.state.find("a").attempt, run.state.find("a").tries) == (2, 1)


def test_who_lacks_what_is_said_while_the_node_is_held():
    run = start(node("a"))
    run.tell(c.HoldBack, address=Address("run", "a"), detail="process 7 (in /x) cannot import o")
    assert explain(run.state, "a") == (
        "a is ready, and held until a worker is there that can run it: process 7 (in /x) cannot import o."
    )
    assert node_view(run.state, 0)["detail"] == "process 7 (in /x) cannot import o"
    run.tell(c.Release, nodes=("a",))
    assert "detail" not in node_view(run.state, 0)
