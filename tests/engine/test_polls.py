"""Sources that are polled, in a real engine: each item has one run, across restarts and rewinds (rule 51)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import perdure
from perdure.access import LOCAL
from perdure.clock import SystemClock
from perdure.engine import Engine
from perdure.kernel import events as e
from perdure.kernel.lifecycle import RunState
from perdure.kernel.triggers.mailbox import Mailbox, run_of_item
from perdure.runtime import poll_handler
from perdure.runtime.poll_handler import PollHandler
from perdure.runtime.triggers import trigger_id
from perdure.service import Service
from perdure.service.errors import Invalid
from perdure.sources import Item, Polled, Source
from perdure.triggers.declarations import read_data
from tests.engine.helpers import check, compiled, crash, ended, opened, running, transform, until_true, workflow

R = RunState
ID = trigger_id("default", "rows")
PLAIN = workflow(transform("a", {"n": "{{ inputs.n }}"}), name="report")


class Numbers(Source, name="test_numbers"):
    """A list that the tests write."""

    items: list[Any] = []
    trouble = ""
    opened: list[Any] = []

    async def open(self, config: dict[str, Any]) -> None:
        Numbers.opened.append(config)

    async def poll(self, cursor: str | None) -> Polled:
        if Numbers.trouble:
            raise RuntimeError(Numbers.trouble)
        begin = int(cursor or 0)
        page = Numbers.items[begin : begin + 10]
        made = tuple(Item(f"n{begin + place}", one) for place, one in enumerate(page))
        return Polled(made, str(begin + len(page)), more=begin + len(page) < len(Numbers.items))


async def apply(engine: Engine, begins: str = "", **keys: Any) -> Any:
    (trigger,) = read_data({"name": "rows", "workflow": "report", **keys}, 0.0).get_triggers()
    return await engine.triggers.apply(trigger, begins=begins)


async def begin(engine: Engine, **keys: Any) -> None:
    await engine.workflows.register(compiled(PLAIN))
    reply = await apply(engine, **keys)
    assert not reply.refused, reply


async def idle(engine: Engine, received: int) -> Mailbox:
    async def is_idle() -> bool:
        box = await engine.triggers.get("rows")
        return box.position >= received and not box.waiting and not box.open

    await until_true(is_idle, f"{received} items have had their runs")
    return await engine.triggers.get("rows")


def numbers(**more: Any) -> dict[str, Any]:
    poll = {"type": "test_numbers", "every": "1s", "config": {"size": 3}, **more}
    return {"poll": poll, "inputs": {"n": "{{ item.data }}"}}


def reset(*items: Any) -> None:
    Numbers.items[:], Numbers.trouble = items, ""
    Numbers.opened.clear()


def table(path: Path) -> dict[str, Any]:
    found = {"database": f"sqlite:///{path}", "table": "orders", "cursor": ["id"], "every": "1s", "from": "start"}
    return {"table": {**found, "settle": "0s"}, "inputs": {"n": "{{ item.what }}"}}


@pytest.mark.slow
async def test_each_item_of_a_custom_source_has_one_run_and_what_comes_later_too(tmp_path):
    reset(*range(25))
    async with running(tmp_path) as engine:
        await begin(engine, **numbers())
        box = await idle(engine, 25)
        assert (box.cursor, box.position) == ("25", 25)
        Numbers.items.append("late")
        assert (await idle(engine, 26)).position == 26
        state = await ended(engine, run_of_item(ID, "n25"))
        assert (state.state, state.inputs) == (R.COMPLETED, {"n": "late"})
        assert Numbers.opened == [{"size": 3}]
        known = len(await check(engine.journal, ID))
        looked = len([one for one in await check(engine.journal, ID) if isinstance(one, e.NodeScheduled)])
        assert looked == 6  # attempt 1, five pages, and the one that sleeps: an idle source writes nothing
        assert len(await check(engine.journal, ID)) == known


@pytest.mark.slow
async def test_a_process_that_dies_while_it_polls_loses_no_item_and_starts_none_twice(tmp_path):
    reset(*range(35))
    engine = await opened(tmp_path)
    await engine.hold()
    await begin(engine, **numbers())

    async def some() -> bool:
        return (await engine.triggers.get("rows")).position >= 10

    await until_true(some, "some have come in")
    await crash(engine)
    async with running(tmp_path) as engine:
        assert (await idle(engine, 35)).position == 35
        for number in range(35):
            assert (await ended(engine, run_of_item(ID, f"n{number}"))).inputs == {"n": number}
        await check(engine.journal, ID)


async def test_a_poll_of_an_idle_source_ends_after_an_hour():
    """One slept for ever that was sent before a backup was restored, and the one that the journal asked for has the same id."""
    reset()

    class Hours(SystemClock):
        at = 0.0

        def monotonic(self) -> float:
            return self.at

        async def sleep(self, seconds: float) -> None:
            self.at += seconds

    async def open_source(said: Any) -> Source:
        return Numbers()

    clock = Hours()
    config = {"source": {"every": 60}, "cursor": "0", "slow": False, "trigger": "t", "revision": 1}
    said = await PollHandler(open_source, clock, 1).handle(config, SimpleNamespace(tenant="default"))
    assert (said["items"], said["after"], said["cursor"], clock.at) == ([], "0", "0", 3600.0)


async def test_a_source_that_is_told_when_something_comes_is_asked_at_once():
    """An hour lies between its polls; and one that wakes for nothing is not asked without end."""
    come = asyncio.Event()
    slept: list[float] = []

    class Sleeps(SystemClock):
        async def sleep(self, seconds: float) -> None:
            slept.append(seconds)
            await (asyncio.Event().wait() if seconds > 1 else asyncio.sleep(0))

    class Told(Source):
        asked = 0

        async def poll(self, cursor: str | None) -> Polled:
            self.asked += 1
            return Polled((Item("1", 7),), "1") if self.asked == 3 else Polled((), cursor or "")

        async def wait(self, seconds: float) -> None:
            await come.wait()

    source = Told()

    async def open_source(said: Any) -> Source:
        return source

    handler = PollHandler(open_source, Sleeps(), 1)
    config = {"trigger": "t", "revision": 1, "source": {"every": 3600}, "slow": False, "cursor": ""}
    polling = asyncio.create_task(handler.handle(config, SimpleNamespace(tenant="acme")))
    await until_true(lambda: source.asked == 1, "it was asked")
    assert not polling.done()
    come.set()
    assert [item["id"] for item in (await polling)["items"]] == ["1"]
    assert slept == [3600.0, poll_handler.WOKEN_SECONDS] * 2


async def test_what_a_source_cannot_wait_for_fails_its_poll():
    class Broken(Source):
        async def poll(self, cursor: str | None) -> Polled:
            return Polled((), cursor or "")

        async def wait(self, seconds: float) -> None:
            raise ConnectionError("the server has gone")

    async def open_source(said: Any) -> Source:
        return Broken()

    handler = PollHandler(open_source, SystemClock(), 1)
    config = {"trigger": "t", "revision": 1, "source": {"every": 3600}, "slow": False, "cursor": ""}
    with pytest.raises(ConnectionError):
        await handler.handle(config, SimpleNamespace(tenant="acme"))


async def test_a_poll_that_sleeps_holds_no_slot():
    """G14: one that has nothing sleeps for an hour, and with it a source that has something waited."""
    asked: list[str] = []
    most, asking = 0, 0
    go_on = asyncio.Event()

    class Sleeps(SystemClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.Event().wait()

    class Named(Source):
        def __init__(self, name: str) -> None:
            self.name = name

        async def poll(self, cursor: str | None) -> Polled:
            nonlocal most, asking
            asking += 1
            most = max(most, asking)
            asked.append(self.name)
            await go_on.wait()
            asking -= 1
            return Polled((Item("1", 7),), "1") if self.name == "full" else Polled((), "0")

    async def open_source(said: Any) -> Source:
        return Named(said["name"])

    handler = PollHandler(open_source, Sleeps(), 1)
    config = {"cursor": "0", "slow": False, "revision": 1}
    names = ["idle1", "idle2", "full"]
    polls = [
        asyncio.create_task(
            handler.handle({**config, "source": {"name": one}, "trigger": one}, SimpleNamespace(tenant="default"))
        )
        for one in names
    ]
    go_on.set()
    async with asyncio.timeout(10):
        said = await polls[2]
    assert ([one["data"] for one in said["items"]], asked, most) == ([7], names, 1)
    for poll in polls[:2]:
        assert not poll.done()
        poll.cancel()
    await asyncio.gather(*polls, return_exceptions=True)


@pytest.mark.slow
async def test_idle_sources_keep_no_other_waiting(tmp_path):
    reset()
    async with running(tmp_path, trigger_slots=1) as engine:
        await engine.workflows.register(compiled(PLAIN))
        for name in ("one", "two", "three"):
            idles = {"name": name, "workflow": "report", "poll": {"type": "test_numbers", "every": "1h"}}
            (trigger,) = read_data(idles, 0.0).get_triggers()
            await engine.triggers.apply(trigger)
        await until_true(lambda: len(Numbers.opened) == 3, "three sources are asked")
        Numbers.items[:] = [1]
        await begin(engine, **numbers())
        assert (await idle(engine, 1)).cursor == "1"


@pytest.mark.slow
async def test_a_source_that_is_away_is_asked_again_and_says_why(tmp_path):
    reset(1)
    Numbers.trouble = "no answer"
    async with running(tmp_path) as engine:
        await begin(engine, **numbers())

        async def failing() -> bool:
            found = (await engine.runs.state(ID)).find("receive")
            return found is not None and found.error is not None and "no answer" in found.error.message

        await until_true(failing, "the failure is told")
        triggers = Service(engine, LOCAL).triggers

        async def shown() -> Any:
            return (await triggers.get("rows"))["error"]

        assert "no answer" in (await until_true(shown, "the trigger shows it"))["message"]
        Numbers.trouble = ""
        assert (await idle(engine, 1)).cursor == "1"

        async def healthy() -> bool:
            return await shown() is None

        await until_true(healthy, "the trigger shows that it is over")


async def test_what_cannot_be_mapped_is_parked_and_the_filter_is_a_fact(tmp_path):
    reset({"v": 1}, {"w": 2}, {"v": 3})
    async with running(tmp_path) as engine:
        keys = numbers() | {"inputs": {"n": "{{ item.data.v }}"}, "filter": "!has(item.data.v) || item.data.v < 3"}
        await begin(engine, **keys)
        box = await idle(engine, 2)
        assert (list(box.parked), box.cursor) == ([2], "3")
        assert (await ended(engine, run_of_item(ID, "n0"))).inputs == {"n": 1}
        found = await check(engine.journal, ID)
        assert [(one.reason, one.count) for one in found if isinstance(one, e.TriggerSkipped)] == [("filter", 1)]


async def test_what_a_poll_brought_and_could_not_be_mapped_is_mapped_anew(tmp_path):
    reset({"w": 2})
    async with running(tmp_path) as engine:
        await begin(engine, **numbers() | {"inputs": {"n": "{{ item.data.v }}"}})
        box = await idle(engine, 1)
        assert box.parked[1].error.code == "unmapped"
        triggers = Service(engine, LOCAL).triggers
        with pytest.raises(Invalid, match="cannot be mapped"):
            await triggers.requeue("rows", 1)
        await apply(engine, **numbers() | {"inputs": {"n": "{{ item.data.w }}"}})
        await triggers.requeue("rows", 1)
        assert (await ended(engine, run_of_item(ID, "n0"))).inputs == {"n": 2}


async def test_a_rewind_runs_again_what_is_asked_for_and_nothing_else(tmp_path):
    reset(*range(5))
    async with running(tmp_path) as engine:
        await begin(engine, **numbers())
        await idle(engine, 5)
        assert (await engine.triggers.rewind("rows", "2", reason="")).code == "reason_needed"
        assert not (await engine.triggers.rewind("rows", None, reason="look again")).refused

        async def back() -> bool:
            return (await engine.triggers.get("rows")).cursor == "5"

        await until_true(back, "everything was read again")
        assert (await engine.triggers.get("rows")).position == 5
        assert not (await engine.triggers.rewind("rows", "3", reason="lost", again=True)).refused
        assert (await idle(engine, 7)).position == 7
        for number in (3, 4):
            assert (await ended(engine, run_of_item(ID, f"n{number}", 1))).state is R.COMPLETED


@pytest.mark.slow
async def test_another_source_must_say_where_it_begins(tmp_path):
    reset(1)
    async with running(tmp_path) as engine:
        await begin(engine, **numbers())
        await idle(engine, 1)
        other = numbers(config={"size": 4})
        assert (await apply(engine, **other)).code == "from_needed"
        assert not (await apply(engine, **numbers(every="2s"))).refused
        assert not (await apply(engine, **numbers(config={"size": 4}, **{"from": "cursor"}))).refused
        assert (await apply(engine, **numbers(config={"size": 5}))).code == "from_needed"
        Numbers.items.append(2)
        assert (await idle(engine, 2)).cursor == "2"


async def test_large_items_come_as_blobs(tmp_path):
    reset("x" * 100_000, "y" * 40_000)
    async with running(tmp_path) as engine:
        await begin(engine, **numbers())
        await idle(engine, 2)
        for number in (0, 1):
            assert (await ended(engine, run_of_item(ID, f"n{number}"))).state is R.COMPLETED
        await check(engine.journal, ID)


@pytest.mark.slow
async def test_rows_of_a_table_are_read_in_their_order_and_only_under_the_roots(tmp_path):
    place = tmp_path / "shop.db"
    with closing(sqlite3.connect(place)) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT)")
        shop.executemany("INSERT INTO orders VALUES (?, ?)", [(n, f"w{n}") for n in range(1, 151)])
    async with running(tmp_path, folder_roots=str(tmp_path)) as engine:
        await begin(engine, **table(place))
        assert (await idle(engine, 150)).position == 150
        assert (await ended(engine, run_of_item(ID, "[150]"))).inputs == {"n": "w150"}
        with closing(sqlite3.connect(place)) as shop, shop:
            shop.execute("INSERT INTO orders VALUES (151, 'last')")
        await idle(engine, 151)
        assert (await ended(engine, run_of_item(ID, "[151]"))).inputs == {"n": "last"}
    (tmp_path / "other").mkdir()
    async with running(tmp_path / "other", folder_roots=str(tmp_path / "other")) as engine:
        await begin(engine, **table(place))

        async def refused() -> bool:
            found = (await engine.runs.state(ID)).find("receive")
            return found is not None and found.error is not None and found.error.code == "source_refused"

        await until_true(refused, "a database outside of the roots is not read")


@pytest.mark.slow
async def test_new_files_of_a_folder_start_runs_and_those_that_were_there_do_not(tmp_path):
    inbox = tmp_path / "in"
    inbox.mkdir()
    (inbox / "old.csv").write_text("old")
    async with running(tmp_path, folder_roots=str(tmp_path)) as engine:
        folder = {"url": str(inbox), "match": "*.csv", "settle": "0s", "every": "1s", "identity": "path"}
        await begin(engine, folder=folder, inputs={"n": "{{ item.path }}"})

        async def looked() -> bool:
            return (await engine.triggers.get("rows")).cursor is not None

        await until_true(looked, "it was looked at for the first time")
        (inbox / "new.csv").write_text("new")
        assert (await idle(engine, 1)).position == 1
        assert (await ended(engine, run_of_item(ID, "new.csv"))).inputs == {"n": str(inbox / "new.csv")}


async def test_a_server_that_may_not_be_called_is_not_called(tmp_path):
    async with running(tmp_path) as engine:
        found = {"database": "postgresql://u:secret-word@127.0.0.1:5999/x", "table": "orders", "cursor": ["id"]}
        await begin(engine, table=found)

        async def refused() -> bool:
            found = (await engine.runs.state(ID)).find("receive")
            return found is not None and found.error is not None and "egress_allow" in found.error.message

        await until_true(refused, "the address is refused")
        found = (await engine.runs.state(ID)).find("receive")
        assert found is not None
        assert "secret-word" not in str(found.error)


def test_what_a_source_needs_is_exported():
    assert (perdure.Source, perdure.Polled, perdure.Item) == (Source, Polled, Item)


@pytest.mark.parametrize("says", [{}, {"from": "end"}])
async def test_a_rewind_to_the_start_brings_back_what_was_there_whatever_the_source_says(tmp_path, says):
    (tmp_path / "in").mkdir()
    for name in ("a.csv", "b.csv"):
        (tmp_path / "in" / name).write_text("1")
    folder = {"url": str(tmp_path / "in"), "every": "1s", "settle": 0, "identity": "path", **says}
    async with running(tmp_path, folder_roots=str(tmp_path)) as engine:
        await begin(engine, folder=folder, inputs={"n": "{{ item.path }}"})

        async def read() -> bool:
            return (await engine.triggers.get("rows")).cursor is not None

        await until_true(read, "it has been looked at")
        assert (await engine.triggers.get("rows")).position == 0
        assert not (await engine.triggers.rewind("rows", None, reason="all of it")).refused
        assert (await idle(engine, 2)).position == 2
        for name in ("a.csv", "b.csv"):
            assert (await ended(engine, run_of_item(ID, name))).state is R.COMPLETED
