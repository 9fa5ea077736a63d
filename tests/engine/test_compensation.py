"""Compensation through the real engine."""

from __future__ import annotations

import msgspec

from perdure.kernel.lifecycle import RunState
from tests.engine import tasks
from tests.engine.helpers import ask, events, finish, running, start, state_of, task, until, until_true, workflow

R = RunState


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
