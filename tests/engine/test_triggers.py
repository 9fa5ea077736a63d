"""Triggers in a real engine: what is pushed starts runs once each, also across restarts; schedules fire; ends are heard (rules 45 to 50, 52)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.engine import Engine
from perdure.kernel import commands as c
from perdure.kernel import continuations
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.lifecycle import RunState
from perdure.kernel.segments import BlobRef
from perdure.kernel.triggers import trigger_commands
from perdure.kernel.triggers.mailbox import Mailbox, Policy, Rate, run_of_item, run_of_window
from perdure.model.triggers import Trigger
from perdure.runtime.coordinator import loaded
from perdure.runtime.coordinator.ownership.listener import Listener
from perdure.runtime.coordinator.requests import Request, encode_request
from perdure.runtime.lost_runs import LostRuns
from perdure.runtime.triggers import trigger_id
from perdure.triggers.declarations import read_data
from tests.engine import tasks
from tests.engine.helpers import (
    ask,
    check,
    compiled,
    crash,
    ended,
    opened,
    running,
    start,
    transform,
    until_true,
    workflow,
)

R = RunState
HOOK = trigger_id("default", "orders")
PLAIN = workflow(transform("a", {"n": "{{ inputs.n }}"}), name="report")
WAITS = workflow({"id": "s", "type": "wait", "config": {"signal": "go"}}, name="report")


def policy(**fields: Any) -> Policy:
    return Policy(**{"workflow": "report", "overlap": "buffer", "open": 100, **fields})


def item(name: str, **fields: Any) -> c.Delivered:
    return c.Delivered(id=name, inputs={"n": name}, **fields)


async def register(
    engine: Engine, definition: dict[str, Any] | None, kind: str = "webhook", spec: Any = None, **fields: Any
) -> None:
    if definition is not None:
        await engine.workflows.register(compiled(definition))
    reply = await engine.triggers.register("orders", kind, spec, policy(**fields))
    assert not reply.refused, reply


async def idle(engine: Engine, received: int) -> Mailbox:
    """What the trigger holds once every item has had its run, and every run has ended for it."""

    async def is_idle() -> Mailbox | None:
        box = await engine.triggers.get("orders")
        return box if box.position >= received and not box.waiting and not box.open else None

    await until_true(is_idle, "the trigger is idle")
    found = await is_idle()
    assert found is not None
    return found


async def test_what_is_pushed_starts_one_run_each_however_often_it_comes(tmp_path):
    async with running(tmp_path) as engine:
        await register(engine, PLAIN)
        for names in ("abc", "bcd", "a"):
            assert not (await engine.triggers.deliver("orders", [item(one) for one in names], 1)).refused
        assert (await idle(engine, 4)).position == 4
        for name in "abcd":
            state = await ended(engine, run_of_item(HOOK, name))
            assert (state.state, state.inputs, state.submitted_by) == (R.COMPLETED, {"n": name}, "trigger:orders")
            assert state.tags == {"trigger": "orders", "trigger_item": name}
        await check(engine.journal, HOOK)
        assert await engine.journal.read_notices(None, 0, 10) == []


async def test_what_a_trigger_starts_waits_while_too_many_tasks_do(tmp_path):
    """Rule 46: as what people start is refused then; nothing is lost, and it goes on by itself."""
    work = {"type": "task", "config": {"function": "tests.engine.tasks:gate", "args": {"name": "backlog"}}}
    working = workflow({"id": "a", **work}, name="report")
    async with running(tmp_path, concurrency=1, max_backlog=3) as engine:
        await register(engine, working, overlap="allow")
        await start(engine, workflow(*[{"id": f"g{number}", **work} for number in range(10)]))
        await until_true(lambda: not engine.coordinator.publisher.room, "much waits")
        await engine.triggers.deliver("orders", [item("a"), item("b")], 1)
        await engine.listener.catch_up()
        await engine.coordinator.settled()
        names = [run_of_item(HOOK, name) for name in "ab"]
        assert [await engine.runs.exists(name) for name in names] == [False, False]
        tasks.gate_of("backlog").set()
        for name in names:
            assert (await ended(engine, name)).state is R.COMPLETED


async def test_items_of_one_key_run_one_after_the_other(tmp_path):
    async with running(tmp_path) as engine:
        await register(engine, WAITS, per_key=1)
        await engine.triggers.deliver("orders", [item("a", key="k"), item("b", key="k"), item("c", key="l")], 1)
        first, second, other = (run_of_item(HOOK, name) for name in "abc")
        for run_id in (first, other):
            await until_true(lambda run_id=run_id: engine.journal.find_run(run_id), f"{run_id} is there")
        assert list((await engine.triggers.get("orders")).waiting) == [2]
        assert await engine.journal.find_run(second) is None
        assert not (await ask(engine, "signal", first, name="go")).refused
        await until_true(lambda: engine.journal.find_run(second), "the second has begun")


async def test_a_process_that_dies_loses_no_item_and_starts_none_twice(tmp_path):
    engine = await opened(tmp_path)
    await engine.hold()
    await register(engine, PLAIN, open=2)
    await engine.triggers.deliver("orders", [item(f"i{n}") for n in range(20)], 1)
    await crash(engine)
    async with running(tmp_path) as engine:
        assert not (await engine.triggers.deliver("orders", [item(f"i{n}") for n in range(20)], 1)).refused
        assert (await idle(engine, 20)).position == 20
        for n in range(20):
            assert (await ended(engine, run_of_item(HOOK, f"i{n}"))).state is R.COMPLETED
        await check(engine.journal, HOOK)


async def test_an_item_without_a_workflow_is_parked_and_stops_nothing(tmp_path):
    async with running(tmp_path) as engine:
        await register(engine, None)
        await engine.triggers.deliver("orders", [item("a")], 1)
        box = await idle(engine, 1)
        assert box.parked[1].error.code == "workflow_not_found"
        await engine.workflows.register(compiled(PLAIN))
        await engine.triggers.deliver("orders", [item("b")], 1)
        assert (await ended(engine, run_of_item(HOOK, "b"))).state is R.COMPLETED


async def test_inputs_that_do_not_fit_are_parked_and_defaults_are_filled_in(tmp_path):
    schema = {"type": "object", "properties": {"n": {"type": "string"}, "m": {"default": 7}}, "required": ["n"]}
    async with running(tmp_path) as engine:
        await register(engine, workflow(transform("a", 1), name="report", inputs=schema))
        await engine.triggers.deliver("orders", [c.Delivered(id="bad", inputs={"n": 1}), item("good")], 1)
        assert (await idle(engine, 2)).parked[1].error.code == "invalid_inputs"
        assert (await ended(engine, run_of_item(HOOK, "good"))).inputs == {"n": "good", "m": 7}


async def test_a_newer_item_takes_the_place_of_an_open_run(tmp_path):
    async with running(tmp_path) as engine:
        await register(engine, WAITS, open=1, overlap="cancel")
        await engine.triggers.deliver("orders", [item("a")], 1)
        first, second = run_of_item(HOOK, "a"), run_of_item(HOOK, "b")
        await until_true(lambda: engine.journal.find_run(first), "the first has begun")
        await engine.triggers.deliver("orders", [item("b")], 1)
        assert (await ended(engine, first)).state is R.CANCELLED
        await until_true(lambda: engine.journal.find_run(second), "the second has begun")


async def test_a_run_that_is_there_already_ends_the_firing_as_a_duplicate(tmp_path):
    async with running(tmp_path) as engine:
        taken = run_of_item(HOOK, "a")
        await start(engine, WAITS, taken)
        await register(engine, None, open=1)
        await engine.triggers.deliver("orders", [item("a"), item("b")], 1)
        await until_true(lambda: engine.journal.find_run(run_of_item(HOOK, "b")), "the next one has begun")
        found = await check(engine.journal, HOOK)
        assert [end.state for event in found if event.type == "trigger.ended" for end in event.ends] == ["duplicate"]


@pytest.mark.slow
async def test_a_trigger_that_goes_on_as_a_new_run_hears_of_what_the_old_one_started(tmp_path, monkeypatch):
    monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 25)
    async with running(tmp_path) as engine:
        await register(engine, PLAIN, open=3)
        for n in range(30):
            assert not (await engine.triggers.deliver("orders", [item(f"i{n}")], 1)).refused
        box = await idle(engine, 30)
        assert (box.trigger, box.position) == (HOOK, 30)
        assert (await ended(engine, HOOK)).continued_as == f"{HOOK}~2"
        for n in range(30):
            assert (await ended(engine, run_of_item(HOOK, f"i{n}"))).state is R.COMPLETED


async def test_an_endless_run_of_a_trigger_stays_open_when_it_goes_on_as_a_new_one(tmp_path, monkeypatch):
    monkeypatch.setattr("perdure.kernel.continuations.LONG_JOURNAL", 8)
    waits = {"id": "s", "type": "wait", "config": {"signal": "go"}}
    turns = {"condition": "output.again", "endless": True, "loop_back_to": "s"}
    loop = workflow(waits, transform("x", {"again": "{{ s.again }}"}, ["s"], loop=turns), name="report", endless=True)
    async with running(tmp_path) as engine:
        await register(engine, loop)
        await engine.triggers.deliver("orders", [item("a")], 1)
        run_id = run_of_item(HOOK, "a")
        await until_true(lambda: engine.journal.find_run(run_id), "the run has begun")
        assert not (await ask(engine, "signal", run_id, name="go", payload={"again": True})).refused
        first = await ended(engine, run_id)
        assert first.continued_as == f"{run_id}~2"
        reply = await ask(engine, "signal", run_id, name="go")
        assert (reply.code, reply.continued_as) == ("continued", f"{run_id}~2")
        assert run_id in (await engine.triggers.get("orders")).open
        await until_true(lambda: engine.journal.find_run(f"{run_id}~2"), "the next run has begun")
        assert not (await ask(engine, "signal", f"{run_id}~2", name="go", payload={"again": False})).refused
        await idle(engine, 1)
        found = await check(engine.journal, HOOK)
        assert [end.run_id for event in found if event.type == "trigger.ended" for end in event.ends] == [first.run_id]


def declared(**keys: Any) -> Trigger:
    (trigger,) = read_data({"name": "orders", "workflow": "report", **keys}, 0.0).get_triggers()
    return trigger


@pytest.mark.slow
async def test_a_schedule_fires_in_a_real_engine(tmp_path):
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(PLAIN))
        schedule = {"every": "1s", "max_firings": 2}
        trigger = declared(schedule=schedule, overlap="allow", catchup="all", inputs={"n": "{{ trigger.at }}"})
        assert not (await engine.triggers.apply(trigger)).refused
        assert not (await engine.triggers.apply(trigger)).refused

        async def fired() -> bool:
            return (await engine.triggers.get("orders")).counted == 2

        await until_true(fired, "two moments have come")
        found = await check(engine.journal, HOOK)
        items = [one for event in found if isinstance(event, e.TriggerReceived) for one in event.items]
        assert items[1].nominal == items[0].nominal + 1
        for one in items:
            state = await ended(engine, one.run_id)
            assert state.state is R.COMPLETED
            assert isinstance(state.inputs["n"], str)
        state = await engine.runs.state(HOOK)
        assert (state.timers, state.triggers["receive"].revision) == ({}, 1)


SIGNED: dict[str, Any] = {"webhook": {"verify": {"scheme": "bearer", "secret": "S"}}}
GATHERED = {"n": "{{ trigger.key }} {{ trigger.number }}", "all": "{{ trigger.items }}"}


def raw(*names: str, key: str = "k") -> list[c.Delivered]:
    """Items of a window, as they came."""
    return [c.Delivered(id=name, key=key, inputs={"body": name}) for name in names]


async def test_a_batch_starts_one_run_for_all_its_items(tmp_path):
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(PLAIN))
        trigger = declared(**SIGNED, batch={"items": 3, "within": "1h"}, key="{{ item.key }}", inputs=GATHERED)
        assert not (await engine.triggers.apply(trigger)).refused
        for names in (("a", "b"), ("b", "c")):
            assert not (await engine.triggers.deliver("orders", raw(*names), 1)).refused
        state = await ended(engine, run_of_window(HOOK, "abc"))
        assert state.inputs == {"n": "k 3", "all": [{"body": name} for name in "abc"]}
        assert state.tags == {"trigger": "orders", "trigger_item": "c"}
        await idle(engine, 3)
        await check(engine.journal, HOOK)


@pytest.mark.slow
async def test_a_window_outlives_the_process_and_closes_in_the_next(tmp_path):
    engine = await opened(tmp_path)
    await engine.hold()
    await engine.workflows.register(compiled(PLAIN))
    debounce = {"quiet": "1.5s", "at_most": "1h"}
    await engine.triggers.apply(declared(**SIGNED, debounce=debounce, inputs={"n": "{{ items }}"}))
    large = [c.Delivered(id=name, inputs={"body": name * 40_000}) for name in "ab"]
    for one in large:
        assert not (await engine.triggers.deliver("orders", [one], 1)).refused
    assert len((await engine.triggers.get("orders")).windows) == 1
    await crash(engine)
    async with running(tmp_path) as engine:
        await idle(engine, 2)
        assert (await ended(engine, run_of_window(HOOK, "ab"))).state is R.COMPLETED
        await check(engine.journal, HOOK)


async def test_a_large_item_is_stored_as_a_blob_and_its_run_has_it_whole(tmp_path):
    async with running(tmp_path) as engine:
        await register(engine, PLAIN)
        items = [c.Delivered(id="a", inputs={"n": "x" * 100_000}), item("b")]
        reply = await engine.triggers.deliver("orders", items, 1)
        assert not reply.refused, reply
        await engine.triggers.fire("orders", "by-hand", 1, inputs={"n": "y" * 100_000})
        await idle(engine, 3)
        state = await ended(engine, run_of_item(HOOK, "a"))
        assert await engine.contents.resolve("default", state.inputs) == items[0].inputs
        assert (await ended(engine, run_of_item(HOOK, "b"))).inputs == {"n": "b"}


async def test_large_items_of_a_window_are_loaded_when_it_closes(tmp_path):
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(PLAIN))
        batch = {"items": 2, "within": "1h"}
        await engine.triggers.apply(declared(**SIGNED, batch=batch, inputs={"n": "{{ item.body | length }}"}))
        for name in "ab":
            kept = await engine.contents.keep("default", {"body": name * 40_000})
            assert isinstance(kept, BlobRef)
            assert not (await engine.triggers.deliver("orders", [c.Delivered(id=name, inputs=kept)], 1)).refused
        assert (await ended(engine, run_of_window(HOOK, "ab"))).inputs == {"n": 40_000}
        await idle(engine, 2)


async def test_a_rate_spreads_starts_over_time(tmp_path):
    async with running(tmp_path) as engine:
        await register(engine, PLAIN, rate=Rate(2, 0.2))
        await engine.triggers.deliver("orders", [item(f"i{n}") for n in range(6)], 1)
        await idle(engine, 6)
        found = await check(engine.journal, HOOK)
        begun = [event for event in found if isinstance(event, e.TriggerStarted)]
        assert sum(len(event.starts) for event in begun) == 6
        assert begun[-1].at - begun[0].at >= 0.39


@pytest.mark.parametrize(
    ("name", "data"), [("deliver", {"items": []}), ("deliver", [1]), ("dream", {}), ("fire", {"revision": "x"})]
)
async def test_a_request_that_does_not_fit_is_refused_and_harms_nothing(tmp_path, name, data):
    async with running(tmp_path) as engine:
        await register(engine, PLAIN)
        assert (await ask(engine, "mailbox", HOOK, name=name, data=data)).code == "bad_request"
        assert not (await engine.triggers.fire("orders", "by-hand", 1, inputs={"n": 1})).refused
        await idle(engine, 1)
        await check(engine.journal, HOOK)


async def test_a_stop_that_comes_before_its_run_is_not_lost(tmp_path):
    """Another process may make the run later than this one asks for its end."""
    async with running(tmp_path) as engine:
        stop = Request(kind="cancel", run_id="r1", by="trigger", reason="overlap")
        await engine.journal.put_command("r1", encode_request(stop), command_id="overlap:r1:1:cancel")
        gone = Request(kind="cancel", run_id="r0", by="trigger")
        command_id = await engine.journal.put_command("r0", encode_request(gone))

        async def is_answered() -> bool:
            return await engine.journal.find_answer(command_id) is not None

        await until_true(is_answered, "a command of anybody else for a run that is not there is answered")
        await start(engine, WAITS)
        assert (await ended(engine)).state is R.CANCELLED


async def test_a_command_of_a_trigger_goes_on_to_the_run_that_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 6)
    async with running(tmp_path) as engine:
        await register(engine, WAITS, open=1)
        await engine.triggers.deliver("orders", [item("a"), item("b")], 1)
        assert (await ended(engine, HOOK)).continued_as == f"{HOOK}~2"
        monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 1_000)
        first = run_of_item(HOOK, "a")
        data = {"ends": [{"run_id": first, "number": 1, "state": "lost"}]}
        lost = Request(kind="mailbox", name="end_firing", run_id=HOOK, data=data)
        await engine.journal.put_command(HOOK, encode_request(lost), command_id=f"start:{first}:1")
        await until_true(lambda: engine.journal.find_run(run_of_item(HOOK, "b")), "the place is free again")


async def test_the_end_of_a_run_is_heard_where_the_first_run_of_its_trigger_was_pruned(tmp_path, monkeypatch):
    monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 6)
    async with running(tmp_path) as engine:
        await register(engine, WAITS, open=1)
        await engine.triggers.deliver("orders", [item("a"), item("b")], 1)
        assert (await ended(engine, HOOK)).continued_as == f"{HOOK}~2"
        monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 1_000)
        first = run_of_item(HOOK, "a")
        await until_true(lambda: engine.journal.find_run(first), "the run has begun")
        await until_true(lambda: engine.journal.find_run(f"{HOOK}~2"), "the trigger has gone on")
        assert engine.coordinator is not None
        await engine.coordinator.settled()
        engine.coordinator.memory.drop(HOOK)
        real = engine.journal.find_run

        async def find(run_id: str) -> Any:
            return None if run_id == HOOK else await real(run_id)

        monkeypatch.setattr(engine.journal, "find_run", find)
        monkeypatch.setattr(engine.coordinator.memory._journal, "find_run", find)
        assert not (await ask(engine, "signal", first, name="go")).refused
        await until_true(lambda: real(run_of_item(HOOK, "b")), "the next one has begun")


async def test_a_trigger_is_not_rerun(tmp_path):
    async with running(tmp_path) as engine:
        await register(engine, PLAIN)
        assert (await ask(engine, "rerun", "again", source=HOOK)).code == "rerun_refused"
        assert await engine.journal.find_run("again") is None


@pytest.mark.slow
async def test_a_process_that_leaves_triggers_alone_fires_and_starts_nothing_for_them(tmp_path):
    waits = workflow({"id": "w", "type": "wait", "config": {"seconds": 1.2}}, name="waits")
    async with running(tmp_path, triggers=False) as engine:
        await register(engine, PLAIN)
        await engine.triggers.apply(declared(name="beat", schedule={"every": "1s", "max_firings": 1}))
        assert not (await engine.triggers.deliver("orders", [item("a")], 1)).refused
        assert not (await start(engine, waits)).refused
        assert (await ended(engine, "r1")).state is R.COMPLETED  # its timers are not left alone
        assert await engine.journal.find_run(run_of_item(HOOK, "a")) is None
        assert (await engine.triggers.get("beat")).position == 0
        assert len(await engine.journal.read_notices(None, 0, 10)) == 1
    async with running(tmp_path) as engine:
        assert (await ended(engine, run_of_item(HOOK, "a"))).state is R.COMPLETED

        async def has_fired() -> bool:
            return (await engine.triggers.get("beat")).position == 1

        await until_true(has_fired, "the schedule has fired")
        await check(engine.journal, HOOK)


# -- runs that will not be heard to end --------------------------------------------------------------------------------


async def sweep(engine: Engine) -> None:
    """Look for lost runs twice: what was open before is looked for."""
    assert engine.coordinator is not None
    lost = LostRuns(engine.journal, engine.coordinator, engine.clock)
    await lost.look()
    await lost.look()


async def ends_of(engine: Engine) -> list[tuple[str, str]]:
    found = await check(engine.journal, HOOK)
    return [(end.run_id, end.state) for event in found if isinstance(event, e.TriggerEnded) for end in event.ends]


async def test_a_quarantined_run_is_not_waited_for(tmp_path):
    async with running(tmp_path) as engine:
        await register(engine, WAITS, open=1)
        await engine.triggers.deliver("orders", [item("a"), item("b")], 1)
        first, second = run_of_item(HOOK, "a"), run_of_item(HOOK, "b")
        await until_true(lambda: engine.journal.find_run(first), "the first is there")
        await sweep(engine)
        assert list((await engine.triggers.get("orders")).open) == [first]
        await engine.journal.mark_quarantined(first, "it cannot be read")
        await sweep(engine)
        await until_true(lambda: engine.journal.find_run(second), "the second has begun")
        assert await ends_of(engine) == [(first, "lost")]


@pytest.mark.parametrize(("kind", "said"), [(fx.StartRun, "lost"), (fx.NotifyTrigger, "completed")])
async def test_a_run_that_was_never_made_or_never_told_its_end_is_not_waited_for(tmp_path, monkeypatch, kind, said):
    real = loaded.Loaded._notice

    def forget(self: Any, effect: Any) -> None:
        if not isinstance(effect, kind):
            real(self, effect)

    monkeypatch.setattr(loaded.Loaded, "_notice", forget)
    async with running(tmp_path) as engine:
        await register(engine, PLAIN, open=1)
        await engine.triggers.deliver("orders", [item("a")], 1)
        name = run_of_item(HOOK, "a")
        if kind is fx.NotifyTrigger:
            await ended(engine, name)
        monkeypatch.setattr(loaded.Loaded, "_notice", real)
        await sweep(engine)
        await idle(engine, 1)
        assert await ends_of(engine) == [(name, said)]


async def test_a_run_that_has_gone_on_as_another_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(continuations, "LONG_JOURNAL", 1)
    waits = {"id": "s", "type": "wait", "config": {"signal": "go"}}
    turns = {"condition": "output.again", "endless": True, "loop_back_to": "s"}
    endless = workflow(
        waits, transform("x", {"again": "{{ s.again }}"}, ["s"], loop=turns), name="report", endless=True
    )
    async with running(tmp_path) as engine:
        await register(engine, endless, open=1)
        await engine.triggers.deliver("orders", [item("a")], 1)
        name = run_of_item(HOOK, "a")
        await until_true(lambda: engine.journal.find_run(name), "the run is there")
        await ask(engine, "signal", name, name="go", payload={"again": True})
        await until_true(lambda: engine.journal.find_run(f"{name}~2"), "it has gone on")
        await sweep(engine)
        assert list((await engine.triggers.get("orders")).open) == [name]
        await ask(engine, "cancel", f"{name}~2")
        await idle(engine, 1)
        assert await ends_of(engine) == [(name, "cancelled")]


async def test_a_run_whose_start_is_on_its_way_is_waited_for(tmp_path, monkeypatch):
    """Another process makes it: its notice is there, and the run is not."""
    async with running(tmp_path) as engine:
        hold = asyncio.Event()
        real = Listener._tell_start

        async def wait(self: Any, notice: Any, begins: Any, there: Any) -> None:
            await hold.wait()
            await real(self, notice, begins, there)

        monkeypatch.setattr(Listener, "_tell_start", wait)
        await register(engine, PLAIN, open=1)
        await engine.triggers.deliver("orders", [item("a")], 1)
        assert await engine.journal.find_run(run_of_item(HOOK, "a")) is None
        await sweep(engine)
        assert list((await engine.triggers.get("orders")).open) == [run_of_item(HOOK, "a")]
        hold.set()
        await idle(engine, 1)
        assert await ends_of(engine) == [(run_of_item(HOOK, "a"), "completed")]
