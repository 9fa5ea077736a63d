"""The workloads. Each runs in a process of its own, on a fresh database, and prints one JSON object."""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from bench.work import task
from perdure.engine import Engine
from perdure.model import compile_definition
from perdure.runtime.coordinator.requests import Request


def memory_mb() -> float:
    """Resident now, not at the peak."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


async def open_engine(folder: Path) -> Engine:
    engine = await Engine.open(f"sqlite:///{folder / 'bench.db'}")
    await engine.hold()
    return engine


async def register(engine: Engine, name: str, nodes: list[dict[str, Any]]) -> str:
    compiled = compile_definition({"name": name, "nodes": nodes})
    assert compiled.ir is not None, compiled.problems
    await engine.workflows.register(compiled)
    return compiled.ir.hash


async def run_all(engine: Engine, ir: str, count: int, prefix: str = "run-") -> float:
    """Start `count` runs and wait until all have completed; the seconds it took."""
    done = asyncio.Event()
    left = count

    def listen(state: Any, events: list[Any]) -> None:
        nonlocal left
        if events[-1].type == "run.completed":
            left -= 1
            if not left:
                done.set()

    stop = engine.listen(listen)
    start = time.perf_counter()
    requests = (Request(kind="start", run_id=f"{prefix}{n:06}", ir=ir) for n in range(count))
    await asyncio.gather(*(engine.runs.request(request) for request in requests))
    await done.wait()
    stop()
    return time.perf_counter() - start


async def diamonds(folder: Path) -> dict[str, Any]:
    engine = await open_engine(folder)
    ir = await register(engine, "diamond", [task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c")])
    before = time.process_time()
    seconds = await run_all(engine, ir, 2000)
    processor = (time.process_time() - before) / 8000 * 1e6
    await engine.close()
    return {
        "runs/s": 2000 / seconds,
        "nodes/s": 8000 / seconds,
        "seconds": seconds,
        "processor µs/node": processor,
        "peak MB": peak_mb(),
    }


async def chain(folder: Path) -> dict[str, Any]:
    engine = await open_engine(folder)
    nodes = [task("n000")] + [task(f"n{i:03}", f"n{i - 1:03}") for i in range(1, 100)]
    ir = await register(engine, "chain", nodes)
    before = time.process_time()
    times = [await run_all(engine, ir, 1, prefix=f"chain{number}-") for number in range(20)]
    processor = (time.process_time() - before) / 2000 * 1e6
    await engine.close()
    times.sort()
    median, best = times[len(times) // 2] / 100 * 1e6, times[0] / 100 * 1e6
    return {"µs/hop": median, "best µs/hop": best, "processor µs/hop": processor}


async def fan(folder: Path, width: int) -> dict[str, Any]:
    engine = await open_engine(folder)
    middle = [f"m{i:06}" for i in range(width)]
    nodes = [task("first"), *(task(name, "first") for name in middle), task("last", *middle)]
    start = time.perf_counter()
    ir = await register(engine, "fan", nodes)
    compiled = time.perf_counter() - start
    del nodes
    gc.collect()
    before = memory_mb()
    begun = time.process_time()
    seconds = await run_all(engine, ir, 1)
    processor = (time.process_time() - begun) / (width + 2) * 1e6
    await engine.close()
    result = {
        "nodes/s": (width + 2) / seconds,
        "seconds": seconds,
        "compile s": compiled,
        "processor µs/node": processor,
    }
    return {**result, "MB before": before, "peak MB": peak_mb()}


async def waiting(folder: Path) -> dict[str, Any]:
    engine = await open_engine(folder)
    human = {"id": "ask", "type": "human", "config": {"approvers": ["ann"]}}
    ir = await register(engine, "waiting", [human, task("after", "ask")])
    count = 10_000
    for first in range(0, count, 1000):
        await asyncio.gather(
            *(engine.runs.request(Request(kind="start", run_id=f"w{n:06}", ir=ir)) for n in range(first, first + 1000))
        )
    await engine.close()
    del engine
    gc.collect()
    before = memory_mb()
    start = time.perf_counter()
    again = await open_engine(folder)
    reply = await again.runs.request(Request(kind="pause", run_id="w000000"))
    seconds = time.perf_counter() - start
    assert reply.state == "paused", reply
    after = memory_mb()
    await again.close()
    return {"start s": seconds, "memory growth MB": after - before, "resident MB": after}


SCENARIOS = {
    "diamonds": diamonds,
    "chain": chain,
    "fan-10000": lambda folder: fan(folder, 10_000),
    "fan-100000": lambda folder: fan(folder, 99_998),
    "waiting": waiting,
}

if __name__ == "__main__":
    print(json.dumps(asyncio.run(SCENARIOS[sys.argv[1]](Path(sys.argv[2])))))
