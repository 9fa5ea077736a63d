"""`make bench ARGS=triggers`: what triggers cost, embedded and durable (SQLite synchronous=FULL): webhooks one after another and together,
schedules that are due in the same second, and triggers that are idle. Processor time means more than seconds on a machine that others use.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.http import HOOK, QUICK, SECRET
from perdure.clock import system
from perdure.engine import Engine
from perdure.journal import RunFilter
from perdure.model import compile_definition
from perdure.service import Service
from perdure.service.triggers import webhook_deliveries as hooks

HEADERS = {"authorization": f"Bearer {SECRET}", "content-type": "application/json"}
RAW = b'{"workflow": "quick"}'
SENDERS = 32
IDLE_SECONDS = 30.0
IDLE: tuple[dict[str, Any], ...] = (
    {"schedule": {"cron": "0 0 1 1 *"}},
    {"webhook": {"verify": {"scheme": "bearer", "secret": "BENCH"}}},
    {"event": {"name": "never.sent"}},
)


class Used:
    """Seconds and processor time since it was made."""

    def __init__(self) -> None:
        self._began, self._cpu = time.perf_counter(), time.process_time()

    def say(self, count: int, what: str) -> str:
        took, cpu = time.perf_counter() - self._began, time.process_time() - self._cpu
        return f"{took:6.1f} s   {count / took:8,.0f} {what}/s   {cpu / count * 1e6:6,.0f} µs of processor each"


async def open_engine(folder: Path) -> Engine:
    engine = await Engine.open(f"sqlite:///{folder / 'perdure.db'}")
    await engine.hold()
    await engine.workflows.register(compile_definition(QUICK))
    return engine


def when_completed(engine: Engine, count: int) -> asyncio.Event:
    """Set when so many runs have completed."""
    done, left = asyncio.Event(), count

    def listen(state: Any, events: list[Any]) -> None:
        nonlocal left
        left -= events[-1].type == "run.completed"
        if not left:
            done.set()

    engine.listen(listen)
    return done


async def measure_webhooks(engine: Engine, count: int) -> str:
    """From a signed request, without HTTP itself (`bench.http` has that), until all runs have ended."""
    hook = (await Service.of_owner(engine).triggers.apply(HOOK))["hook"].rpartition("/")[2]
    done, left, used = when_completed(engine, count), iter(range(count)), Used()

    async def send() -> None:
        for _ in left:
            caller = await hooks.authenticate(engine, hook, HEADERS, RAW)
            kept = hooks.keep_headers(HEADERS, caller.source.verify)
            await hooks.deliver(engine, caller, {"headers": kept, "query": {}, "body": {}}, len(RAW))

    await asyncio.gather(*(send() for _ in range(SENDERS)))
    await done.wait()
    return used.say(count, "webhooks")


async def measure_schedules(engine: Engine, count: int) -> str:
    """Schedules that are all due at one moment: from that moment until their runs have ended."""
    triggers = Service.of_owner(engine).triggers
    due = float(int(system.now()) + 30 + count // 100)
    at = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(due))
    left = iter(range(count))

    async def register() -> None:
        for number in left:
            await triggers.apply({"name": f"s{number}", "workflow": "quick", "schedule": {"at": [at]}})

    await asyncio.gather(*(register() for _ in range(SENDERS)))
    done = when_completed(engine, count)
    if (early := due - system.now()) < 0:
        return "registering took too long; this machine is busy"
    await system.sleep(early)
    used = Used()
    await done.wait()
    return used.say(count, "schedules")


async def measure_idle(engine: Engine, count: int) -> str:
    """Webhooks, schedules and listeners to events that have nothing to do: what they use while nothing happens."""
    triggers = Service.of_owner(engine).triggers
    for number in range(count):
        await triggers.apply({"name": f"i{number}", "workflow": "quick", **IDLE[number % len(IDLE)]})
    assert engine.coordinator is not None
    await engine.coordinator.settled()
    said = []
    written = await _count_events(engine)
    for holds in (count, 0):
        if not holds:  # the same process without any, to compare with
            for number in range(count):
                await triggers.delete(f"i{number}")
            await engine.coordinator.settled()
            written = await _count_events(engine)
        cpu = time.process_time()
        await system.sleep(IDLE_SECONDS)
        said.append(f"{(time.process_time() - cpu) / IDLE_SECONDS * 1000:5.1f} ms of processor a second with {holds:,}")
        said[-1] += f" ({await _count_events(engine) - written} events)"
    return "   ".join(said)


async def _count_events(engine: Engine) -> int:
    """Of all triggers: what is written while nothing happens is too much."""
    total, cursor = 0, None
    while True:
        page = await engine.journal.list_runs(RunFilter(), limit=1000, cursor=cursor)
        total += sum(row.seq for row in page.items)
        if (cursor := page.next_cursor) is None:
            return total


MEASURES = {
    "webhooks": (measure_webhooks, 5_000),
    "schedules": (measure_schedules, 10_000),
    "idle": (measure_idle, 10_000),
}


async def run(name: str, count: int) -> str:
    measure, usual = MEASURES[name]
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
        os.environ.setdefault("PERDURE_SECRET_BENCH", SECRET)
        engine = await open_engine(Path(folder))
        engine.triggers.most = max(engine.triggers.most, 2 * (count or usual))
        try:
            return await measure(engine, count or usual)
        finally:
            await engine.close(5.0)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(MEASURES)}; all without it")
    parser.add_argument("--count", type=int, default=0, help="how many, instead of the usual")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in MEASURES]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    print(f"{platform.machine()}, Python {platform.python_version()}, embedded engine, SQLite synchronous=FULL\n")
    for name in options.names or MEASURES:
        print(f"  {name:10} {asyncio.run(run(name, options.count))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
