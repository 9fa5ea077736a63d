"""`make bench ARGS=streams`: chunks through one edge, embedded (SQLite synchronous=FULL) and through Redis, with the raw store beside.

Processor time means more than seconds on a machine that others use: it is of this process, which yields, carries and reads.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import perdure
from bench.triggers import Used, when_completed
from perdure.engine import Engine
from perdure.model import compile_definition
from perdure.runtime.coordinator.requests import Request
from perdure.streams import Chunks, Streams, stream_name
from perdure.transports.local_streams import LocalStreams

BATCH = 64


async def count(n: int) -> Any:
    for number in range(n):
        yield number


def count_plainly(n: int) -> Any:
    yield from range(n)


async def add(numbers: perdure.Stream[int]) -> int:
    total = 0
    async for number in numbers:
        total += number
    return total


def add_plainly(numbers: perdure.Stream[int]) -> int:
    return sum(numbers)


async def say_when(n: int) -> Any:
    yield time.perf_counter()


async def hear_when(times: perdure.Stream[float]) -> float:
    async for sent in times:
        return time.perf_counter() - sent
    return 0.0


def definition(name: str, source: str, reader: str, n: int, restart: str = "anew") -> dict[str, Any]:
    stream = {"collect": "count", "restart": restart}
    return {
        "name": name,
        "nodes": [
            {
                "id": "a",
                "type": "task",
                "config": {"function": f"bench.streams:{source}", "args": {"n": n}},
                "stream": stream,
            },
            {"id": "b", "type": "task", "config": {"function": f"bench.streams:{reader}"}},
        ],
        "edges": [{"from": "a", "to": f"b.{'times' if reader == 'hear_when' else 'numbers'}"}],
    }


async def run_once(engine: Engine, workflow: dict[str, Any], run_id: str) -> Any:
    compiled = compile_definition(workflow)
    ir, _ = await engine.workflows.register(compiled)
    done = when_completed(engine, 1)
    await engine.runs.request(Request(kind="start", run_id=run_id, ir=ir.hash))
    await asyncio.wait_for(done.wait(), 600)
    found = (await engine.runs.state(run_id)).find("b")
    return None if found is None else found.output


async def measure_engine(n: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = await Engine.open(f"sqlite:///{Path(folder) / 'perdure.db'}")
        await engine.hold()
        try:
            kinds = (("async", "count", "add", "anew"), ("plain", "count_plainly", "add_plainly", "anew"))
            for number, (what, source, reader, restart) in enumerate((*kinds, ("repeat", "count", "add", "repeat"))):
                used = Used()
                total = await run_once(engine, definition(f"w{number}", source, reader, n, restart), f"r{number}")
                if total != n * (n - 1) // 2:
                    raise SystemExit(f"{what}: the sum is {total}")
                print(f"embedded, {what:<8}{used.say(n, 'chunks')}", flush=True)
            seconds = [
                await run_once(engine, definition("first", "say_when", "hear_when", 1), f"f{number}")
                for number in range(20)
            ]
            print(f"first chunk at its reader: {statistics.median(seconds) * 1000:.1f} ms (median of 20)", flush=True)
        finally:
            await engine.close(1.0)


async def measure_store(what: str, streams: Streams, n: int) -> None:
    """The store alone: what no engine can be faster than."""
    name, bodies = stream_name("bench", "a", "out"), [b"%d" % number for number in range(BATCH)]

    async def write() -> None:
        for first in range(1, n + 1, BATCH):
            await streams.append(name, 1, first, bodies)

    async def read() -> None:
        after = 0
        while after < n:
            found = await streams.read(name, 1, "r", after)
            assert isinstance(found, Chunks)
            after += len(found.bodies)

    used = Used()
    await asyncio.gather(write(), read())
    print(f"{what:<18}{used.say(n, 'chunks')}", flush=True)
    await streams.drop("bench")


async def measure_redis(n: int) -> None:
    from perdure.transports.redis import open_redis

    url = os.environ.get("PERDURE_REDIS_URL")
    if not url:
        print("Redis is not measured: set PERDURE_REDIS_URL to a server that may be written to", flush=True)
        return
    transport = await open_redis(url, prefix=f"bench-{os.getpid()}")
    try:
        await measure_store("store on Redis", transport.streams, n)
    finally:
        await transport.close()


async def measure(n: int) -> None:
    await measure_store("store in memory", LocalStreams(), n // BATCH * BATCH)
    await measure_redis(n // BATCH * BATCH)
    await measure_engine(n)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench streams", description=__doc__)
    parser.add_argument("--chunks", type=int, default=200_000)
    asyncio.run(measure(parser.parse_args(words).chunks))
    return 0
