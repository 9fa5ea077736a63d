"""`kill -9` of each process while webhooks come, schedules are due and rows are polled: one run for each of them (TG3, TG4).

With PERDURE_TEST_LONG=1 as many as the design asks for, which takes the better part of an hour (`make trigger-kills`).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from perdure.kernel import events as e
from perdure.kernel.triggers.mailbox import run_of_item
from perdure.runtime.triggers import trigger_id
from perdure.service import Service
from tests.chaos.cluster import Cluster, Process
from tests.distributed.helpers import eventually
from tests.engine.helpers import check, compiled, transform, workflow
from tests.waiting import until_true

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chaos")]

IS_LONG = bool(os.environ.get("PERDURE_TEST_LONG"))
HOOKS, SCHEDULES, ROWS = (10_000, 1_000, 1_000_000) if IS_LONG else (60, 12, 240)
FIRINGS = 6
"""Of each schedule."""
EVERY = "60s" if IS_LONG else "1s"
SENDERS = 8
PATIENCE_SECONDS = 6 * 3600.0 if IS_LONG else 120.0
LOOK_SECONDS = 10.0 if IS_LONG else 0.0
"""Between two counts: one of a million runs takes longer than the pause of a short wait, and the database has other work."""
HOOK = {
    "name": "kill-hook",
    "workflow": "killed",
    "webhook": {"verify": {"scheme": "none"}, "id": "{{ item.body.id }}"},
    "inputs": {"n": "{{ item.body.id }}"},
}


class Sender:
    """Sends each delivery, to one server and then to the other, until one has taken it."""

    def __init__(self, cluster: Cluster, hook: str) -> None:
        self._servers = cluster.of("coordinator")
        self._hook = hook
        self.taken: dict[str, str] = {}
        """By id, the run that was told."""

    async def run(self, count: int) -> None:
        left = iter(range(count))
        async with httpx2.AsyncClient(timeout=10.0) as client:
            await asyncio.gather(*(self._send(client, left, number) for number in range(SENDERS)))

    async def _send(self, client: httpx2.AsyncClient, left: Any, first: int) -> None:
        for number in left:
            for server in itertools.cycle(self._servers[first % 2 :] + self._servers[: first % 2]):
                if (said := await self._try(client, server, f"h{number}")) is not None:
                    known = self.taken.setdefault(f"h{number}", said)
                    assert known == said
                    break
                await asyncio.sleep(0.05)

    async def _try(self, client: httpx2.AsyncClient, server: Process, id: str) -> str | None:
        found = re.search(r"http://127\.0\.0\.1:\d+", server.said())
        if found is None:
            return None
        try:
            answer = await client.post(f"{found[0]}{self._hook}", json={"id": id})
        except httpx2.HTTPError:
            return None
        return str(answer.json()["run_id"]) if answer.status_code == 202 else None


def put_rows(place: Path, count: int) -> None:
    with closing(sqlite3.connect(place)) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        shop.executemany("INSERT INTO orders VALUES (?)", ((number,) for number in range(1, count + 1)))


async def test_each_delivery_each_moment_and_each_row_has_one_run_whichever_process_is_killed(cluster: Cluster):
    cluster.heal()
    await eventually(cluster.settled)
    engine = await cluster.engine(allow_unsigned_hooks=True)
    try:
        engine.triggers.most = SCHEDULES + 10
        triggers = Service.of_owner(engine).triggers
        await engine.workflows.register(compiled(workflow(transform("a", 1), name="killed")))
        hook = (await triggers.apply(HOOK))["hook"]
        put_rows(cluster.folder / "kills.db", ROWS)
        await _register_schedules(triggers)
        table = {"database": f"sqlite:///{cluster.folder}/kills.db", "table": "orders", "cursor": ["id"]}
        polled = {"every": "1s", "settle": "0s", "from": "start"}
        rows = {"name": "kill-rows", "workflow": "killed", "table": {**table, **polled}, "limits": {"open": 1000}}
        await triggers.apply(rows)
        count = HOOKS + ROWS + SCHEDULES * FIRINGS
        sender = Sender(cluster, hook)
        sending = asyncio.create_task(sender.run(HOOKS))
        await _kill_each(cluster, count)
        await asyncio.wait_for(sending, PATIENCE_SECONDS)
        await _until_there(cluster, count, "completed")
        found = [row["run_id"] for row in await cluster.query(f"SELECT run_id FROM perdure.runs WHERE {OURS}")]
        items = {run_of_item(HOOK_ID, f"h{n}") for n in range(HOOKS)}
        assert set(sender.taken.values()) == items
        items |= {run_of_item(ROWS_ID, f"[{n}]") for n in range(1, ROWS + 1)}
        moments = Counter(run_id.partition("~t")[0] for run_id in found if run_id not in items)
        assert moments == {trigger_id("default", f"kill-{n}"): FIRINGS for n in range(SCHEDULES)}
        assert len(found) == count
        if not IS_LONG:
            await _check_journals(engine.journal, found)
        for name in ("kill-hook", "kill-rows"):
            await triggers.delete(name)
    finally:
        await engine.close()


async def _register_schedules(triggers: Any) -> None:
    """Several at a time: each waits for its coordinator. None of their moments is left out, so each has its run."""
    left = iter(range(SCHEDULES))
    schedule = {"every": EVERY, "max_firings": FIRINGS}

    async def register() -> None:
        for number in left:
            written = {"name": f"kill-{number}", "workflow": "killed", "schedule": schedule}
            await triggers.apply({**written, "catchup": "all", "overlap": "buffer"})

    await asyncio.gather(*(register() for _ in range(SENDERS)))


OURS = "workflow = 'killed'"
HOOK_ID, ROWS_ID = trigger_id("default", "kill-hook"), trigger_id("default", "kill-rows")


async def _count(cluster: Cluster, state: str = "") -> int:
    only = f" AND state = '{state}'" if state else ""
    return int((await cluster.query(f"SELECT count(*) FROM perdure.runs WHERE {OURS}{only}"))[0]["count"])


async def _until_there(cluster: Cluster, wanted: int, state: str = "") -> None:
    """Wait for so many runs, in this state."""

    async def look() -> bool:
        found = await _count(cluster, state)
        if IS_LONG:
            print(f"{time.strftime('%H:%M:%S')} {found:,} of {wanted:,} runs are {state or 'there'}", flush=True)
        return found >= wanted

    await until_true(look, f"{wanted} runs {state}", PATIENCE_SECONDS, pause=LOOK_SECONDS)


async def _kill_each(cluster: Cluster, count: int) -> None:
    """Each process once, when a part of the runs is there; it comes back when some more are."""
    parts = [*cluster.processes, "redis"]
    for number, name in enumerate(parts):
        wanted = count * number // (2 * len(parts))
        await _until_there(cluster, wanted)
        cluster.kill_redis() if name == "redis" else cluster.get(name).kill()
        cluster.heal()


async def _check_journals(journal: Any, found: list[str]) -> None:
    """Nothing was started twice, by what the triggers wrote down."""
    names = ["kill-hook", "kill-rows", *(f"kill-{number}" for number in range(SCHEDULES))]
    started = [
        one.run_id
        for name in names
        for event in await check(journal, trigger_id("default", name))
        if isinstance(event, e.TriggerStarted)
        for one in event.starts
    ]
    assert sorted(started) == sorted(found)
