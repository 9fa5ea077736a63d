"""Triggers inside a run, in a real engine: each item is taken once and in order, whoever dies (rule 54)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.access import LOCAL
from perdure.doctor import examine
from perdure.engine import Engine
from perdure.kernel import continuations
from perdure.kernel import events as e
from perdure.service import Service
from perdure.sources import Item, Polled, Source
from tests.engine.helpers import check, crash, ended, events, opened, running, start, transform, until
from tests.engine.helpers import workflow as make


class Lines(Source, name="test_lines"):
    """A list that the tests write; its cursor is how many were read."""

    items: list[Any] = []

    async def poll(self, cursor: str | None) -> Polled:
        begin = int(cursor or 0)
        page = Lines.items[begin : begin + 2]
        if page == ["end"]:
            return Polled((), str(begin + 1), end=True)
        made = tuple(Item(f"n{begin + place}", one) for place, one in enumerate(page))
        return Polled(made, str(begin + len(page)), more=begin + len(page) < len(Lines.items))


def consumer(**config: Any) -> dict[str, Any]:
    """An endless loop over what comes, until something says `stop`."""
    took = {"n": "{{ take.payload }}" if "event" in config else "{{ take.data }}"}
    loop = {"condition": "output.n != 'stop'", "loop_back_to": "take", "endless": True}
    work = transform("work", took) | {"dependencies": ["take"], "loop": loop}
    return make({"id": "take", "type": "trigger", "config": config}, work)


POLL = {"type": "test_lines", "every": "1s", "from": "start"}


async def taken(engine: Engine, *run_ids: str) -> list[Any]:
    found = [one for run_id in run_ids or ("r1",) for one in await events(engine.journal, run_id)]
    outputs = [one.output for one in found if isinstance(one, e.NodeCompleted) and one.node == "take"]
    return [one["data"] if "data" in one else one["payload"] for one in outputs]


async def sound(engine: Engine, *run_ids: str) -> None:
    for run_id in run_ids or ("r1",):
        await check(engine.journal, run_id)
        assert await engine.journal.read_subscriptions(run_id) == []
    assert (await examine(engine.journal, engine.library)).findings == []


async def send(engine: Engine, *payloads: Any, key: str = "") -> None:
    for one in payloads:
        await Service(engine, LOCAL).events.send("order.paid", one, key=key)


async def test_events_are_taken_one_after_the_other_also_those_that_came_just_before(tmp_path):
    async with running(tmp_path) as engine:
        await send(engine, "before")  # since the beginning of the run, and a second before by the clock
        await start(engine, consumer(event={"name": "order.paid"}))
        await send(engine, 1, 2, "stop", "after")
        await ended(engine)
        assert await taken(engine) == ["before", 1, 2, "stop"]
        await sound(engine)


async def test_only_events_of_the_key_are_taken_which_may_be_a_template(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, consumer(event={"name": "order.paid", "key": "{{ inputs.who }}"}), inputs={"who": 7})
        await send(engine, "no", key="8")
        await send(engine, 1, "stop", key="7")
        await ended(engine)
        assert await taken(engine) == [1, "stop"]
        await sound(engine)


async def test_what_the_filter_leaves_out_is_counted(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, consumer(event={"name": "order.paid"}, filter="item.payload != 2"))
        await send(engine, 1, 2, 3, "stop")
        state = await ended(engine)
        assert await taken(engine) == [1, 3, "stop"]
        skipped = [one for one in await events(engine.journal) if isinstance(one, e.TriggerSkipped)]
        assert [(one.reason, one.count) for one in skipped] == [("filter", 1)]
        assert state.triggers["take"].position == 3


@pytest.mark.slow
async def test_consuming_at_100_and_killed_exactly_101_to_105_come_in_order(tmp_path):
    Lines.items[:] = [100]
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, consumer(poll=POLL))
    await until(engine, lambda state: state.find("take", (2,)) is not None)
    await crash(engine)
    Lines.items += [101, 102, 103, 104, 105, "stop"]
    async with running(tmp_path) as engine:
        await ended(engine)
        assert await taken(engine) == [100, 101, 102, 103, 104, 105, "stop"]
        await sound(engine)


async def test_what_the_filter_cannot_compare_is_a_dead_letter_that_may_be_taken_or_left(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, consumer(event={"name": "order.paid"}, filter="item.payload.n > 0"))
        await send(engine, "odd", "odder", {"n": 1})
        await until(engine, lambda state: state.find("take", (2,)) is not None)
        letters = Service(engine, LOCAL).dead_letters
        rows = (await engine.journal.list_dead_letters(state="pending")).items
        first, second = sorted(one.dead_letter_id for one in rows)
        assert (await letters.get(first))["inputs"]["payload"] == "odd"
        await letters.discard(first)
        await letters.requeue(second, config={"payload": "stop"})
        await ended(engine)
        assert await taken(engine) == [{"n": 1}, "stop"]
        await sound(engine)


@pytest.mark.slow
async def test_a_source_is_polled_also_by_a_process_that_leaves_triggers_alone(tmp_path):
    Lines.items[:] = [1, "stop"]
    async with running(tmp_path, triggers=False) as engine:
        await start(engine, consumer(poll=POLL))
        await ended(engine)
        assert await taken(engine) == [1, "stop"]


@pytest.mark.slow
async def test_a_source_that_has_ended_fails_the_node(tmp_path):
    Lines.items[:] = [1, 2, "end"]
    async with running(tmp_path) as engine:
        await start(engine, consumer(poll=POLL))
        state = await ended(engine)
        assert (await taken(engine), state.error.code) == ([1, 2], "source_ended")
        await sound(engine)


async def test_the_run_that_continues_goes_on_with_what_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(continuations, "LONG_JOURNAL", 15)
    async with running(tmp_path) as engine:
        await start(engine, consumer(event={"name": "order.paid"}))
        await send(engine, *range(20), "stop")
        runs = ["r1"]
        while (state := await ended(engine, runs[-1])).continued_as is not None:
            runs.append(state.continued_as)
        assert len(runs) > 2
        assert await taken(engine, *runs) == [*range(20), "stop"]
        await sound(engine, *runs)


async def test_a_moment_is_taken_when_it_is_due(tmp_path):
    take = {"id": "take", "type": "trigger", "config": {"schedule": {"every": "1s"}}}
    async with running(tmp_path) as engine:
        await start(engine, make(take, name="timed"))
        state = await ended(engine)
        output = state.find("take").output
        assert (sorted(output), output["number"]) == (["at", "next", "number", "previous"], 1)
        await sound(engine)
