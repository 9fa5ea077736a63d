"""`python -m bench.distributed [SCENARIO …]`: a coordinator process and a worker process on PostgreSQL and Valkey, fsync on.

Both are real (`perdure serve`, `perdure worker`), on private servers from the wheels, and so is the client: it hands its starts over as any
other process does. Beside each figure stands the processor time that a node took of each process: on a machine that is shared
that says more than nodes a second. `--profile` shows where the two processes spend theirs.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import os
import platform
import pstats
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from bench.postgres import TABLE
from bench.postgres import raw as raw_inserts
from bench.redis import raw as raw_commands
from bench.work import task
from perdure.engine import Engine
from perdure.journal import Accepted, Commit, RunRow, StoredEvent
from perdure.journals.postgres import migrate_postgres, open_postgres
from perdure.model import compile_definition
from perdure.private_servers.system_user import as_user
from perdure.runtime.coordinator.requests import Request
from perdure.settings import Settings
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

ROOT = Path(__file__).parents[1]
TICK = os.sysconf("SC_CLK_TCK")
HELD = """
    SELECT count(*) = (SELECT count(*) FROM perdure.partitions)
    FROM perdure.partitions JOIN perdure.coordinators USING (holder) WHERE expires_at > now()
"""
SLOTS = 100
"""Tasks that the worker had when it was killed: they lapse only when it has been silent for 15 s."""
AT_ONCE = 500
"""Starts that the client has under way."""


class Process:
    """`perdure serve` or `perdure worker`, as somebody would start it."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str], *arguments: str, profile: bool) -> None:
        self.name = name
        self.profile = folder / f"{name}.profile" if profile else None
        watched = ["-m", "cProfile", "-o", str(self.profile)] if self.profile else []
        command = [sys.executable, *watched, "-m", "perdure", name, *arguments]
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                as_user(os.getuid(), os.getgid(), *command), cwd=ROOT, env=environment, stdout=log, stderr=log
            )

    @property
    def cpu_seconds(self) -> float:
        return cpu_seconds(self.popen.pid)

    @property
    def memory_mb(self) -> float:
        pages = int(Path(f"/proc/{self.popen.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(how)
        self.popen.wait(60)

    def check(self) -> None:
        assert self.popen.poll() is None, f"{self.name} ended:\n{self.log.read_text()}"


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICK  # with the children that have ended


class Deployment:
    def __init__(self, folder: Path, postgres: PostgresServer, redis: RedisServer, options: argparse.Namespace) -> None:
        self.folder, self.postgres, self.redis, self.options = folder, postgres, redis, options
        self.url = ""
        self.processes: dict[str, Process] = {}
        self.client: Engine
        self.pool: Any = None
        self._warmed = 0

    @contextlib.asynccontextmanager
    async def database(self) -> AsyncIterator[None]:
        """A new one, and a prefix of its own in Redis."""
        self.url = self.postgres.url(await self.postgres.create_database())
        await migrate_postgres(self.url)
        self.prefix = self.redis.new_prefix()
        self.pool = await asyncpg.connect(self.url)
        self.client = await Engine.open(
            Settings(database_url=self.url, redis_url=self.redis.url, redis_prefix=self.prefix, blob_url=self._blobs)
        )
        await self.client.connect()
        try:
            yield
        finally:
            await self.client.close()
            self.end()
            await self.pool.close()

    @property
    def _blobs(self) -> str:
        return f"file:{self.folder / 'blobs'}"

    def start(self, *names: str) -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")},
            "PERDURE_DATABASE_URL": self.url,
            "PERDURE_REDIS_URL": self.redis.url,
            "PERDURE_SIGNING_KEYS": f"bench:{base64.b64encode(bytes(32)).decode()}",
            "PERDURE_REDIS_PREFIX": self.prefix,
            "PERDURE_BLOB_URL": self._blobs,
        }
        for name in names or ("serve", "worker"):
            arguments = ["--port", "0"] if name == "serve" else []
            self.processes[name] = Process(
                name,
                self.folder,
                environment,
                *arguments,
                profile=self.options.profile and not self.processes.get(name),
            )

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        for process in self.processes.values():
            process.stop(how)
        if self.options.profile and how == signal.SIGTERM:
            self._show_profiles()
        self.processes.clear()

    def _show_profiles(self) -> None:
        for process in self.processes.values():
            if process.profile is not None and process.profile.exists():
                print(f"\n  where {process.name} spends its time:")
                pstats.Stats(str(process.profile)).sort_stats(self.options.sort).print_stats(self.options.top)

    async def ready(self) -> None:
        """The coordinator has all partitions, and a run went through."""
        await self.until(lambda: self.count(HELD), "the partitions")
        ir = await self.register("warm", [task("a")])
        self._warmed += 1
        await self.submit(ir, 20, f"warm{self._warmed}")
        await self.ended(f"warm{self._warmed}", 20)

    async def disk_mb(self) -> float:
        return float(await self.count("SELECT pg_database_size(current_database()) / 1e6"))

    async def count(self, query: str, *arguments: Any) -> Any:
        return await self.pool.fetchval(query, *arguments)

    async def until(self, condition: Callable[[], Awaitable[Any]], what: str, seconds: float = 900.0) -> None:
        end = time.perf_counter() + seconds
        while not await condition():
            for process in self.processes.values():
                process.check()
            assert time.perf_counter() < end, f"waited {seconds:.0f} s for {what}"
            await asyncio.sleep(0.02)

    async def register(self, name: str, nodes: list[dict[str, Any]]) -> str:
        compiled = compile_definition({"name": name, "nodes": nodes})
        await self.client.workflows.register(compiled)
        return compiled.get_ir().hash

    async def submit(self, ir: str, count: int, prefix: str) -> None:
        names = iter([f"{prefix}-{number:07}" for number in range(count)])

        async def one() -> None:
            for name in names:
                reply = await self.client.runs.request(Request(kind="start", run_id=name, ir=ir))
                assert not reply.refused, reply

        await asyncio.gather(*(one() for _ in range(min(count, AT_ONCE))))

    async def ended(self, prefix: str, count: int) -> None:
        query = "SELECT count(*) FROM perdure.runs WHERE run_id >= $1 AND run_id < $2 AND ended_at IS NOT NULL"

        async def all_ended() -> bool:
            found: int = await self.count(query, f"{prefix}-", f"{prefix}.")
            return found == count

        await self.until(all_ended, f"{count} runs of {prefix}")

    def costs(self) -> dict[str, float]:
        """Processor seconds so far."""
        server = self.postgres._process
        assert server is not None
        assert self.redis._process is not None
        backends = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        found = {name: process.cpu_seconds for name, process in self.processes.items()}
        found["PostgreSQL"] = sum(map(cpu_seconds, [server.pid, *map(int, backends)]))
        found["Valkey"] = cpu_seconds(self.redis._process.pid)
        found["client"] = time.process_time()
        return found


class Meter:
    """Seconds, and processor time by process, of a block."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.before = deployment.costs()
        self.start = time.perf_counter()
        self.seconds = 0.0

    def show(self, what: str, count: int, unit: str, *more: str) -> None:
        self.seconds = time.perf_counter() - self.start
        after = self.deployment.costs()
        costs = ", ".join(f"{name} {(after[name] - self.before[name]) / count * 1e6:.0f}" for name in after)
        parts = [f"{count / self.seconds:,.0f} {unit}/s", *more, f"µs of processor per {unit}: {costs}"]
        line(what, *parts)


def line(what: str, *parts: str) -> None:
    print(f"  {what:34} {'   '.join(parts)}", flush=True)


# -- scenarios


async def raw(deployment: Deployment) -> None:
    """What both servers take without an engine."""
    connection = await asyncpg.connect(deployment.url)
    await connection.execute(TABLE)
    for size in (1, 100):
        times = await raw_inserts(connection, size)
        median = sorted(times)[len(times) // 2]
        line(
            f"raw: commits of {size * 3} rows",
            f"{len(times) / sum(times):,.0f} commits/s",
            f"median {median * 1e3:.2f} ms",
        )
    await connection.close()
    body = b"x" * 300

    def add(number: int) -> list[tuple[Any, ...]]:
        return [("XADD", "bench:raw", "MAXLEN", "~", "1000", "*", "m", body)]

    for batch, count in ((1, 3000), (100, 50_000)):
        speed = await raw_commands(deployment.redis.url, count, add, batch)
        line(f"raw: XADD, {batch} in one write", f"{speed:,.0f}/s")
    with deployment.redis.client() as client:
        client.delete("bench:raw")


async def diamonds(deployment: Deployment) -> None:
    deployment.start()
    await deployment.ready()
    ir = await deployment.register("diamond", [task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c")])
    count = deployment.options.runs
    disk = await deployment.disk_mb()
    meter = Meter(deployment)
    await deployment.submit(ir, count, "diamond")
    submitted = time.perf_counter() - meter.start
    await deployment.ended("diamond", count)
    meter.show(f"{count:,} diamonds", count * 4, "node", f"all started after {submitted:.2f} s")
    line("", f"{(await deployment.disk_mb() - disk) / count / 4 * 1e3:.2f} KB of database a node")


async def chain(deployment: Deployment) -> None:
    deployment.start()
    await deployment.ready()
    nodes = [task("n000")] + [task(f"n{i:03}", f"n{i - 1:03}") for i in range(1, 100)]
    ir = await deployment.register("chain", nodes)
    times = []
    meter = Meter(deployment)
    for number in range(5):
        await deployment.submit(ir, 1, f"chain{number}")
        await deployment.ended(f"chain{number}", 1)
        times.append(
            await deployment.count(
                "SELECT ended_at - created_at FROM perdure.runs WHERE run_id = $1", f"chain{number}-0000000"
            )
        )
    times.sort()
    meter.show(
        "chain of 100, one run at a time",
        500,
        "hop",
        f"median {times[2] * 10:.2f} ms a hop",
        f"best {times[0] * 10:.2f} ms",
    )


async def fan(deployment: Deployment) -> None:
    deployment.start()
    await deployment.ready()
    middle = [f"m{number:05}" for number in range(10_000)]
    ir = await deployment.register(
        "fan", [task("first"), *(task(one, "first") for one in middle), task("last", *middle)]
    )
    meter = Meter(deployment)
    await deployment.submit(ir, 1, "fan")
    await deployment.ended("fan", 1)
    meter.show("1→10,000→1", 10_002, "node", f"coordinator {deployment.processes['serve'].memory_mb:.0f} MB")


async def restart(deployment: Deployment) -> None:
    """Everything is killed while 10,000 runs have a task out; later both processes start."""
    count = deployment.options.unfinished
    gate = deployment.folder / "gate"
    gate.unlink(missing_ok=True)
    deployment.start()
    await deployment.ready()
    waiting = {**task("a"), "config": {"function": "bench.work:wait_for", "args": {"path": str(gate)}}}
    ir = await deployment.register("unfinished", [waiting, task("b", "a")])
    await deployment.submit(ir, count, "unfinished")
    deployment.end(signal.SIGKILL)
    gate.touch()
    await deployment.until(
        lambda: deployment.count("SELECT count(*) = 0 FROM perdure.coordinators WHERE expires_at > now()"),
        "the leases to lapse",
    )
    start = time.perf_counter()
    deployment.start()
    await deployment.until(lambda: deployment.count(HELD), "the partitions")
    held = time.perf_counter() - start
    query = """
        SELECT count(DISTINCT run_id) FROM perdure.events WHERE type = 'node.completed' AND run_id >= 'unfinished-'
        AND run_id < 'unfinished.'
    """
    found: dict[str, float] = {"partitions taken": held}
    for name, part in (("the first", 1), ("half", count // 2), ("all that were queued", count - SLOTS), ("all", count)):

        async def moved(part: int = part) -> bool:
            return bool(await deployment.count(query) >= part)

        await deployment.until(moved, f"{name} to move")
        found[name] = time.perf_counter() - start
    shown = [f"{name} after {seconds:.1f} s" for name, seconds in found.items()]
    line(f"{count:,} unfinished runs move", *shown, f"coordinator {deployment.processes['serve'].memory_mb:.0f} MB")


async def flat(deployment: Deployment) -> None:
    """The same work on a journal that is ten times as large each time."""
    deployment.start()
    await deployment.ready()
    ir = await deployment.register("diamond", [task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c")])
    journal = await open_postgres(deployment.url)
    filled = 0
    for size in (0, deployment.options.events // 100, deployment.options.events // 10, deployment.options.events):
        await fill(journal, filled, size)
        filled = size
        await deployment.count("VACUUM ANALYZE perdure.events, perdure.runs")
        meter = Meter(deployment)
        await deployment.submit(ir, 500, f"at{size}")
        await deployment.ended(f"at{size}", 500)
        meter.show(
            f"500 diamonds after {size:,} events", 2000, "node", f"{await deployment.disk_mb():,.0f} MB of database"
        )
    await journal.close()


async def fill(journal: Any, first: int, last: int) -> None:
    """Runs that have ended, ten events each."""
    body = b'{"output":"' + b"x" * 240 + b'"}'
    row = RunRow(state="completed", workflow="flow", ir="sha256:" + "a" * 64, created_at=1e9, ended_at=1e9 + 60)
    events = tuple(StoredEvent(seq, "node.completed", 1e9, body) for seq in range(1, 11))
    for begin in range(first, last, 10_000):
        commits = [
            Commit(run_id=f"filled-{number:012}", expected_seq=0, commit_id=f"c{number}", row=row, events=events)
            for number in range(begin, min(begin + 10_000, last), 10)
        ]
        answers = await journal.append(commits)
        assert all(isinstance(answer, Accepted) for answer in answers), answers[:3]


async def waiting(deployment: Deployment) -> None:
    """Runs that wait for a person cost disk, not memory."""
    count = deployment.options.waiting
    deployment.start()
    await deployment.ready()
    ir = await deployment.register(
        "waiting", [{"id": "ask", "type": "human", "config": {"approvers": ["ann"]}}, task("b", "ask")]
    )
    before = deployment.processes["serve"].memory_mb
    meter = Meter(deployment)
    await deployment.submit(ir, count, "waiting")
    meter.show(f"{count:,} runs wait for a person", count, "start")
    after = deployment.processes["serve"].memory_mb
    disk = await deployment.disk_mb()
    deployment.end()
    start = time.perf_counter()
    deployment.start()
    await deployment.ready()
    seconds = time.perf_counter() - start
    fresh = deployment.processes["serve"].memory_mb
    line(
        "",
        f"coordinator {before:.0f} MB before, {after:.0f} after, {fresh:.0f} after a restart",
        f"{disk:.0f} MB of database",
    )
    line("", f"{seconds:.1f} s from a start until a new run has gone through")


SCENARIOS = {
    "raw": raw,
    "diamonds": diamonds,
    "chain": chain,
    "fan-10000": fan,
    "restart": restart,
    "flat": flat,
    "waiting": waiting,
}


@contextlib.contextmanager
def servers() -> Iterator[tuple[PostgresServer, RedisServer]]:
    postgres, redis = PostgresServer(shared_buffers="256MB", max_wal_size="2GB"), RedisServer()
    try:
        postgres.start()
        redis.start()
        yield postgres, redis
    finally:
        redis.remove()
        postgres.remove()


async def run(options: argparse.Namespace) -> None:
    with servers() as (postgres, redis), tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        print(
            f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {load}, fsync on\n"
        )
        for name in options.scenario or SCENARIOS:
            deployment = Deployment(Path(folder), postgres, redis, options)
            async with deployment.database():
                await SCENARIOS[name](deployment)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.distributed", description=__doc__)
    parser.add_argument("scenario", nargs="*", help=f"of {', '.join(SCENARIOS)}; all of them by default")
    parser.add_argument("--runs", type=int, default=2000, help="diamonds")
    parser.add_argument(
        "--unfinished", type=int, default=10_000, help="runs that are under way when everything is killed"
    )
    parser.add_argument("--events", type=int, default=200_000, help="of the largest journal")
    parser.add_argument("--waiting", type=int, default=20_000, help="runs that wait for a person")
    parser.add_argument("--profile", action="store_true", help="show where both processes spend their time")
    parser.add_argument("--sort", default="tottime", help="of the profile: tottime or cumtime")
    parser.add_argument("--top", type=int, default=40, help="lines of the profile")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.scenario if name not in SCENARIOS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    asyncio.run(run(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
