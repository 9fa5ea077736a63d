"""`make bench ARGS=scaling`: what things cost at three sizes, as a table and a picture (docs/pictures/scaling.svg).

Each subject and size runs in a process of its own on a fresh database. Costs are processor time of that process, all
threads together, so that other work on the machine disturbs them little. The ratio is the cost at the largest size
divided by that at the smallest: about 1 where an item costs the same however many there are.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from bench.chart import draw
from bench.scenarios import open_engine, register, run_all
from bench.work import task
from perdure.clock import SystemClock
from perdure.doctor import examine
from perdure.engine import Engine
from perdure.journal import RunFilter
from perdure.journals.sqlite import SqliteJournal
from perdure.runtime.coordinator.ownership.listener import Listener
from perdure.runtime.coordinator.requests import Request

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "scaling.svg"
AT_ONCE = 500
DIAMOND = [task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c")]


class AheadClock(SystemClock):
    """The clock of the machine, which a benchmark can set ahead."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


async def ask_all(engine: Engine, requests: list[Request]) -> None:
    for start in range(0, len(requests), AT_ONCE):
        replies = await asyncio.gather(*map(engine.runs.request, requests[start : start + AT_ONCE]))
        assert not any(reply.code for reply in replies), replies


async def measure_asked(engine: Engine, requests: list[Request]) -> float:
    """Microseconds of processor time for one of these requests."""
    begun = time.process_time()
    await ask_all(engine, requests)
    return (time.process_time() - begun) / len(requests) * 1e6


async def start(engine: Engine, nodes: list[dict[str, Any]], count: int = 1) -> None:
    ir = await register(engine, "scaling", nodes)
    await ask_all(engine, [Request(kind="start", run_id=f"r{n:07}", ir=ir) for n in range(count)])
    before, seq = -1, 0
    while before != seq:  # nodes that only wait are answered a portion at a time, after the start
        await asyncio.sleep(0.5)
        before, seq = seq, (await engine.journal.get_run("r0000000")).seq


def wait(node: str, **config: Any) -> dict[str, Any]:
    return {"id": node, "type": "wait", "config": config}


def signal(name: str) -> Request:
    return Request(kind="signal", run_id="r0000000", name=name)


async def signals(folder: Path, size: int) -> float:
    engine = await open_engine(folder)
    await start(engine, [wait("n", signal="never")])
    await ask_all(engine, [signal("go")] * size)
    cost = await measure_asked(engine, [signal("go")] * AT_ONCE)
    await engine.close()
    return cost


async def waits(folder: Path, size: int) -> float:
    engine = await open_engine(folder)
    await start(engine, [wait(f"n{number}", signal="go") for number in range(size)])
    cost = await measure_asked(engine, [signal("go")] * AT_ONCE)
    await engine.close()
    return cost


async def votes(folder: Path, size: int) -> float:
    engine = await open_engine(folder)
    nodes = [{"id": f"n{number}", "type": "human", "config": {"approvers": ["ann"]}} for number in range(size)]
    await start(engine, nodes)
    page = await engine.journal.list_approvals(run_id="r0000000", limit=AT_ONCE)
    ballots = [
        Request(kind="vote", run_id="r0000000", approval=row.approval_id, decision="approve", by="ann")
        for row in page.items
    ]
    await ask_all(engine, ballots[:1])  # reads where the approvals are
    cost = await measure_asked(engine, ballots[1:])
    await engine.close()
    return cost


async def timers(folder: Path, size: int) -> float:
    clock = AheadClock()
    engine = await Engine.open(f"sqlite:///{folder / 'bench.db'}", clock=clock)
    await engine.hold()
    await start(engine, [wait("n", seconds=36_000)], size)
    left, done = size, asyncio.Event()

    def note(state: Any, events: list[Any]) -> None:
        nonlocal left
        left -= events[-1].type == "run.completed"
        if not left:
            done.set()

    engine.listen(note)
    begun = time.process_time()
    clock.ahead = 40_000.0
    engine.timekeeper.look_soon()
    await done.wait()
    cost = (time.process_time() - begun) / size * 1e6
    await engine.close()
    return cost


async def leave_runs(folder: Path, size: int) -> str:
    """Runs whose tasks are queued, as a process that died leaves them, and the workflow of a new run."""
    engine = await Engine.open(f"sqlite:///{folder / 'bench.db'}")
    await engine.hold(work=False)
    await start(engine, DIAMOND, size)
    ir = await register(engine, "new", [task("n")])
    await engine.close(0)
    return ir


async def resumption(folder: Path, size: int) -> float:
    """Until a new run is done after a start that finds this many to resume."""
    ir = await leave_runs(folder, size)
    gc.collect()  # what the process that died had in memory is not there after a start
    engine = await Engine.open(f"sqlite:///{folder / 'bench.db'}")
    begun = time.process_time()
    await engine.hold()
    await run_all(engine, ir, 1, prefix="new-")
    cost = (time.process_time() - begun) * 1e6
    await engine.close(0)
    return cost


