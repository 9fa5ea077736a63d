"""What workflows can say, through the real engine: journal, coordinator, worker, timers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure.kernel.state import RunState
from perdure.model import DefinitionError
from tests.engine import tasks
from tests.engine.helpers import (
    ask,
    check,
    compiled,
    ended,
    events,
    finish,
    output_of,
    running,
    start,
    state_of,
    task,
    transform,
    until,
    until_true,
    workflow,
)

R = RunState
QUICK = {"max_attempts": 3, "backoff_ms": 10, "jitter": False}


async def test_a_diamond_joins_what_both_sides_gave(tmp_path):
    definition = workflow(
        task("a", args={"value": "{{ inputs.x }}"}),
        task("b", "add", ["a"], args={"a": "{{ a.value }}", "b": 1}),
        task("c", "add", ["a"], args={"a": "{{ a.value }}", "b": 2}),
        task("d", "add", ["b", "c"], args={"a": "{{ b.sum }}", "b": "{{ c.sum }}"}),
        outputs={"total": "{{ d.sum }}"},
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition, inputs={"x": 10})
        assert state.state is R.COMPLETED
        assert state.outputs == {"total": 23}
        assert len(tasks.seen) == 4
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")


async def test_a_branch_takes_one_side_and_skips_the_other(tmp_path):
    rules = [{"condition": "output.value > 5", "next_nodes": ["big"]}]
    definition = workflow(
        task(
            "a", args={"value": "{{ inputs.x }}"}, branch={"type": "conditional", "rules": rules, "default": ["small"]}
        ),
        task("big", "echo"),
        task("small", "echo"),
        task("end", "echo", ["big", "small"]),
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition, "r1", {"x": 7})
        assert (state_of(state, "big"), state_of(state, "small")) == ("completed", "skipped")
        state = await finish(engine, definition, "r2", {"x": 3})
        assert (state_of(state, "big"), state_of(state, "small")) == ("skipped", "completed")
        assert state_of(state, "end") == "completed"


async def test_a_loop_goes_round_with_a_delay_and_ends(tmp_path):
    loop = {"condition": "!output.done", "max_iterations": 10, "delay_ms": 20}
    definition = workflow(
        task("begin"),
        task("again", "count", ["begin"], args={"upto": 3}, loop=loop),
        task("end", "echo", ["again"], args={"value": "{{ again.at }}"}),
        outputs={"at": "{{ end.value }}"},
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.outputs == {"at": 3}
        began = [event.at for event in await events(engine.journal) if event.type == "loop.advanced"]
        fired = [event.at for event in await events(engine.journal) if event.type == "timer.fired"]
        assert len(began) == len(fired) == 2
        assert all(fire - begin >= 0.02 for begin, fire in zip(began, fired, strict=True))


@pytest.mark.slow
async def test_a_loop_of_two_thousand_trivial_rounds_does_not_starve_the_others(tmp_path):
    loop = {"condition": "loop.iteration < 2000", "max_iterations": 3000}
    definition = workflow(transform("again", "{{ loop.iteration }}", loop=loop), outputs={"at": "{{ again }}"})
    async with running(tmp_path) as engine:
        await start(engine, definition, "long")
        other = await finish(engine, workflow(task("a")), "short")
        assert other.state is R.COMPLETED
        state = await ended(engine, "long")
        assert state.outputs == {"at": 2000}


async def test_a_failing_node_is_tried_again_after_its_backoff(tmp_path):
    definition = workflow(
        task("a", "fail", args={"times": 2}, retry={"max_attempts": 3, "backoff_ms": 30, "jitter": False})
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.state is R.COMPLETED
        assert output_of(state, "a") == {"attempt": 3}
        assert len({key for key, _ in tasks.seen}) == 1


async def test_when_false_skips_the_node_and_its_output_is_null(tmp_path):
    definition = workflow(
        task("a"),
        task("b", "echo", ["a"], when="inputs.wanted"),
        outputs={"a": "{{ a.node }}", "b": "{{ b.value }}"},
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition, inputs={"wanted": False})
        assert state.outputs == {"a": "a", "b": None}
        assert state_of(state, "b") == "skipped"


@pytest.mark.slow
async def test_a_map_of_a_thousand_items_keeps_order_and_its_limit(tmp_path):
    inner = {"type": "task", "config": {"function": "tests.engine.tasks:crowd", "args": {"item": "{{ item }}"}}}
    definition = workflow(
        transform("list", "{{ inputs.list }}"),
        {
            "id": "m",
            "type": "map",
            "config": {"over": "{{ list }}", "node": inner, "max_concurrency": 7},
            "dependencies": ["list"],
        },
        task("size", "size", ["m"], args={"value": "{{ m }}"}),
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition, inputs={"list": list(range(1000))})
        assert output_of(state, "m") == [2 * n for n in range(1000)]
        assert output_of(state, "size") == {"size": 1000}
        assert 1 < tasks.crowds["most"] <= 7


@pytest.mark.slow
async def test_a_map_without_a_limit_and_one_without_items(tmp_path):
    inner = {"type": "task", "config": {"function": "tests.engine.tasks:crowd", "args": {"item": "{{ item }}"}}}
    definition = workflow({"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": inner}})
    async with running(tmp_path) as engine:
        assert output_of(await finish(engine, definition, "r1", {"list": list(range(500))}), "m")[499] == 998
        assert output_of(await finish(engine, definition, "r2", {"list": []}), "m") == []


async def test_a_map_over_something_else_than_a_list_is_a_clean_failure(tmp_path):
    inner = {"type": "task", "config": {"function": "tests.engine.tasks:crowd", "args": {"item": "{{ item }}"}}}
    definition = workflow({"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": inner}})
    async with running(tmp_path) as engine:
        state = await finish(engine, definition, inputs={"list": 5})
        assert state.state is R.FAILED
        assert state.error.code == "bad_config"


CHILD = workflow(
    task("inner", "add", args={"a": "{{ inputs.n }}", "b": 1}), name="child", outputs={"n": "{{ inner.sum }}"}
)


def parent_of(name: str = "child", **more: object) -> dict[str, object]:
    node = {"id": "call", "type": "workflow", "config": {"workflow": name, "inputs": {"n": "{{ inputs.n }}"}}, **more}
    return workflow(node, task("after", "echo", ["call"], args={"value": "{{ call }}"}), name="parent")


async def register(engine, definition):
    from tests.engine.helpers import compiled

    await engine.workflows.register(compiled(definition))


async def test_a_child_workflow_gives_its_outputs_to_its_parent(tmp_path):
    async with running(tmp_path) as engine:
        await register(engine, CHILD)
        state = await finish(engine, parent_of(), inputs={"n": 41})
        assert output_of(state, "call") == {"n": 42}
        child = state.find("call").child
        record = await engine.journal.get_run(child)
        assert (record.row.state, record.row.parent) == ("completed", "r1")
        await ended(engine, child)
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")
        assert await engine.journal.read_notices() == []


async def test_a_child_that_is_not_registered_fails_its_parent(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, parent_of("nobody"), inputs={"n": 1})
        assert state.state is R.FAILED
        assert state.error.code == "child_failed"
        assert "workflow_not_found" in state.error.message
        assert "perdure workflows push FILE" in state.error.message


async def test_retrying_a_parent_starts_the_child_that_could_not_be_started(tmp_path):
    """It never was, so its first life is the second one its parent asks for."""
    async with running(tmp_path) as engine:
        state = await finish(engine, parent_of(), inputs={"n": 41})
        assert "workflow_not_found" in state.error.message
        await register(engine, CHILD)
        assert not (await ask(engine, "retry")).refused
        state = await until(engine, lambda state: state.terminal and state.generation == 2)
        assert (state.state, output_of(state, "call")) == (R.COMPLETED, {"n": 42})


async def test_retrying_a_parent_retries_its_failed_child(tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    child = workflow(task("first"), task("second", "fail_while", ["first"], args={"path": str(flag)}), name="child")
    async with running(tmp_path) as engine:
        await register(engine, child)
        state = await finish(engine, parent_of(), inputs={"n": 1})
        assert (state.state, state.error.code) == (R.FAILED, "child_failed")
        flag.unlink()
        assert not (await ask(engine, "retry")).refused
        state = await until(engine, lambda state: state.terminal and state.generation == 2)
        assert state.state is R.COMPLETED
        child_state = await ended(engine, state.find("call").child)
        assert (child_state.state, child_state.generation) == (R.COMPLETED, 2)
        first = [key for key, _ in tasks.seen if "first" in key]
        assert len(first) == 1, "what had completed in the child ran again"


async def test_a_node_that_retries_its_child_in_the_same_run(tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    child = workflow(task("only", "fail_while", args={"path": str(flag)}), name="child")
    definition = parent_of(retry={"max_attempts": 2, "backoff_ms": 300, "jitter": False})
    async with running(tmp_path) as engine:
        await register(engine, child)
        await start(engine, definition, inputs={"n": 1})
        await until(engine, lambda state: state_of(state, "call") == "retrying")
        flag.unlink()
        state = await ended(engine)
        assert state.state is R.COMPLETED
        assert (await engine.runs.state(state.find("call").child)).generation == 2


async def test_cancelling_a_parent_cancels_its_child(tmp_path):
    child = workflow(task("only", "gate", args={"name": "child"}), name="child")
    async with running(tmp_path) as engine:
        await register(engine, child)
        await start(engine, parent_of(), inputs={"n": 1})
        await until(engine, lambda state: state_of(state, "call") == "waiting")
        await until_true(lambda: tasks.seen, "it runs")
        await ask(engine, "cancel")
        state = await ended(engine)
        assert state.state is R.CANCELLED
        assert (await ended(engine, state.find("call").child)).state is R.CANCELLED
        assert tasks.cancelled == ["only"]


@pytest.mark.parametrize("early", [True, False])
async def test_a_signal_is_taken_whether_it_comes_before_the_wait_or_after(tmp_path, early):
    definition = workflow(
        task("a", "gate", args={"name": "a"}),
        {"id": "w", "type": "wait", "config": {"signal": "go"}, "dependencies": ["a"]},
        outputs={"got": "{{ w.n }}"},
    )
    async with running(tmp_path) as engine:
        await start(engine, definition)
        if not early:
            tasks.gate_of("a").set()
            await until(engine, lambda state: state_of(state, "w") == "waiting")
        await ask(engine, "signal", name="go", payload={"n": 5})
        await ask(engine, "signal", name="go", payload={"n": 6})
        tasks.gate_of("a").set()
        state = await ended(engine)
        assert state.outputs == {"got": 5}
        late = await ask(engine, "signal", name="go")
        assert late.code == "run_ended"


async def test_a_signal_that_does_not_come_in_time_fails_the_node(tmp_path):
    definition = workflow({"id": "w", "type": "wait", "config": {"signal": "go", "seconds": 0.05}})
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.error.code == "signal_timeout"


def human(**config: object) -> dict[str, object]:
    more = {name: config.pop(name) for name in ("rejection_path",) if name in config}
    return workflow(
        task("a"),
        {"id": "h", "type": "human", "config": config, "dependencies": ["a"], **more},
        *([task("no")] if more else []),
        task("yes", "echo", ["h"]),
    )


async def approval_of(engine, run_id="r1"):
    await until(engine, lambda state: state_of(state, "h") == "waiting", run_id)
    return (await engine.journal.list_approvals(state="pending", run_id=run_id)).items[0].approval_id


async def test_a_quorum_decides_and_the_rest_need_not(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, human(approvers=["x", "y", "z"], quorum=2))
        approval = await approval_of(engine)
        assert (await ask(engine, "vote", approval=approval, by="mallory")).code == "not_an_approver"
        assert not (await ask(engine, "vote", approval=approval, by="x")).refused
        assert (await ask(engine, "vote", approval=approval, by="x")).code == "already_voted"
        assert (await engine.runs.state("r1")).state is R.RUNNING
        await ask(engine, "vote", approval=approval, by="z", data={"limit": 3})
        state = await ended(engine)
        assert output_of(state, "h")["decision"] == "approve"
        assert output_of(state, "h")["a"]["node"] == "a"
        row = await engine.journal.get_approval(approval)
        assert row.state != "pending"
        assert row.decided_at is not None
        assert (await ask(engine, "vote", approval=approval, by="y")).code in ("already_decided", "run_ended")


async def test_a_rejection_takes_its_path(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, human(approvers=["x"], rejection_path=["no"]))
        await ask(engine, "vote", approval=await approval_of(engine), by="x", decision="reject")
        state = await ended(engine)
        assert (state.state, state_of(state, "no"), state_of(state, "yes")) == (R.COMPLETED, "completed", "skipped")


async def test_a_rejection_without_a_path_fails_the_run(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, human(approvers=["x"]))
        await ask(engine, "vote", approval=await approval_of(engine), by="x", decision="reject")
        state = await ended(engine)
        assert (state.state, state.error.code) == (R.FAILED, "rejected")


@pytest.mark.parametrize(
    ("on_timeout", "end"), [("reject", "rejected"), ("fail", "approval_timeout"), ("approve", None)]
)
async def test_a_decision_that_nobody_takes_in_time(tmp_path, on_timeout, end):
    async with running(tmp_path) as engine:
        state = await finish(engine, human(approvers=["x"], timeout_seconds=0.05, on_timeout=on_timeout))
        assert (state.error.code if state.error else None) == end


async def test_an_escalated_approval_may_be_decided_by_others(tmp_path):
    config = {"approvers": ["x"], "timeout_seconds": 0.2, "on_timeout": "escalate", "escalate_to": ["boss"]}
    async with running(tmp_path) as engine:
        await start(engine, human(**config))
        approval = await approval_of(engine)
        await until(engine, lambda state: state.approvals[approval].escalated)
        assert not (await ask(engine, "vote", approval=approval, by="boss")).refused
        assert (await ended(engine)).state is R.COMPLETED


async def test_a_paused_run_starts_nothing_and_resumes_where_it_was(tmp_path):
    definition = workflow(task("a", "gate", args={"name": "a"}), task("b", "echo", ["a"]))
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until_true(lambda: tasks.seen, "it runs")
        assert (await ask(engine, "pause")).state == "paused"
        tasks.gate_of("a").set()
        state = await until(engine, lambda state: state_of(state, "b") == "held")
        assert state.state is R.PAUSED
        assert len(tasks.seen) == 1
        assert (await ask(engine, "resume")).state == "running"
        assert (await ended(engine)).state is R.COMPLETED
        assert len(tasks.seen) == 2


@pytest.mark.slow
async def test_pause_and_resume_in_one_batch_lose_no_queued_task(tmp_path):
    nodes = [task(f"n{number}", "echo") for number in range(40)]
    async with running(tmp_path, concurrency=1) as engine:
        import asyncio

        await start(engine, workflow(*nodes))
        await asyncio.gather(ask(engine, "pause"), ask(engine, "resume"))
        await asyncio.gather(ask(engine, "pause"), ask(engine, "resume"), ask(engine, "pause"), ask(engine, "resume"))
        state = await ended(engine)
        assert state.state is R.COMPLETED
        assert len(tasks.seen) == 40


async def test_cancel_reaches_the_handler_that_runs(tmp_path):
    definition = workflow(task("a", "gate", args={"name": "a"}), task("b", "echo", ["a"]))
    async with running(tmp_path, worker_heartbeat_seconds=0.1) as engine:
        await start(engine, definition)
        await until_true(lambda: tasks.seen, "it runs")
        assert (await ask(engine, "cancel", reason="no longer wanted")).state in ("cancelling", "cancelled")
        state = await ended(engine)
        assert state.state is R.CANCELLED
        assert tasks.cancelled == ["a"]
        assert state_of(state, "b") in ("pending", "cancelled")
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")


async def test_a_forced_cancel_does_not_wait_for_anybody(tmp_path):
    definition = workflow(task("a", "gate", args={"name": "a"}))
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until_true(lambda: tasks.seen, "it runs")
        assert (await ask(engine, "cancel", force=True)).state == "cancelled"
        assert (await ended(engine)).state is R.CANCELLED
        tasks.gate_of("a").set()
        assert (await ask(engine, "retry")).refused


async def test_what_checks_a_run_at_its_end_takes_a_fact_that_comes_between_its_readings(tmp_path):
    """The result of a handler that was cancelled by force is ignored, and that is written down after the end (J4)."""

    class Behind:
        """A journal whose last event comes after the first time somebody has read the events."""

        def __init__(self, journal: Any) -> None:
            self._journal = journal
            self._lags = True

        def __getattr__(self, name: str) -> Any:
            return getattr(self._journal, name)

        async def get_run(self, run_id: str) -> Any:
            record = await self._journal.get_run(run_id)
            return msgspec.structs.replace(record, seq=record.seq - self._lags)

        async def read_events(self, run_id: str, *where: Any) -> Any:
            found = await self._journal.read_events(run_id, *where)
            lags, self._lags = self._lags, False
            return found[:-1] if lags else found

    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(task("a")))
        assert len(await check(Behind(engine.journal))) == state.seq


async def test_cancelling_before_anything_was_claimed_ends_at_once(tmp_path):
    nodes = [task(f"n{number}", "gate", args={"name": "a"}) for number in range(5)]
    async with running(tmp_path, concurrency=1) as engine:
        await start(engine, workflow(*nodes))
        await ask(engine, "cancel")
        state = await ended(engine)
        assert state.state is R.CANCELLED
        assert len(tasks.seen) <= 1


async def test_a_failed_run_is_retried_and_what_completed_does_not_run_again(tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    definition = workflow(
        task("a"),
        task("b", "fail_while", ["a"], args={"path": str(flag)}),
        task("c", "echo", ["b"]),
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert (state.state, state.error.code) == (R.FAILED, "aborted")
        flag.unlink()
        assert (await ask(engine, "retry")).state == "running"
        state = await until(engine, lambda state: state.terminal and state.generation == 2)
        assert state.state is R.COMPLETED
        assert len([key for key, _ in tasks.seen if "/a" in key]) == 1
        assert (await ask(engine, "retry")).code == "not_failed"


def compensated(**more: object) -> dict[str, object]:
    undo = {"type": "task", "config": {"function": "tests.engine.tasks:undo", "args": {"what": "{{ output.node }}"}}}
    return workflow(
        task("a", "echo", compensator=undo),
        task("b", "echo", ["a"], compensator=undo),
        task("c", "fail", ["b"], args={"times": 99}, retry={"max_attempts": 1}) if more else task("c", "echo", ["b"]),
        **more,
    )


async def test_a_failed_run_undoes_what_was_done_in_reverse(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, compensated(on_failure={"compensate": True}))
        assert state.state is R.FAILED
        assert (state_of(state, "a"), state_of(state, "b")) == ("compensated", "compensated")
        undone = [event.node for event in await events(engine.journal) if event.type == "node.compensated"]
        assert undone == ["b", "a"]
        assert len({key for key, _ in tasks.seen}) == 5


async def test_a_completed_run_can_be_rolled_back(tmp_path):
    async with running(tmp_path) as engine:
        await finish(engine, compensated())
        assert not (await ask(engine, "rollback")).refused
        state = await until(engine, lambda state: state.state is R.ROLLED_BACK)
        assert state_of(state, "a") == "compensated"
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")


async def test_the_dead_letter_of_a_compensation_says_why_it_failed(tmp_path):
    undo = {"type": "task", "config": {"function": "tests.engine.tasks:fail", "args": {"times": 99}}, "retry": 1}
    failing = task("b", "fail", ["a"], args={"times": 99}, retry={"max_attempts": 1})
    async with running(tmp_path) as engine:
        await start(engine, workflow({**task("a"), "compensator": undo}, failing, on_failure={"compensate": True}))
        await until(engine, lambda state: any(one.undo and one.undo.error for one in state.activations.values()))
        letter = (await engine.journal.list_dead_letters(state="pending")).items[0]
        body = msgspec.json.decode((await engine.journal.get_dead_letter(letter.dead_letter_id)).body)
        assert (body["undo"], body["error"]["code"]) == (True, "error")


async def test_a_parked_node_is_requeued_with_another_config(tmp_path):
    definition = workflow(
        task("a", "fail", args={"times": 99}, retry=QUICK, on_failure="park"), task("b", "echo", ["a"])
    )
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until(engine, lambda state: state_of(state, "a") == "parked")
        letters = (await engine.journal.list_dead_letters(state="pending")).items
        assert [(letter.run_id, letter.node) for letter in letters] == [("r1", "a")]
        config = {"function": "tests.engine.tasks:echo", "args": {"value": 1}}
        assert not (await ask(engine, "requeue", node="a", config=config)).refused
        state = await ended(engine)
        assert state.state is R.COMPLETED
        letter = await engine.journal.get_dead_letter(letters[0].dead_letter_id)
        assert letter.state == "requeued"
        assert letter.resolved_at is not None
        assert letter.body != b"{}", "what was wrong with it is forgotten"


@pytest.mark.parametrize(
    ("as_", "end", "after"),
    [("skip", R.COMPLETED, "skipped"), ("continue", R.COMPLETED, "completed"), ("fail", R.FAILED, None)],
)
async def test_a_parked_node_is_discarded(tmp_path, as_, end, after):
    definition = workflow(
        task("a", "fail", args={"times": 99}, retry={"max_attempts": 1}, on_failure="park"), task("b", "echo", ["a"])
    )
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until(engine, lambda state: state_of(state, "a") == "parked")
        assert not (await ask(engine, "discard", node="a", as_=as_)).refused
        state = await ended(engine)
        assert state.state is end
        assert after is None or state_of(state, "b") == after
        assert not (await engine.journal.list_dead_letters(state="pending")).items


async def test_a_deadline_fails_the_run_and_stops_its_work(tmp_path):
    definition = workflow(task("a", "gate", args={"name": "a"}), limits={"deadline_seconds": 0.2})
    async with running(tmp_path, worker_heartbeat_seconds=0.1) as engine:
        state = await finish(engine, definition)
        assert (state.state, state.error.code) == (R.FAILED, "deadline_exceeded")
        assert tasks.cancelled == ["a"]


async def test_a_run_that_waits_misses_its_deadline_too(tmp_path):
    definition = workflow({"id": "w", "type": "wait", "config": {"signal": "never"}})
    async with running(tmp_path) as engine:
        await start(engine, definition, deadline_seconds=0.1)
        state = await ended(engine)
        assert state.error.code == "deadline_exceeded"


async def test_a_task_that_nobody_takes_times_out_in_its_queue(tmp_path):
    definition = workflow(
        task("a", "gate", args={"name": "a"}),
        task("b", "echo", queue_timeout_seconds=0.1, on_failure="continue"),
    )
    async with running(tmp_path, concurrency=1) as engine:
        await start(engine, definition)
        state = await until(engine, lambda state: state_of(state, "b") not in ("pending", "queued"))
        assert state.find("b").error.code == "queue_timeout"
        tasks.gate_of("a").set()
        state = await ended(engine)
        assert [key for key, _ in tasks.seen if "/b" in key] == []
        coordinator = engine.coordinator
        await until_true(
            lambda: not coordinator.memory.runs and len(coordinator.publisher.dispatcher) == 0, "an empty coordinator"
        )


async def test_all_attempts_together_have_a_time(tmp_path):
    retry = {"max_attempts": 1000, "backoff_ms": 20, "multiplier": 1.0, "jitter": False}
    definition = workflow(task("a", "fail", retry=retry, total_timeout_seconds=0.2))
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.error.code == "total_timeout"


async def test_one_attempt_has_a_time(tmp_path):
    definition = workflow(task("a", "gate", args={"name": "a"}, timeout_seconds=0.05, retry={"max_attempts": 1}))
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.error.code == "timeout"
        assert tasks.cancelled == ["a"]


async def test_a_template_that_cannot_be_rendered_is_a_clean_failure(tmp_path):
    for number, node in enumerate(
        (
            task("b", "echo", ["a"], args={"value": "{{ a.value.missing.deeper }}"}),
            transform("b", "{{ a.value.missing.deeper }}", ["a"]),
            transform("b", "{{ 1 / a.value }}", ["a"]),
        )
    ):
        async with running(tmp_path) as engine:
            state = await finish(engine, workflow(task("a", args={"value": 0}), node), f"r{number}")
            assert state.state is R.FAILED, node
            assert state.find("b").error.code == "template_error"
            assert state.find("b").attempt == 1


async def test_a_failure_of_a_template_can_be_handled_in_the_graph(tmp_path):
    definition = workflow(
        task("a"), task("b", "echo", ["a"], args={"value": "{{ a.x.y }}"}, on_failure={"path": ["c"]}), task("c")
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert (state.state, state_of(state, "c")) == (R.COMPLETED, "completed")


async def test_an_unknown_node_type_is_a_clean_failure(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(task("a"), {"id": "b", "type": "teleport", "dependencies": ["a"]}))
        assert (state.state, state.error.code) == (R.FAILED, "unknown_type")
        assert "teleport" in state.error.message


async def test_outputs_that_cannot_be_rendered_fail_the_run(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(task("a"), outputs={"x": "{{ a.nothing.there }}"}))
        assert (state.state, state.error.code) == (R.FAILED, "output_error")


@pytest.mark.slow
async def test_idle_runs_leave_memory_and_come_back(tmp_path):
    definition = workflow(
        task("a"),
        {"id": "w", "type": "wait", "config": {"signal": "go"}, "dependencies": ["a"]},
        task("b", "echo", ["w"]),
    )
    async with running(tmp_path) as engine:
        engine.coordinator.memory._keep_idle = 3
        for number in range(20):
            await start(engine, definition, f"r{number}")
            await until(engine, lambda state: state_of(state, "w") == "waiting", f"r{number}")
        assert len(engine.coordinator.memory.runs) <= 4
        for number in range(20):
            await ask(engine, "signal", f"r{number}", name="go")
        for number in range(20):
            assert (await ended(engine, f"r{number}")).state is R.COMPLETED
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")
        assert len(tasks.seen) == 40


async def test_the_same_run_id_is_started_once(tmp_path):
    definition = workflow(task("a"))
    async with running(tmp_path) as engine:
        assert not (await start(engine, definition)).refused
        assert (await start(engine, definition)).code == "exists"
        await ended(engine)
        assert (await start(engine, definition)).code == "exists"
        assert len(tasks.seen) == 1


async def test_what_does_not_exist_is_refused(tmp_path):
    async with running(tmp_path) as engine:
        for kind in ("pause", "resume", "cancel", "retry", "rollback", "signal"):
            assert (await ask(engine, kind, "nobody")).code in ("not_found", "unknown_run")
        await start(engine, workflow(task("a", "gate", args={"name": "a"})))
        assert (await ask(engine, "requeue", node="nothing")).refused
        assert (await ask(engine, "discard", node="nothing")).refused
        assert (await ask(engine, "requeue", node="a")).refused
        assert (await ask(engine, "vote", approval="nothing", by="x")).code == "unknown_approval"
        tasks.gate_of("a").set()
        assert (await ended(engine)).state is R.COMPLETED


async def test_a_node_on_another_queue_runs_in_the_embedded_engine(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, workflow(task("a", "echo", queue="gpu")))
        state = await ended(engine, seconds=1.0)
        assert state.state is R.COMPLETED


async def test_a_sync_function_runs_in_a_thread(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(task("a", "echo_in_thread", args={"value": 1})))
        assert output_of(state, "a") == {"value": 1}


async def test_a_number_that_no_snapshot_holds_costs_only_the_snapshot(tmp_path, monkeypatch):
    from perdure.runtime.coordinator import loaded

    monkeypatch.setattr(loaded, "SNAPSHOT_EVERY", 3)
    nodes = [{"id": "a", "type": "transform", "config": {"jq": "100000000000000000000", "input": 1}}]
    nodes += [task(f"b{n}", "echo", [f"b{n - 1}" if n else "a"]) for n in range(5)]
    async with running(tmp_path) as engine:
        await start(engine, workflow(*nodes))
        await until(engine, lambda state: state.state is R.COMPLETED)
        assert await engine.journal.find_snapshot("r1") is None


async def test_snapshots_are_used_when_a_run_is_loaded(tmp_path, monkeypatch):
    from perdure.runtime.coordinator import loaded

    monkeypatch.setattr(loaded, "SNAPSHOT_EVERY", 10)
    loop = {"condition": "!output.done", "max_iterations": 100}
    definition = workflow(
        task("again", "count", args={"upto": 20}, loop=loop),
        {"id": "w", "type": "wait", "config": {"signal": "go"}, "dependencies": ["again"]},
        task("b", "echo", ["w"]),
    )
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until(engine, lambda state: state_of(state, "w") == "waiting")
        kept = await engine.journal.find_snapshot("r1")
        assert kept is not None
        assert kept.seq >= 10
    async with running(tmp_path) as engine:
        read = []
        original = engine.journal.read_events

        async def spy(run_id, after=0, limit=1000):
            read.append(after)
            return await original(run_id, after, limit)

        engine.journal.read_events = spy
        await ask(engine, "signal", name="go")
        assert read[0] >= kept.seq
        engine.journal.read_events = original
        assert (await ended(engine)).state is R.COMPLETED


@pytest.mark.parametrize("what", ["garbage", "nothing"])
async def test_a_snapshot_that_cannot_be_read_is_not_needed(tmp_path, monkeypatch, what):
    import sqlite3

    from perdure.runtime.coordinator import loaded

    monkeypatch.setattr(loaded, "SNAPSHOT_EVERY", 5)
    definition = workflow(
        *[task(f"n{number}") for number in range(10)],
        {"id": "w", "type": "wait", "config": {"signal": "go"}, "dependencies": [f"n{number}" for number in range(10)]},
    )
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until(engine, lambda state: state_of(state, "w") == "waiting")
    with sqlite3.connect(tmp_path / "perdure.db") as connection:
        changed = connection.execute("UPDATE snapshots SET body = ?", (b"x" if what == "garbage" else b"",)).rowcount
        assert changed == 1
    connection.close()
    async with running(tmp_path) as engine:
        assert not (await ask(engine, "signal", name="go")).refused
        assert (await ended(engine)).state is R.COMPLETED


async def test_inputs_that_cannot_be_stored_are_refused_and_hurt_nobody(tmp_path):
    async with running(tmp_path) as engine:
        with pytest.raises(Exception, match=r"(?i)(encod|unsupported|type)"):
            await start(engine, workflow(task("a")), "bad", inputs={"x": object()})
        state = await finish(engine, workflow(task("a")), "good")
        assert state.state is R.COMPLETED


@pytest.mark.parametrize("value", ["{{ inputs.n ** 200 }}", "{{ inputs.d.keys }}"])
async def test_a_transform_that_gives_no_plain_data_fails_alone(tmp_path, value):
    definition = workflow(transform("t", value))
    async with running(tmp_path) as engine:
        reply = await start(engine, definition, "odd", inputs={"d": {"a": 1}, "n": 10**6})
        state = await finish(engine, workflow(task("a")), "good")
        assert state.state is R.COMPLETED
        assert reply.refused or (await ended(engine, "odd")).state in (R.FAILED, R.COMPLETED)


async def test_a_template_that_calls_something_is_refused_before_it_is_stored(tmp_path):
    async with running(tmp_path) as engine:
        with pytest.raises(DefinitionError, match="nothing can be called"):
            await engine.workflows.register(compiled(workflow(transform("t", "{{ inputs.d.items() }}"))))
