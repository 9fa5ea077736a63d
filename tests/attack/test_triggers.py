"""Triggers whose sources, deliveries or templates are large: nobody else waits for them, and none of them stops for good."""

import sqlite3
import threading
from contextlib import closing
from typing import Any

import pytest

from perdure.access import LOCAL
from perdure.budget import ANSWER_BYTES, MIB
from perdure.expressions.at_hand import Lost
from perdure.kernel import commands as c
from perdure.kernel.segments import SEALED, BlobRef
from perdure.outcomes import Failure
from perdure.runtime.coordinator.kept_inputs import estimate_memory, weigh_inputs
from perdure.runtime.coordinator.triggers import mapped_polls
from perdure.runtime.poll_handler import make_items
from perdure.service import Service
from perdure.service.errors import Invalid
from perdure.service.triggers import webhook_deliveries
from perdure.sources import Item, Polled
from perdure.sources.pages import OWN
from perdure.triggers.mapping import map_item
from tests.api.helpers import bearer
from tests.api.test_hooks import ORDERS, finished, register, send, server  # noqa: F401  (a fixture)
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.engine import test_topics as topics
from tests.engine.helpers import check, running, until_true
from tests.engine.test_polls import ID, Numbers, apply, begin, idle, numbers, reset, table


class Hundred(Numbers, name="test_hundred"):
    async def poll(self, cursor):
        begin = int(cursor or 0)
        page = Numbers.items[begin : begin + 100]
        return Polled(tuple(Item(f"n{begin + n}", one) for n, one in enumerate(page)), str(begin + len(page)))


@pytest.mark.slow
@attack("S05", "a poll of as many items as it may bring, each of as many templates as fit, whose inputs are large")
@pytest.mark.parametrize("size", [1, 60])
async def test_the_items_of_a_poll_are_mapped_once_and_hold_up_nobody(tmp_path, monkeypatch, size):
    reset(*["x" * size] * 100)
    mapped, real = [], map_item

    def count(*arguments, **more):
        mapped.append(threading.current_thread() is threading.main_thread())
        return real(*arguments, **more)

    monkeypatch.setattr(mapped_polls, "map_item", count)
    keys = numbers(type="test_hundred") | {"inputs": {"n": 1, "l": ["{{ item.data }}"] * 1700}}
    async with running(tmp_path) as engine:
        with watching():
            await begin(engine, **keys)
            await idle(engine, 100)
        await check(engine.journal, ID)
    assert mapped == [False] * 100


@pytest.mark.slow
@attack("S27", "rows of which a page is larger than any value may be, and one that is too large alone")
async def test_rows_that_are_large_together_come_in_smaller_pages_and_one_that_is_too_large_is_parked(tmp_path):
    place = tmp_path / "shop.db"
    with closing(sqlite3.connect(place)) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT)")
        shop.executemany("INSERT INTO orders VALUES (?, ?)", [(n, "x" * 1_500_000) for n in range(1, 25)])
        shop.execute("INSERT INTO orders VALUES (25, ?)", ["x" * 5_000_000])
        shop.execute("INSERT INTO orders VALUES (26, 'honest')")
    async with running(tmp_path, folder_roots=str(tmp_path)) as engine:
        await begin(engine, **table(place) | {"inputs": {"n": "{{ item.id }}"}})
        box = await idle(engine, 26)
        assert list(box.parked) == [25]
        assert box.parked[25].error.code == "unreadable"
        assert (await engine.journal.get_run(ID)).quarantined is None
        triggers = Service(engine, LOCAL).triggers
        with pytest.raises(Invalid, match="give it inputs, or discard it"):
            await triggers.requeue("rows", 25)
        assert (await triggers.requeue("rows", 25, inputs={"n": 25}))["parked"] == 0


