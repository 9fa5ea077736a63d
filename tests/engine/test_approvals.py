"""Approvals through the real engine: quorums, rejections and decisions that nobody takes."""

from __future__ import annotations

import pytest

from perdure.clock import OffsetClock, system
from perdure.doctor import Finding, Report
from perdure.doctor.repair import repair
from perdure.kernel.lifecycle import RunState
from tests.engine.helpers import ask, ended, events, finish, output_of, running, start, state_of, task, until, workflow

R = RunState


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
    """However slow the machine: the boss has an hour too, by a clock that is set forward by one."""
    config = {"approvers": ["x"], "timeout_seconds": 3600, "on_timeout": "escalate", "escalate_to": ["boss"]}
    clock = OffsetClock(system)
    async with running(tmp_path, clock=clock) as engine:
        await start(engine, human(**config))
        approval = await approval_of(engine)
        clock.set(system.now() + 3601, system.monotonic())
        engine.timekeeper.look_soon()
        await until(engine, lambda state: state.approvals[approval].escalated)
        assert not (await ask(engine, "vote", approval=approval, by="boss")).refused
        assert (await ended(engine)).state is R.COMPLETED


async def test_only_a_decision_has_a_time_of_decision_and_repair_keeps_it(tmp_path):
    async with running(tmp_path) as engine:
        for run_id in ("cancelled", "decided"):
            await start(engine, human(approvers=["x"]), run_id)
        names = {run_id: await approval_of(engine, run_id) for run_id in ("cancelled", "decided")}
        await ask(engine, "cancel", "cancelled")
        await ask(engine, "vote", "decided", approval=names["decided"], by="x")
        for run_id in names:
            await ended(engine, run_id)
        [at] = [one.at for one in await events(engine.journal, "decided") if one.type == "approval.decided"]

        async def rows():
            found = [await engine.journal.get_approval(name) for name in names.values()]
            return [(row.state, row.decided_at) for row in found]

        before = await rows()
        assert before == [("decided", None), ("decided", at)]
        findings = [Finding(run_id, "J5", "as if") for run_id in names]
        done = await repair(engine.journal, engine.library, engine.clock, Report(findings=findings))
        assert sorted(done.runs) == sorted(names)
        assert done.left == {}
        assert await rows() == before
