"""Runs that wait for events by name, in a real engine: one that came before the wait is not missed, whoever dies (rule 53)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.access import LOCAL
from perdure.doctor import examine
from perdure.engine import Engine
from perdure.kernel.segments import SEALED
from perdure.service import Service
from perdure.service.errors import Invalid
from tests.engine import tasks
from tests.engine.helpers import (
    check,
    crash,
    ended,
    finish,
    opened,
    output_of,
    running,
    start,
    state_of,
    task,
    until,
    until_true,
    workflow,
)


async def send(engine: Engine, n: Any, name: str = "order.paid", **about: Any) -> Any:
    return await Service(engine, LOCAL).events.send(name, {"n": n}, **about)


def waiting(**config: Any) -> dict[str, Any]:
    return workflow({"id": "w", "type": "wait", "config": {"event": "order.paid", **config}})


async def begun(engine: Engine, run_id: str = "r1") -> None:
    await until(engine, lambda state: state_of(state, "w") == "waiting", run_id)


async def has_passed(engine: Engine, position: int) -> bool:
    return list(engine.topic_reader._passed.values()) == [position]


async def sound(engine: Engine, *runs: str) -> None:
    for run_id in runs or ("r1",):
        await check(engine.journal, run_id)
        assert await engine.journal.read_subscriptions(run_id) == []
    assert (await examine(engine.journal, engine.library)).findings == []


@pytest.mark.parametrize("early", [True, False])
async def test_an_event_is_taken_whether_it_comes_before_the_wait_or_after(tmp_path, early):
    wait = {"id": "w", "type": "wait", "config": {"event": "order.paid", "key": "o1"}, "dependencies": ["a"]}
    async with running(tmp_path) as engine:
        await start(engine, workflow(task("a", "gate", args={"name": "a"}), wait))
        if not early:
            tasks.gate_of("a").set()
            await begun(engine)
        await send(engine, 1, key="o2")
        await send(engine, 2, "order.sent", key="o1")
        await send(engine, 3, key="o1", id="p3")
        await send(engine, 4, key="o1")
        tasks.gate_of("a").set()
        assert output_of(await ended(engine), "w") == {"n": 3}
        await sound(engine)


async def test_match_compares_with_what_is_given_and_what_it_cannot_compare_does_not_match(tmp_path):
    async with running(tmp_path) as engine:
        await start(
            engine, waiting(match="event.n > given.least", given={"least": "{{ inputs.least }}"}), inputs={"least": 5}
        )
        await begun(engine)
        for n in (3, "x", None, 5):
            await send(engine, n)
        last = await engine.journal.last_occurrence()
        await until_true(lambda: has_passed(engine, last), "nothing of it matches")
        await begun(engine)
        await send(engine, 6)
        assert output_of(await ended(engine), "w") == {"n": 6}
        await sound(engine)


async def test_a_large_payload_is_a_blob(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, waiting())
        await begun(engine)
        await send(engine, "x" * 200_000)
        state = await ended(engine)
        activation = state.find("w")
        assert activation.output is None
        assert activation.output_ref is not None
        assert state.bytes > 200_000
        await sound(engine)


@pytest.mark.slow
async def test_what_comes_while_nobody_is_there_is_heard_by_the_next_process(tmp_path):
    engine = await opened(tmp_path)
    await engine.hold()
    for number in range(5):
        await start(engine, waiting(key="{{ run.id }}"), run_id=f"r{number}")
        await begun(engine, f"r{number}")
    await crash(engine)
    other = await opened(tmp_path)  # it decides nothing
    for number in range(5):
        await send(other, number, key=f"r{number}")
    await other.close()
    async with running(tmp_path) as engine:
        for number in range(5):
            assert output_of(await ended(engine, f"r{number}"), "w") == {"n": number}
        await sound(engine, *(f"r{number}" for number in range(5)))


async def test_a_wait_that_is_over_leaves_nothing_behind(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, waiting(seconds=0.05))
        assert state.error.code == "event_timeout"
        await sound(engine)


async def test_nobody_sends_what_is_sealed(tmp_path):
    async with running(tmp_path) as engine:
        with pytest.raises(Invalid):
            await send(engine, {SEALED: "v1.x"})