@attack("S27", "the answer of a poll that cannot be read")
async def test_an_answer_of_a_poll_that_cannot_be_read_fails_the_poll_and_no_trigger(tmp_path):
    reset(1)
    async with running(tmp_path) as engine:
        await begin(engine, **numbers())
        await idle(engine, 1)
        state = await engine.runs.state(ID)
        polling = state.find("receive")
        assert polling is not None
        address = state.address(polling)
    command = c.Complete(at=1.0, address=address, output=None, output_ref="cas://sha256:" + "0" * 64)
    with pytest.raises(mapped_polls.NeedsMapped) as need:
        mapped_polls.receive_polled(state, command, {})
    for found in (Lost("blob_too_large", "it has more bytes than are read"), mapped_polls.read_page({"items": 3})):
        answer = mapped_polls.receive_polled(state, command, {need.value.key: found})
        assert isinstance(answer, c.Fail)
        assert answer.error.code == "source_failed"


@attack("S27", "items of a custom source that can never be kept, or are too much together")
def test_items_that_can_never_be_kept_say_why_and_others_go_on():
    deep: list = []
    for _ in range(300):
        deep = [deep]
    bad = ["a\0b", float("inf"), "a\ud800", deep, {1: object()}, [1e300] * 21, {SEALED: "enc:v1:x"}, [[]] * 400_000]
    assert msgspec_encode(SEALED) == OWN
    made = make_items(
        Polled((Item("ok", 1), *(Item(f"b{n}", one) for n, one in enumerate(bad)), Item("x" * 600, 2)), "c")
    )
    assert [bool(one.get("error")) for one in made] == [False] + [True] * len(bad) + [False]
    assert made[-1]["id"].startswith("sha256:")
    with pytest.raises(Failure, match="give fewer"):
        make_items(Polled(tuple(Item(str(n), "x" * 1_000_000) for n in range(5)), "c"))
    with pytest.raises(Failure, match="give fewer"):
        make_items(Polled(tuple(Item(str(n), [1e300] * 15) for n in range(2)), "c"))


def msgspec_encode(value):
    import msgspec

    return msgspec.json.encode(value)


@pytest.mark.slow
@attack("S27", "a trigger whose run is quarantined")
async def test_a_quarantined_trigger_is_shown_as_such_and_can_be_deleted(tmp_path):
    reset(1)
    async with running(tmp_path) as engine:
        await begin(engine, **numbers())
        await idle(engine, 1)
        await engine.triggers.register("other", "webhook", {}, (await engine.triggers.get("rows")).policy)
        triggers = Service(engine, LOCAL).triggers
        assert engine.coordinator is not None
        await engine.coordinator._ward.quarantine(ID, ValueError("a test"))
        for shown in (await triggers.get("rows"), (await triggers.list().first())["items"][-1]):
            assert (shown["name"], shown["state"], shown["error"]["code"]) == ("rows", "quarantined", "quarantined")
            assert "a test" in shown["error"]["message"]
        await triggers.delete("rows")
        assert [one["name"] for one in (await triggers.list().first())["items"]] == ["other"]
        assert (await engine.journal.get_run(ID)).quarantined is not None
        await triggers.apply({"name": "rows", "workflow": "report", **numbers()})
        shown = await triggers.get("rows")
        assert (shown["state"], shown["trigger_id"]) == ("active", f"{ID}.1")
        Numbers.items.append(2)

        async def works():
            return (await triggers.get("rows"))["cursor"] == "2"

        await until_true(works, "the new one of this name polls")
        assert (await apply(engine, **numbers())).code == "quarantined"


@attack("S05", "a small delivery to a webhook of as many templates as fit")
async def test_a_small_delivery_whose_templates_make_much_is_mapped_beside_the_loop(server, monkeypatch):  # noqa: F811
    calls, real = [], map_item

    def note(*arguments, budget, **more):
        calls.append((threading.current_thread() is threading.main_thread(), budget.steps))
        return real(*arguments, budget=budget, **more)

    monkeypatch.setattr(webhook_deliveries, "map_item", note)
    inputs = {"day": 1, "l": ["x{{ item.body }}"] * 1500}
    hook = await register(server, {**ORDERS, "inputs": inputs})
    answer = await send(server, hook, [{"": 0}] * 10)
    assert answer.status_code == 202
    assert calls == [(True, webhook_deliveries.LOOP_STEPS), (False, 200_000)]
    (run,) = await finished(server, 1)
    shown = await server.ok(f"/runs/{run['run_id']}", headers=bearer())
    assert len(shown["inputs"]["l"]) == 1500


