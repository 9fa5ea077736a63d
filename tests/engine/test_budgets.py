"""Budgets through the real engine: what is used never passes the limit, nothing is lost, and more money goes on (rules 82 to 84)."""

from __future__ import annotations

import pytest

from perdure.model.money import Budget, Usage
from perdure.service import Service
from perdure.service.errors import Invalid
from perdure.service.runs.run_usage import usage_of
from tests.attack.marks import attack
from tests.engine import tasks
from tests.engine.helpers import ask, compiled, ended, output_of, running, start, state_of, task, until, workflow

CALLS = {"limits": {"budget": {"calls": 40}}}


@pytest.mark.slow
async def test_many_at_once_never_pass_the_limit_and_all_finish_with_more(tmp_path):
    definition = workflow(*(task(f"n{number}", "calls") for number in range(64)), **CALLS)
    async with running(tmp_path, concurrency=16) as engine:
        await start(engine, definition)
        state = await until(engine, lambda state: state.state == "paused" and not state.money.reserved)
        await until(engine, lambda state: not state.tally.get("queued"))
        assert len(tasks.seen) == 40 == state.money.spent.calls
        assert set(state.pauses) == {"budget"}
        refused = await ask(engine, "resume")
        assert (refused.code, "its budget is 40 calls" in refused.message) == ("budget_exhausted", True)
        await ask(engine, "resume", budget=Budget(calls=64))
        state = await ended(engine)
        assert (state.state, len(tasks.seen)) == ("completed", 64)
        assert state.money.spent == Usage(calls=64, input=640, usd=64_000)
        assert all(state.find(f"n{number}").tries == 1 for number in range(64))


async def test_calls_of_one_attempt_wait_for_each_other_and_none_is_lost(tmp_path):
    args = {"count": 8, "used": 1, "estimate": 16, "at_once": True}
    definition = workflow(task("a", "calls", args=args), limits={"budget": {"calls": 23}})
    async with running(tmp_path) as engine:
        await start(engine, definition)
        state = await ended(engine)
        assert (state.state, output_of(state, "a")) == ("completed", list(range(8)))
        assert (len(tasks.seen), state.money.spent.calls, state.money.unsettled) == (8, 8, Usage())


async def test_a_call_that_did_not_happen_costs_nothing_and_one_in_a_thread_is_counted(tmp_path):
    definition = workflow(
        task("a", "calls_nobody"), task("b", "calls_in_a_thread", ["a"]), limits={"budget": {"calls": 4, "tokens": 50}}
    )
    async with running(tmp_path) as engine:
        await start(engine, definition)
        state = await ended(engine)
        assert state.state == "completed"
        view = usage_of(state)
        assert view["total"] | {"usd": 0} == {**Usage(output=7, calls=4).shown(), "usd": 0}
        assert view["by_node"]["b"]["output"] == 7
        assert view["budget"] == {"calls": 4, "tokens": 50, "on_exceed": "pause"}


async def test_a_refused_thread_gives_its_work_back_and_is_entered_again(tmp_path):
    definition = workflow(task("b", "calls_in_a_thread"), limits={"budget": {"tokens": 49}})
    async with running(tmp_path) as engine:
        await start(engine, definition)
        state = await until(engine, lambda state: state.state == "paused")
        assert (state_of(state, "b"), state.find("b").wants.output, tasks.seen) == ("held", 50, [])
        await ask(engine, "resume", budget=Budget(tokens=50))
        assert output_of(await ended(engine), "b") == "done"


async def test_a_budget_that_fails_fails_the_node(tmp_path):
    definition = workflow(task("a", "calls", args={"count": 3}), limits={"budget": {"usd": 0.002, "on_exceed": "fail"}})
    async with running(tmp_path) as engine:
        await start(engine, definition)
        state = await ended(engine)
        assert (state.state, state.error.code, len(tasks.seen)) == ("failed", "budget_exhausted", 2)
        assert "its budget is $0.002" in state.error.message
        await ask(engine, "retry", budget=Budget(usd=1_000_000))
        state = await ended(engine)
        assert (state.state, len(tasks.seen)) == ("completed", 3)


