"""Triggers inside runs of a real deployment: whoever is killed, each item is taken once and in order (rule 54)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure.engine import Engine
from perdure.kernel import events as e
from perdure.service import Service
from tests.chaos.cluster import Cluster
from tests.distributed.helpers import eventually
from tests.engine.helpers import check, ended, events, start, transform, until, workflow

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chaos")]

HALF, ALL, LAST = 50, 100, 105
POLLED, PUSHED = "consume-rows", "consume-events"
TOPIC = "chaos.counted"


def consumer(took: str, **config: Any) -> dict[str, Any]:
    """An endless loop over what comes, until the last."""
    loop = {"condition": f"output.n != {LAST}", "loop_back_to": "take", "endless": True}
    work = transform("work", {"n": took}) | {"dependencies": ["take"], "loop": loop}
    return workflow({"id": "take", "type": "trigger", "config": config}, work)


def put_rows(place: Path, first: int, last: int) -> None:
    with closing(sqlite3.connect(place)) as shop, shop:
        shop.execute("CREATE TABLE IF NOT EXISTS numbers (n INTEGER PRIMARY KEY)")
        shop.executemany("INSERT INTO numbers VALUES (?)", ((number,) for number in range(first, last + 1)))


async def put(engine: Engine, place: Path, first: int, last: int) -> None:
    """The same numbers in both: as rows that are polled, and as events that are sent."""
    put_rows(place, first, last)
    for number in range(first, last + 1):
        await Service.of_owner(engine).events.send(TOPIC, {"n": number}, id=f"n{number}")


async def taken(engine: Engine, run_id: str) -> list[int]:
    outputs = [
        one.output
        for one in await events(engine.journal, run_id)
        if isinstance(one, e.NodeCompleted) and one.node == "take"
    ]
    return [one.get("n", one.get("payload", {}).get("n")) for one in outputs]


async def test_consuming_at_100_and_killed_exactly_101_to_105_come_in_order(cluster: Cluster):
    cluster.heal()
    await eventually(cluster.settled)
    place = cluster.folder / "numbers.db"
    engine = await cluster.engine()
    try:
        table = {"database": f"sqlite:///{place}", "table": "numbers", "cursor": ["n"]}
        polled = {**table, "every": "1s", "settle": "0s", "from": "start"}
        put_rows(place, 1, 0)
        await start(engine, consumer("{{ take.n }}", table=polled), POLLED)
        await start(engine, consumer("{{ take.payload.n }}", event={"name": TOPIC}), PUSHED)
        runs = (POLLED, PUSHED)
        await put(engine, place, 1, HALF)
        for run_id in runs:
            await until(engine, lambda state: len(state.activations) > HALF, run_id)
        for name in ("coordinator-a", "worker-a"):  # somewhere in the middle of what comes
            cluster.get(name).kill()
        await put(engine, place, HALF + 1, ALL)
        cluster.heal()
        for run_id in runs:
            await until(engine, lambda state: state.find("take", (ALL + 1,)) is not None, run_id)
            assert await taken(engine, run_id) == list(range(1, ALL + 1))
        for process in cluster.processes.values():  # both wait for the next one now, one in a worker that sleeps
            process.kill()
        await put(engine, place, ALL + 1, LAST)
        cluster.heal()
        for run_id in runs:
            await ended(engine, run_id)
            assert await taken(engine, run_id) == list(range(1, LAST + 1))
            await check(engine.journal, run_id)
            assert await engine.journal.read_subscriptions(run_id) == []
    finally:
        await engine.close()