@pytest.mark.slow
@attack("X28", "deliveries that take thirty times their length in memory wait in a mailbox")
async def test_what_waits_in_a_mailbox_is_light_and_has_a_sum(server):  # noqa: F811
    heavy = [{"": 0}] * 4000
    assert estimate_memory(msgspec_encode(heavy)) > 25 * len(msgspec_encode(heavy))
    assert weigh_inputs(heavy).data is not None
    assert weigh_inputs({"text": "x" * 20_000}).data is None
    hook = await register(server, {**ORDERS, "inputs": {"day": "{{ item.body }}"}, "limits": {"buffer": 10_000}})
    await server.ok("/triggers/orders/pause", {}, headers=bearer())
    assert (await send(server, hook, heavy)).status_code == 202
    box = await server.engine.triggers.get("orders", tenant="acme")
    assert isinstance(box.waiting[1].inputs, BlobRef)
    assert box.bytes == box.waiting[1].size == 500
    await server.ok("/triggers/orders/resume", {}, headers=bearer())
    (run,) = await finished(server, 1)
    assert (await server.ok(f"/runs/{run['run_id']}", headers=bearer()))["inputs"]["day"] == heavy
    assert (await server.engine.triggers.get("orders", tenant="acme")).bytes == 0


@pytest.mark.slow
@attack("S05", "events that a trigger of as many templates as fit listens to")
async def test_what_a_trigger_hears_is_mapped_beside_the_loop_and_not_anew_for_each_large_input(tmp_path, monkeypatch):
    mapped, real = [], map_item

    def count(*arguments, **more):
        mapped.append(threading.current_thread() is threading.main_thread())
        return real(*arguments, **more)

    monkeypatch.setattr(mapped_polls, "map_item", count)
    async with running(tmp_path) as engine:
        listening: Any = {"event": {"name": "order.paid"}, "inputs": {"n": 1, "l": ["{{ item.payload.n }}"] * 1700}}
        await topics.begin(engine, **listening)
        assert not (await engine.triggers.change("paid", "pause")).refused
        for number in range(20):
            await topics.send(engine, "x" * 60, id=f"o{number}")
        await engine.triggers.change("paid", "resume")
        await topics.idle(engine, 20)
        await topics.sound(engine)
    assert not any(mapped)
    assert 20 <= len(mapped) <= 40  # one that was read before it may be heard is read again


@pytest.mark.slow
@attack("S03", "events of many parts for a trigger that is paused, and is resumed")
async def test_events_of_many_parts_hold_up_nobody(server):  # noqa: F811
    """None is read while nothing may be taken in, and then they are read beside the loop, as many at a time as a poll brings."""
    listening = {
        "name": "paid",
        "workflow": "report",
        "event": {"name": "order.paid"},
        "inputs": {"day": "{{ item.id }}"},
    }
    await server.ok("/triggers", {**listening, "limits": {"open": 1}}, headers=bearer())
    await server.ok("/triggers/paid/pause", {}, headers=bearer())
    body = b'{"name": "order.paid", "payload": [' + b"[]," * 60_000 + b"0]}"
    headers = {**bearer(), "Content-Type": "application/json"}
    with watching():
        for _ in range(30):
            answer = await server.client.post("/api/v1/events", content=body, headers=headers)
            assert answer.status_code == 202
        await server.ok("/triggers/paid/resume", {}, headers=bearer())
        await finished(server, 30, "paid")


@pytest.mark.slow
@attack("S13", "a webhook that answers with outputs of hundreds of megabytes")
async def test_an_answer_of_a_webhook_holds_as_much_as_any_other(server):  # noqa: F811
    nodes = [{"id": "big", "type": "transform", "config": {"value": "{{ inputs.day ~ inputs.day }}"}}]
    outputs = {f"o{number}": "{{ big }}" for number in range(60)}
    await server.ok("/workflows", {"name": "report", "nodes": nodes, "outputs": outputs}, headers=bearer())
    waiting = {**ORDERS["webhook"], "answer": {"wait": "20s", "body": "{{ run.outputs }}"}}
    hook = await register(server, {**ORDERS, "webhook": waiting})
    with watching():
        answer = await send(server, hook, {"day": "x" * 390_000})
    assert answer.status_code == 200
    assert 4 * MIB < len(answer.content) < ANSWER_BYTES + MIB
