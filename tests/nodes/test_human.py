"""`human` in the real engine: who may decide, how many it takes, and what time does."""

import pytest

from perdure.expressions.json_schema import check as misfits
from perdure.model import DefinitionError
from perdure.nodes import human
from tests.engine.helpers import (
    ask,
    compiled,
    ended,
    finish,
    output_of,
    running,
    start,
    state_of,
    transform,
    until,
    workflow,
)


def asking(node=None, after=(), **config):
    more = node or {}
    return workflow(
        transform("draft", {"text": "hello"}),
        {"id": "ok", "type": "human", "dependencies": ["draft"], "config": config, **more},
        *after,
    )


async def approval_of(engine, run_id="r1"):
    state = await until(engine, lambda state: bool(state.approvals), run_id)
    return next(iter(state.approvals.items()))


async def test_the_output_is_the_decision_and_what_was_shown(tmp_path):
    async with running(tmp_path) as engine:
        await start(
            engine, asking(approvers="ann", show={"of": "{{ draft.text }}"}, approval_ui_url="https://ui.test/")
        )
        name, approval = await approval_of(engine)
        shown = {"draft": {"text": "hello"}, "show": {"of": "hello"}, "approval_ui_url": "https://ui.test/"}
        assert (approval.approvers, approval.quorum, approval.shown) == (("ann",), 1, shown)
        await ask(engine, "vote", approval=name, by="ann", comments="fine", data={"n": 1})
        found = output_of(await ended(engine), "ok")
    assert found == {**shown, "decision": "approve", "decided_by": "ann", "comments": "fine", "data": {"n": 1}}
    assert misfits(human.TYPE.output_schema, found) == []


@pytest.mark.parametrize(
    ("node", "seconds", "on_timeout"),
    [
        (
            {"human_config": {"timeout_hours": 48, "escalation_policy": "auto_approve_after_timeout"}},
            172_800,
            "approve",
        ),
        ({"human_config": {"timeout_hours": 0.5, "on_timeout": "escalate", "escalate_to": ["boss"]}}, 1800, "escalate"),
        ({"config": {"timeout_seconds": 60}}, 60, "reject"),
        ({"timeout_seconds": 90}, 90, "reject"),
        ({"limits": {"deadline_s": 30}}, 30, "reject"),
        ({}, None, "reject"),
    ],
)
async def test_the_time_to_decide_may_be_written_in_every_documented_place(tmp_path, node, seconds, on_timeout):
    async with running(tmp_path) as engine:
        await start(engine, asking(node=node, **node.pop("config", {})))
        _, approval = await approval_of(engine)
        assert approval.on_timeout == on_timeout
        given = None if approval.expires_at is None else approval.expires_at - approval.requested_at
        assert given == (None if seconds is None else pytest.approx(seconds))
        await ask(engine, "cancel")
        await ended(engine)


async def test_a_timeout_rejects_and_the_rejection_path_sees_it(tmp_path):
    after = [transform("no", "{{ ok.decided_by }}"), transform("yes", 1, ["ok"])]
    async with running(tmp_path) as engine:
        state = await finish(engine, asking(node={"rejection_path": ["no"]}, after=after, timeout_seconds=0.02))
    assert (state_of(state, "no"), state_of(state, "yes")) == ("completed", "skipped")
    assert (output_of(state, "no"), output_of(state, "ok")["decision"]) == ("timeout", "reject")


async def test_nobody_after_the_escalation_either_is_a_rejection(tmp_path):
    async with running(tmp_path) as engine:
        config = {"approvers": ["ann"], "timeout_seconds": 0.02, "on_timeout": "escalate", "escalate_to": "boss"}
        state = await finish(engine, asking(**config))
        found = next(iter(state.approvals.values()))
    assert (state.error.code, found.escalated, found.approvers) == ("rejected", True, ("boss",))


async def test_approvers_may_come_from_the_run(tmp_path):
    async with running(tmp_path) as engine:
        await start(
            engine,
            asking(approvers="{{ inputs.who }}", quorum="{{ inputs.k }}"),
            inputs={"who": ["ann", "bob"], "k": 2.0},
        )
        name, approval = await approval_of(engine)
        assert (approval.approvers, approval.quorum) == (("ann", "bob"), 2)
        assert type(approval.quorum) is int, "2.0 stood in an event that nobody could read again"
        await ask(engine, "vote", approval=name, by="ann")
        await ask(engine, "vote", approval=name, by="bob")
        assert output_of(await ended(engine), "ok")["decided_by"] == "bob"


async def test_whoever_is_named_twice_has_one_vote(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, asking(approvers=["ann", "ann", "bob"], quorum=2))
        name, approval = await approval_of(engine)
        assert approval.approvers == ("ann", "bob")
        await ask(engine, "vote", approval=name, by="ann")
        assert not (await engine.runs.state("r1")).terminal
        await ask(engine, "vote", approval=name, by="bob")
        await ended(engine)


async def test_one_rejection_too_many_decides_at_once(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, asking(approvers=["ann", "bob", "cyd"], quorum=2))
        name, _ = await approval_of(engine)
        await ask(engine, "vote", approval=name, by="ann", decision="reject")
        assert not (await engine.runs.state("r1")).terminal
        await ask(engine, "vote", approval=name, by="cyd", decision="reject")
        assert (await ended(engine)).error.code == "rejected"


@pytest.mark.parametrize(
    ("config", "path", "words"),
    [
        ({"approvers": ["ann"], "quorum": 2}, "quorum", "2 of 1 approvers is impossible"),
        ({"approvers": ["ann", "ann"], "quorum": 2}, "quorum", "2 of 1 approvers"),
        ({"approvers": ["a", "b"], "quorum": 2, "escalate_to": ["c"]}, "quorum", "2 of 1 escalate_to"),
        ({"approvers": [7]}, "approvers[0]", "must be text"),
        ({"aprovers": ["ann"]}, "aprovers", "did you mean 'approvers'?"),
        ({"form": "x"}, "form", "must be an object"),
    ],
)
async def test_what_cannot_work_is_refused_before_it_runs(tmp_path, config, path, words):
    async with running(tmp_path) as engine:
        with pytest.raises(DefinitionError) as caught:
            await engine.workflows.register(compiled(asking(**config)))
    [problem] = caught.value.problems
    assert problem.path == f"nodes.ok.config.{path}"
    assert words in problem.message


async def test_what_turns_out_not_to_work_fails_and_asks_nobody(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, asking(approvers="{{ inputs.who }}", quorum=2), inputs={"who": ["ann"]})
    assert (state.error.code, state.approvals) == ("bad_config", {})
