"""Sources that are polled by workers of a deployment: the next worker goes on from the cursor, and each row has one run (rule 51)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure import engine
from perdure.access import LOCAL
from perdure.engine import Engine
from perdure.kernel.triggers.mailbox import run_of_item
from perdure.runtime.triggers import trigger_id
from perdure.service import Service
from perdure.sources import Item, Polled, Source
from perdure.triggers.declarations import read_data
from tests.distributed.helpers import Deployment, eventually
from tests.engine.helpers import check, compiled, transform, workflow

pytestmark = pytest.mark.slow
ID = trigger_id("default", "rows")
QUEUES = ("default", "triggers")


def put(place: Path, first: int, last: int) -> None:
    with closing(sqlite3.connect(place)) as shop, shop:
        shop.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, what TEXT NOT NULL)")
        shop.executemany("INSERT INTO orders VALUES (?, ?)", [(n, f"w{n}") for n in range(first, last + 1)])


async def idle(engine: Engine, received: int) -> None:
    async def is_idle() -> bool:
        box = await engine.triggers.get("rows")
        return box.position >= received and not box.waiting and not box.open

    await eventually(is_idle)


async def test_a_worker_that_ends_or_dies_leaves_the_poll_to_the_next(deployment: Deployment, tmp_path: Path) -> None:
    place = tmp_path / "shop.db"
    put(place, 1, 120)
    roots: dict[str, Any] = {"folder_roots": str(tmp_path)}
    coordinator = await deployment.coordinator()
    await coordinator.workflows.register(compiled(workflow(transform("a", {"n": "{{ inputs.n }}"}), name="report")))
    table = {"database": f"sqlite:///{place}", "table": "orders", "cursor": ["id"], "every": "1s", "from": "start"}
    written = {
        "name": "rows",
        "workflow": "report",
        "table": {**table, "settle": "0s"},
        "inputs": {"n": "{{ item.what }}"},
    }
    (trigger,) = read_data(written, 0.0).get_triggers()
    assert not (await coordinator.triggers.apply(trigger)).refused
    first = await deployment.worker(QUEUES, **roots)
    assert first.poller is not None
    await idle(coordinator, 120)
    await deployment.close(first)
    put(place, 121, 130)
    second = await deployment.worker(("triggers",), **roots)
    assert second.worker is None
    await idle(coordinator, 130)
    for one in second.parts.tasks:  # as by kill -9: nothing is handed back
        one.cancel()
    put(place, 131, 140)
    await deployment.worker(QUEUES, **roots)
    await idle(coordinator, 140)
    events = await check(coordinator.journal, ID)
    started = [one.run_id for event in events if event.type == "trigger.started" for one in event.starts]
    assert sorted(started) == sorted(run_of_item(ID, f"[{number}]") for number in range(1, 141))


class Parcels(Source, name="test_parcels"):
    def poll(self, cursor: str | None) -> Polled:
        return Polled((Item("p1", 1),) if cursor is None else (), "1")


async def test_a_custom_source_is_polled_by_a_worker_that_has_it(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
):
    coordinator = await deployment.coordinator()
    await coordinator.workflows.register(compiled(workflow(transform("a", "{{ inputs.n }}"), name="report")))
    poll = {"type": "test_parcels", "every": "1s", "from": "start"}
    written = {"name": "rows", "workflow": "report", "poll": poll, "inputs": {"n": "{{ item.data }}"}}
    (trigger,) = read_data(written, 0.0).get_triggers()
    with monkeypatch.context() as lacking:
        lacking.setattr(engine, "list_sources", lambda: ())
        await deployment.worker(QUEUES)
    assert not (await coordinator.triggers.apply(trigger)).refused
    triggers = Service(coordinator, LOCAL).triggers

    async def is_told() -> bool:
        error = (await triggers.get("rows"))["error"]
        return error is not None and "lacked the source 'test_parcels'; start one with --import" in error["message"]

    await eventually(is_told)
    await deployment.worker(QUEUES)
    await idle(coordinator, 1)
    assert (await triggers.get("rows"))["error"] is None
