"""Events by name, and runs that start when others have ended, in a real engine: one run each, whoever dies (rule 53)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.access import LOCAL
from perdure.clock import system
from perdure.doctor import examine
from perdure.doctor.repair import repair
from perdure.engine import Engine
from perdure.journal import Commit
from perdure.kernel import events as e
from perdure.kernel.lifecycle import RunState
from perdure.kernel.triggers import trigger_commands
from perdure.kernel.triggers.mailbox import Mailbox, run_of_item
from perdure.runtime.triggers import trigger_id
from perdure.service import Service
from perdure.service.errors import EventsFull, Invalid
from perdure.triggers.declarations import read_data
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
SHIP = workflow(transform("a", {"n": "{{ inputs.n }}"}), name="ship")
REPORT = workflow(transform("rows", "{{ inputs.n }}"), name="report", outputs={"rows": "{{ rows }}"})
BROKEN = workflow(transform("rows", "{{ inputs.none.such }}"), name="broken")
PAID = {"event": {"name": "order.paid"}, "inputs": {"n": "{{ item.payload.n }}"}}


async def begin(engine: Engine, name: str = "paid", **keys: Any) -> Any:
    for one in (SHIP, REPORT, BROKEN):
        await engine.workflows.register(compiled(one))
    return await apply(engine, name, **keys)


async def apply(engine: Engine, name: str = "paid", **keys: Any) -> Any:
    (trigger,) = read_data({"name": name, "workflow": "ship", **(keys or PAID)}, 0.0).get_triggers()
    reply = await engine.triggers.apply(trigger)
    assert not reply.refused, reply
    return reply


async def send(engine: Engine, n: Any, name: str = "order.paid", **about: Any) -> Any:
    return await Service(engine, LOCAL).events.send(name, {"n": n}, **about)


async def idle(engine: Engine, received: int, name: str = "paid") -> Mailbox:
    async def is_idle() -> bool:
        box = await engine.triggers.get(name)
        return box.position >= received and not box.waiting and not box.open

    await until_true(is_idle, f"{received} items of {name} have had their runs")
    return await engine.triggers.get(name)


def run_of(id: str, name: str = "paid") -> str:
    return run_of_item(trigger_id("default", name), id)


async def sound(engine: Engine, *names: str) -> None:
    for name in names or ("paid",):
        await check(engine.journal, trigger_id("default", name))
    report = await examine(engine.journal, engine.library)
    assert report.findings == []


async def test_an_event_starts_one_run_for_each_trigger_that_listens_however_often_it_is_sent(tmp_path):
    async with running(tmp_path) as engine:
        await send(engine, 0, id="early")  # before anybody listens: the past of a new trigger is no item
        await begin(engine)
        await apply(engine, "large", event={"name": "order.paid", "match": "event.n > 5"}, inputs=PAID["inputs"])
        await apply(engine, "other", event={"name": "order.sent"}, inputs=PAID["inputs"])
        sent = [await send(engine, n, id=f"o{n}", key=f"k{n % 2}") for n in (3, 7, 3)]
        assert [one["duplicate"] for one in sent] == [False, False, True]
        assert sent[2]["position"] == sent[0]["position"] < sent[1]["position"]
        await idle(engine, 2)
        assert (await idle(engine, 1, "large")).position == 1
        assert (await ended(engine, run_of("o3"))).inputs == {"n": 3}
        state = await ended(engine, run_of("o7", "large"))
        assert (state.inputs, state.tags) == ({"n": 7}, {"trigger": "large", "trigger_item": "o7"})
        assert (await engine.triggers.get("other")).position == 0
        for missing in (run_of("early"), run_of("o3", "large")):
            assert await engine.journal.find_run(missing) is None
        found = await check(engine.journal, trigger_id("default", "large"))
        assert [one.count for one in found if isinstance(one, e.TriggerSkipped)] == [1]
        await sound(engine, "paid", "large", "other")


@pytest.mark.slow
async def test_what_happens_while_nobody_is_there_is_taken_in_by_the_next_process(tmp_path):
    engine = await opened(tmp_path)
    await engine.hold()
    await begin(engine)
    for n in range(30):
        await send(engine, n, id=f"o{n}")
    await crash(engine)
    other = await opened(tmp_path)  # it decides nothing, and an event is durable all the same
    await send(other, 30, id="o30")
    await other.close()
    async with running(tmp_path) as engine:
        assert (await idle(engine, 31)).position == 31
        for n in range(31):
            assert (await ended(engine, run_of(f"o{n}"))).inputs == {"n": n}
        await sound(engine)


async def test_a_paused_trigger_reads_on_where_it_was_and_a_changed_one_by_its_next_revision(tmp_path):
    async with running(tmp_path) as engine:
        await begin(engine)
        await send(engine, 1, id="o1")
        box = await idle(engine, 1)
        await engine.triggers.change("paid", "pause")
        await send(engine, 2, id="o2")
        await apply(engine, event={"name": "order.paid"}, inputs={"n": "{{ item.id }}"})
        await engine.topic_reader.look()
        held = await engine.triggers.get("paid")
        assert (held.position, held.cursor) == (1, box.cursor)
        await engine.triggers.change("paid", "resume")
        await idle(engine, 2)
        assert (await ended(engine, run_of("o2"))).inputs == {"n": "o2"}
        # Another topic begins now: what happened there before is not missed.
        await send(engine, 3, "order.sent", id="o3")
        await apply(engine, event={"name": "order.sent"}, inputs=PAID["inputs"])
        await send(engine, 4, "order.sent", id="o4")
        assert (await idle(engine, 3)).position == 3
        assert await engine.journal.find_run(run_of("o3")) is None
        await sound(engine)


@pytest.mark.slow
async def test_a_full_mailbox_reads_on_when_there_is_room_and_drops_nothing(tmp_path):
    async with running(tmp_path) as engine:
        await begin(engine, **PAID, limits={"open": 1, "buffer": 2})
        for n in range(250):
            await send(engine, n, id=f"o{n}")
        assert (await idle(engine, 250)).position == 250
        await sound(engine)


@pytest.mark.slow
async def test_a_trigger_that_goes_on_as_a_new_run_misses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 25)
    async with running(tmp_path) as engine:
        await begin(engine)
        await apply(engine, "after", runs={"workflow": "ship"}, inputs={"n": "{{ item.run_id }}"})
        await apply(engine, "again", runs={"workflow": "report"}, inputs={"n": 1})
        for n in range(40):
            await send(engine, n, id=f"o{n}")
            await start(engine, REPORT, f"r{n}", {"n": n})
        await idle(engine, 40)
        await idle(engine, 40, "again")
        assert (await engine.runs.state(trigger_id("default", "paid"))).continued_as is not None
        for n in range(40):
            assert (await ended(engine, run_of(f"o{n}"))).inputs == {"n": n}
            assert (await ended(engine, run_of(f"r{n}:1", "again"))).inputs == {"n": 1}
        await sound(engine)


async def test_an_end_starts_a_run_with_what_the_run_gave(tmp_path):
    async with running(tmp_path) as engine:
        await begin(engine)
        await finish_one(engine, REPORT, "early", 1)
        inputs = {"n": "{{ item.outputs.rows }}"}
        await apply(engine, "after", runs={"workflow": "report", "tag": {"kind": "final"}}, inputs=inputs)
        states = {"workflow": "broken", "state": ["failed", "cancelled"]}
        await apply(engine, "failed", runs=states, inputs={"n": "{{ item.error.code }}"})
        await finish_one(engine, REPORT, "draft", 2)
        await finish_one(engine, REPORT, "final", 3, {"kind": "final"})
        await finish_one(engine, BROKEN, "bad", 4)
        await idle(engine, 1, "after")
        await idle(engine, 1, "failed")
        assert (await ended(engine, run_of("final:1", "after"))).inputs == {"n": 3}
        first = await ended(engine, run_of("bad:1", "failed"))
        assert first.inputs == {"n": "template_error"}
        # A retried run ends once more, which is another end.
        assert not (await ask(engine, "retry", "bad")).refused
        await idle(engine, 2, "failed")
        assert (await ended(engine, run_of("bad:2", "failed"))).state is R.COMPLETED
        for missing in ("early:1", "draft:1"):
            assert await engine.journal.find_run(run_of(missing, "after")) is None
        await sound(engine, "after", "failed")


async def finish_one(engine: Engine, definition: dict[str, Any], run_id: str, n: int, tags: Any = None) -> None:
    await start(engine, definition, run_id, {"n": n}, tags=tags or {})
    await ended(engine, run_id)


@pytest.mark.slow
async def test_a_chain_of_triggers_that_bites_its_tail_is_parked(tmp_path):
    async with running(tmp_path) as engine:
        await begin(engine, "round", runs={"workflow": "ship"}, inputs={"n": 1})
        await start(engine, SHIP, "r1", {"n": 0})

        async def has_stopped() -> bool:
            return bool((await engine.triggers.get("round")).parked)

        await until_true(has_stopped, "the eleventh is parked")
        box = await engine.triggers.get("round")
        (parked,) = box.parked.values()
        assert (parked.error.code, box.position) == ("trigger_cycle", 11)
        await sound(engine, "round")


async def test_ends_of_children_and_of_triggers_happen_to_nobody(tmp_path):
    parent = workflow(
        {"id": "c", "type": "workflow", "config": {"workflow": "ship", "inputs": {"n": 1}}}, name="parent"
    )
    async with running(tmp_path) as engine:
        await begin(engine, "after", runs={"workflow": "ship"}, inputs={"n": 1})
        await start(engine, parent, "p1")
        await ended(engine, "p1")
        await engine.topic_reader.look()
        assert await engine.journal.last_occurrence() == 0
        assert (await engine.triggers.get("after")).position == 0


async def test_poison_is_kept_as_it_came_and_others_go_on(tmp_path):
    async with running(tmp_path) as engine:
        await begin(engine)
        service = Service(engine, LOCAL)
        await service.events.send("order.paid", "no object", id="bad")
        await send(engine, 2, id="good")
        await until_true(lambda: _parked(engine), "the bad one is parked")
        await ended(engine, run_of("good"))
        box = await engine.triggers.get("paid")
        (parked,) = box.parked.values()
        assert (parked.error.code, parked.item.inputs["payload"]) == ("unmapped", "no object")
        await apply(engine, event={"name": "order.paid"}, inputs={"n": "{{ item.payload }}"})
        await service.triggers.requeue("paid", parked.item.number)
        assert (await ended(engine, run_of("bad"))).inputs == {"n": "no object"}
        await sound(engine)


async def _parked(engine: Engine) -> bool:
    return bool((await engine.triggers.get("paid")).parked)


async def test_a_deleted_trigger_listens_no_more_and_what_nobody_reads_is_forgotten(tmp_path):
    async with running(tmp_path) as engine:
        await begin(engine, "after", runs={"workflow": "report"}, inputs={"n": 1})
        await finish_one(engine, REPORT, "r1", 1)
        await idle(engine, 1, "after")
        await engine.triggers.change("after", "pause")
        await finish_one(engine, REPORT, "r2", 1)
        assert await engine.journal.prune_occurrences(engine.clock.now() + 1) == 1  # r2 is still to be read
        await engine.triggers.change("after", "cancel")
        await finish_one(engine, REPORT, "r3", 1)
        assert await engine.journal.read_subscriptions(trigger_id("default", "after")) == []
        assert await engine.journal.prune_occurrences(engine.clock.now() + 1) == 1
        await sound(engine, "after")


async def test_the_oldest_events_go_when_there_are_too_many_but_not_what_a_paused_trigger_has_to_read(tmp_path):
    async with running(tmp_path, max_events=100) as engine:
        for n in range(230):
            said = await send(engine, n, "nobody.hears", id=f"o{n}")
        assert (said["listeners"], said["other_keys"], said["duplicate"]) == (0, 0, False)
        assert await engine.journal.count_occurrences("default", 1000) <= 100
        assert not (await send(engine, 0, "nobody.hears", id="o0"))["duplicate"]  # its id is forgotten with it
        await begin(engine)
        await engine.triggers.change("paid", "pause")
        assert (await send(engine, 0, id="p0"))["listeners"] == 1
        for n in range(1, 100):
            await send(engine, n, id=f"p{n}")
        with pytest.raises(EventsFull, match="max_events"):
            await send(engine, 100, id="p100")
        await engine.triggers.change("paid", "resume")
        await idle(engine, 100)
        kept = await engine.journal.read_occurrences("default", "event:order.paid")
        assert kept[0].id == "p0"


async def test_the_doctor_finds_a_subscription_that_is_lost_and_sets_it_again(tmp_path):
    async with running(tmp_path) as engine:
        await begin(engine)
        id = trigger_id("default", "paid")
        record = await engine.journal.get_run(id)
        lost = Commit(
            run_id=id,
            expected_seq=record.seq,
            commit_id="lost",
            row=record.row,
            subscriptions_cleared=(f"{id}/receive",),
        )
        await engine.journal.append([lost])
        report = await examine(engine.journal, engine.library)
        assert [one.invariant for one in report.findings] == ["J5"]
        assert (await repair(engine.journal, engine.library, system, report)).left == {}
        await sound(engine)


async def test_an_event_that_cannot_be_sent_says_everything_that_is_wrong(tmp_path):
    async with running(tmp_path) as engine:
        service = Service(engine, LOCAL)
        with pytest.raises(Invalid) as refused:
            await service.events.send("order paid", "x" * 300_000, id="", key="k\0")
        assert [one.path for one in refused.value.troubles] == ["name", "id", "key", "payload"]
        assert await engine.journal.last_occurrence() == 0


async def test_tenants_hear_their_own(tmp_path):
    async with running(tmp_path) as engine:
        await begin(engine)
        other = Service.of_owner(engine, tenant="acme")
        await other.events.send("order.paid", {"n": 1}, id="theirs")
        await send(engine, 2, id="ours")
        box = await idle(engine, 1)
        assert box.position == 1
        assert run_of("ours") in box.seen
