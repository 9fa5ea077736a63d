"""Dead letters through the real engine: requeued and discarded."""

from __future__ import annotations

import pytest

from perdure import functions
from perdure.kernel.lifecycle import RunState
from tests.engine.helpers import ask, ended, output_of, running, start, state_of, task, until, workflow

R = RunState
QUICK = {"max_attempts": 3, "backoff_ms": 10, "jitter": False}


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


paid: list[str] = []


async def pay(ctx):
    async def charge():
        paid.append("charged")
        raise RuntimeError("the answer never came")

    receipt = await ctx.step("charge", charge, effect="at_most_once")
    return {"receipt": receipt}


async def test_a_person_says_what_a_step_in_doubt_gave(tmp_path):
    """H21: it happened, and is not made again; the run goes on with what it gave."""
    paid.clear()
    node = {"id": "a", "type": "task", "config": {"function": functions.define(pay, pay)}}
    definition = workflow(node, task("b", "echo", ["a"], args={"value": "{{ a.receipt }}"}))
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until(engine, lambda state: state_of(state, "a") == "parked")
        refused = await ask(engine, "requeue", node="a", steps={"chrge": "r7"})
        assert "no step 'chrge'" in refused.message
        assert not (await ask(engine, "requeue", node="a", steps={"charge": "r7"})).refused
        state = await ended(engine)
        assert (state.state, output_of(state, "b")["value"], paid) == (R.COMPLETED, "r7", ["charged"])