async def followers(folder: Path, size: int) -> float:
    engine = await open_engine(folder)
    await start(engine, [wait("n", signal="never")], size)

    async def follow(run_id: str) -> None:
        async for _ in engine.feed.follow(run_id):
            pass

    tasks = [asyncio.create_task(follow(f"r{number:07}")) for number in range(size)]
    while engine.feed.followed < size:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    ir = await register(engine, "diamond", DIAMOND)
    await run_all(engine, ir, 50, prefix="warm-")
    begun = time.process_time()
    await run_all(engine, ir, 500, prefix="new-")
    cost = (time.process_time() - begun) / 2000 * 1e6
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await engine.close()
    return cost


async def notices(folder: Path, size: int) -> float:
    """A look at the notices, ten looks a second, over a minute."""
    journal = await SqliteJournal.open(folder / "bench.db")
    with sqlite3.connect(folder / "bench.db") as connection:
        rows = [(0, f"r{number}", "child", b"{}") for number in range(size)]
        connection.executemany("INSERT INTO notices (partition, run_id, from_run_id, body) VALUES (?, ?, ?, ?)", rows)
    clock = AheadClock()

    async def learn() -> None:
        pass

    coordinator = SimpleNamespace(
        share=SimpleNamespace(partitions=None),
        put=lambda message: None,
        incarnation=SimpleNamespace(learn=learn),
        library=None,
    )
    listener = Listener(journal, cast(Any, coordinator), clock)
    await listener.listen()
    begun = time.process_time()
    for _ in range(600):
        clock.ahead += 0.1
        await listener.listen()
    cost = (time.process_time() - begun) / 600 * 1e6
    await journal.close()
    return cost


async def doctor(folder: Path, size: int) -> float:
    engine = await open_engine(folder)
    ir = await register(engine, "diamond", DIAMOND)
    for first in range(0, size, AT_ONCE):
        await run_all(engine, ir, AT_ONCE, prefix=f"r{first}-")
    begun = time.process_time()
    report = await examine(engine.journal, engine.library)
    cost = (time.process_time() - begun) / report.runs * 1e6
    assert report.sound, report.findings
    await engine.close()
    return cost


FILL = """
INSERT INTO runs (run_id, seq, commit_id, state, workflow, workflow_version, ir, partition, tenant, tags, generation,
                  counter, busy, created_at)
WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < :size)
SELECT 'r' || n, 1, 'c', 'completed', 'flow', 1, 'ir', 0, CASE WHEN n <= 100 THEN 'small' ELSE 'large' END, x'7b7d', 1, 0, 0, n
FROM counted
"""


async def tenant(folder: Path, size: int) -> float:
    """A page of a tenant with a hundred runs among many, all and by state."""
    journal = await SqliteJournal.open(folder / "bench.db")
    with sqlite3.connect(folder / "bench.db") as connection:
        connection.execute(FILL, {"size": size})
    begun = time.process_time()
    for _ in range(10):
        for where in (RunFilter(tenant="small"), RunFilter(tenant="small", states=("completed",))):
            assert len((await journal.list_runs(where, limit=100)).items) == 100
    cost = (time.process_time() - begun) / 20 * 1e6
    await journal.close()
    return cost


class Subject(NamedTuple):
    title: str
    measure: Callable[[Path, int], Awaitable[float]]
    sizes: tuple[int, int, int] = (1000, 4000, 16_000)


SUBJECTS = {
    "signals": Subject("one more signal, so many not consumed", signals),
    "waits": Subject("a signal, so many nodes wait for it", waits),
    "votes": Subject("a vote, so many approvals open in its run", votes, (500, 2000, 8000)),
    "timers": Subject("a timer, so many due at once", timers, (4000, 8000, 16_000)),
    "resumption": Subject("a new run after a start, so many to resume", resumption),
    "followers": Subject("a node, so many readers of other runs", followers, (100, 500, 2000)),
    "notices": Subject("a look at notices, so many waiting", notices),
    "doctor": Subject("doctor, a run of so many", doctor, (500, 2000, 8000)),
    "tenant": Subject("a list of a small tenant, among so many runs", tenant, (10_000, 100_000, 1_000_000)),
}


def measure(name: str, size: int) -> float:
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
        command = [sys.executable, "-m", "bench.scaling", name, str(size), folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return float(json.loads(done.stdout))


def main(wanted: list[str], *, as_json: bool = False) -> int:
    if unknown := [name for name in wanted if name not in SUBJECTS]:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(SUBJECTS)}", file=sys.stderr)
        return 2
    found: dict[str, list[tuple[int, float]]] = {}
    for name in wanted or SUBJECTS:
        subject = SUBJECTS[name]
        found[name] = [(size, measure(name, size)) for size in subject.sizes]
        if not as_json:
            cells = "".join(f"{f'{cost:,.0f} µs at {size:,}':>24}" for size, cost in found[name])
            print(f"  {subject.title:46}{cells}{found[name][-1][1] / found[name][0][1]:8.2f}", flush=True)
    if as_json:
        print(json.dumps({name: {str(size): round(cost, 1) for size, cost in row} for name, row in found.items()}))
    if not wanted:
        PICTURE.write_text(draw({SUBJECTS[name].title: row for name, row in found.items()}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    print(json.dumps(asyncio.run(SUBJECTS[sys.argv[1]].measure(Path(sys.argv[3]), int(sys.argv[2])))))  # type: ignore[arg-type]