async def test_what_children_use_is_their_parents_too(tmp_path):
    inner = workflow(task("c", "calls", args={"count": 2}), name="child")
    nodes = [
        {"id": f"w{number}", "type": "workflow", "config": {"workflow": "child", "budget": {"calls": 2}}}
        for number in range(2)
    ]
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(inner))
        await start(engine, workflow(*nodes, task("a", "calls", ["w0", "w1"]), **CALLS))
        state = await ended(engine)
        assert state.state == "completed"
        assert (state.money.spent.calls, state.money.children.calls, state.money.lent) == (5, 4, Usage())


async def test_events_ledger_and_service_say_the_same_and_children_count_once(tmp_path):
    """Rule 85: a run counts what it used itself, also when its calls have no known end."""
    inner = workflow(task("c", "calls", args={"count": 2}), name="child")
    call = {"id": "w", "type": "workflow", "config": {"workflow": "child"}}
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(inner))
        await start(engine, workflow(call, task("a", "calls", ["w"], args={"count": 3})))
        state = await ended(engine)
        assert (state.state, state.money.spent.calls) == ("completed", 5)
        system = Service.of_owner(engine, "ann").system
        found = await system.usage(by="workflow")
        assert {one["name"]: one["calls"] for one in found["items"]} == {state.workflow: 3, "child": 2}
        total = found["total"]
        assert {name: total[name] for name in ("calls", "input", "output", "usd")} == {
            name: state.money.spent.shown()[name] for name in ("calls", "input", "output", "usd")
        }
        assert (total["unsettled"], found["more"]) == ({"calls": 0, "usd": 0.0}, False)
        assert (await system.usage(by="day", workflow="child"))["total"]["calls"] == 2
        assert (await system.usage(since="2001-01-01", until="2001-01-02"))["total"]["calls"] == 0
        assert (await system.usage(until="9999-12-31"))["total"] == total, (
            "it was an internal error: no day is behind it"
        )
        with pytest.raises(Invalid, match="is no day"):
            await system.usage(since="yesterday")


@pytest.mark.slow
async def test_the_runs_of_a_tenant_stay_within_its_budget_and_go_on_when_it_is_raised(tmp_path):
    definition = workflow(*(task(f"n{number}", "calls") for number in range(8)))
    async with running(tmp_path, concurrency=8) as engine:
        budgets = Service.of_owner(engine).budgets
        assert (await budgets.set("tenant", calls=10, per="day", share=1))["used"]["calls"] == 0
        runs = ["r1", "r2", "r3"]
        for run_id in runs:
            await start(engine, definition, run_id=run_id)
        states = {}
        for run_id in runs:
            states[run_id] = await until(engine, lambda state: state.terminal or state.state == "paused", run_id)
        await until(engine, lambda state: not state.tally.get("queued"), "r3")
        for run_id in runs:
            await until(engine, lambda state: not state.money.reserved, run_id)
        assert len(tasks.seen) == 10
        shown = await budgets.get("tenant")
        assert (shown["used"]["calls"], shown["reserved"]["calls"]) == (10, 0)
        paused = [run_id for run_id in runs if not states[run_id].terminal]
        assert len(paused) >= 2
        await ask(engine, "resume", run_id=paused[0])
        state = await until(engine, lambda state: "budget:tenant" in state.pauses, paused[0])
        assert "budget" in state.timers
        await budgets.set("tenant", calls=100, per="day", share=1)
        for run_id in paused:
            while not (await until(engine, lambda state: True, run_id)).terminal:
                await until(engine, lambda state: state.terminal or state.state == "paused", run_id)
                await ask(engine, "resume", run_id=run_id)
        assert len(tasks.seen) == 24


@attack("S30", "a budget of a workflow whose name reads as another")
@pytest.mark.parametrize("name", ["pay\u200b", "pay\u00a0", "p\u0430y ", "pay\x1b[2J", "", "a/b", "\u202eyap"])
async def test_a_budget_is_of_a_name_that_a_workflow_can_have(tmp_path, name):
    async with running(tmp_path) as engine:
        budgets = Service.of_owner(engine, "ann").budgets
        with pytest.raises(Invalid, match="is no scope of a budget"):
            await budgets.set(f"workflow:{name}", calls=1)
        assert (await budgets.list())["items"] == []
