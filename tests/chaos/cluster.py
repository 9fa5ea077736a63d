"""A deployment of real processes for tests that break it: coordinators, workers, PostgreSQL and Valkey, on two sites.

Each site reaches both servers through proxies of its own, so that a network may fail for one half of the deployment only.
Everything may be killed, and `heal` brings everything back.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from perdure.engine import Engine
from perdure.journals.postgres import migrate_postgres
from perdure.transports.redis.names import Keys
from tests.engine.helpers import open_engine
from tests.forking import Forked
from tests.processes import python_path
from tests.proxy import Proxy
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 120.0
PARTITIONS = 16
LEASE_SECONDS = 1.5
DEAD_SECONDS = 1.0
SIGNING_KEYS = "chaos:" + base64.b64encode(b"c" * 32).decode()
SETTINGS = {
    "PERDURE_WORKER_HEARTBEAT_SECONDS": "0.2",
    "PERDURE_WORKER_DEAD_SECONDS": str(DEAD_SECONDS),
    "PERDURE_SWEEP_SECONDS": "0.4",
    "PERDURE_STALE_RESULT_SECONDS": "2",
    "PERDURE_LEASE_SECONDS": str(LEASE_SECONDS),
}
SITES = ("a", "b")


class Site:
    """What the processes of one place reach the servers through."""

    def __init__(self, postgres: PostgresServer, redis: RedisServer) -> None:
        self.postgres = Proxy(("127.0.0.1", postgres.port))
        self.redis = Proxy(redis.socket)

    @property
    def proxies(self) -> tuple[Proxy, Proxy]:
        return self.postgres, self.redis


class Process:
    """One of Perdure's own, with what it said in a file."""

    def __init__(self, name: str, arguments: list[str], environment: dict[str, str], log: Path) -> None:
        self.name = name
        self._arguments = arguments
        self._environment = environment
        self._log = log
        self._from = 0
        self._process: Forked | None = None

    def start(self) -> None:
        self._from = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            file = log.fileno()
            self._process = Forked(self._arguments, cwd=ROOT, env=self._environment, stdout=file, stderr=file)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def said(self) -> str:
        """Since it was started."""
        with self._log.open("rb") as log:
            log.seek(self._from)
            return log.read().decode(errors="replace")

    def signal(self, which: signal.Signals) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, which)  # with whatever it started

    def kill(self) -> None:
        """At once, also when it is stopped."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
            self._process.wait(PATIENCE_SECONDS)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)

    def ask_to_leave(self) -> None:
        """As whoever manages it does."""
        assert self._process is not None
        self._process.terminate()

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        assert self._process is not None
        return self._process.wait(PATIENCE_SECONDS)


class Cluster:
    def __init__(self, postgres: PostgresServer, redis: RedisServer, database: str, folder: Path) -> None:
        self.postgres = postgres
        self.redis = redis
        self.database = database
        self.folder = folder
        self.prefix = redis.new_prefix()
        self.sites = {name: Site(postgres, redis) for name in SITES}
        self.processes: dict[str, Process] = {}
        self.redis_is_dead = False

    # -- life

    def open(self) -> None:
        for site in self.sites.values():
            for proxy in site.proxies:
                proxy.__enter__()
        working = ("worker", "--concurrency", "20", "--import", "tests.chaos.tasks")
        for place in self.sites:
            self.add(f"coordinator-{place}", place, "serve", "--port", "0")
        self.add("worker-a", "a", *working)
        self.add("worker-b", "b", *working, "--name", "bob")  # a name that comes back after a death

    def add(self, name: str, site: str, *arguments: str) -> Process:
        """Start one more; its site is the network it is in."""
        made = Process(name, list(arguments), self._environment(site), self.folder / f"{name}.log")
        self.processes[name] = made
        made.start()
        return made

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        for site in self.sites.values():
            for proxy in site.proxies:
                proxy.__exit__(None, None, None)

    def _environment(self, site: str) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
        network = self.sites[site]
        return (
            plain
            | SETTINGS
            | {
                "CHAOS_EFFECTS": str(self.effects_file),
                "PYTHONPATH": python_path(),
                "PYTHONUNBUFFERED": "1",
                "PERDURE_DATABASE_URL": f"postgresql://perdure@{Proxy.host}:{network.postgres.port}/{self.database}",
                "PERDURE_REDIS_URL": f"redis://{Proxy.host}:{network.redis.port}/0",
                "PERDURE_REDIS_PREFIX": self.prefix,
                "PERDURE_SIGNING_KEYS": SIGNING_KEYS,
                "PERDURE_BLOB_URL": f"file:{self.folder / 'blobs'}",
                "PERDURE_FOLDER_ROOTS": str(self.folder),
                "PERDURE_ALLOW_UNSIGNED_HOOKS": "true",
                "PERDURE_HOOK_RATE": "0",
            }
        )

    def heal(self) -> None:
        """Whatever was broken, it works again now; processes that ended are started."""
        self.heal_servers()
        for site in self.sites.values():
            for proxy in site.proxies:
                proxy.heal()
        for process in self.processes.values():
            if process.is_running:
                process.go_on()
            else:
                process.start()

    def heal_servers(self) -> None:
        if not self.postgres.is_running:
            self.postgres.start()
        if self.redis_is_dead:
            self.redis_is_dead = False
            self.redis.start()
        self.redis.go_on()

    def back_up(self) -> None:
        """The files of the database as they are now."""
        self.postgres.stop("immediate")
        self.postgres.copy_data("backup")
        self.postgres.start()

    def restore(self) -> None:
        """The database goes back to when it was backed up."""
        self.postgres.stop("immediate")
        self.postgres.put_back("backup")
        self.postgres.start()

    def kill_redis(self) -> None:
        """It had everything in memory, and comes back empty."""
        self.redis_is_dead = True
        self.redis.kill()

    # -- the processes

    def get(self, name: str) -> Process:
        return self.processes[name]

    def of(self, kind: str) -> list[Process]:
        return [process for name, process in self.processes.items() if name.startswith(kind)]

    def logs(self, last: int = 4000) -> str:
        """For people who want to know why."""
        return "\n".join(f"--- {name}\n{process.said()[-last:]}" for name, process in self.processes.items())

    def check_alive(self) -> None:
        """None has ended by itself."""
        ended = [name for name, process in self.processes.items() if not process.is_running]
        assert not ended, f"{', '.join(ended)} ended without being told to"

    # -- what the world saw

    @property
    def effects_file(self) -> Path:
        return self.folder / "effects"

    def effects(self) -> list[tuple[str, str, int, int]]:
        """(node, idempotency key, attempt, pid), in the order they happened."""
        if not self.effects_file.exists():
            return []
        lines = [line.split() for line in self.effects_file.read_text().splitlines()]
        return [(name, key, int(attempt), int(pid)) for name, key, attempt, pid in lines]

    async def engine(self, **options: Any) -> Engine:
        """One of this process, that neither decides nor works; it reaches the servers directly."""
        given: dict[str, Any] = {
            "redis_url": self.redis.url,
            "redis_prefix": self.prefix,
            "blob_url": f"file:{self.folder / 'blobs'}",
            "worker_heartbeat_seconds": 0.2,
            "worker_dead_seconds": DEAD_SECONDS,
            "sweep_seconds": 0.4,
            "journal_options": {"require_durable": False},
        }
        return await open_engine(self.postgres.url(self.database), **given | options)

    async def query(self, text: str) -> list[Any]:
        """Again, if the connection is broken with the others."""
        for _ in range(50):
            try:
                connection = await asyncpg.connect(self.postgres.url(self.database))
                try:
                    return list(await connection.fetch(text))
                finally:
                    await connection.close()
            except (OSError, asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError):
                await asyncio.sleep(0.1)
        raise AssertionError("the database does not answer")

    async def holders(self) -> dict[str, int]:
        """How many partitions each living coordinator has."""
        rows = await self.query(
            "SELECT c.holder, count(p.partition) AS held FROM perdure.coordinators c LEFT JOIN perdure.partitions p USING (holder) "
            "WHERE c.expires_at > clock_timestamp() GROUP BY c.holder"
        )
        return {row["holder"]: row["held"] for row in rows}

    async def workers(self) -> int:
        """How many beat."""
        with self.redis.client() as client:
            seconds, _ = client.time()
            return int(client.zcount(Keys(self.prefix).workers_seen, (seconds - DEAD_SECONDS) * 1000, "+inf"))

    async def settled(self) -> bool:
        """Every coordinator that should be there has its share, and every worker beats."""
        self.check_alive()
        share = PARTITIONS // max(len(self.of("coordinator")), 1)
        held = await self.holders()
        return (
            len(held) == len(self.of("coordinator"))
            and sum(held.values()) == PARTITIONS
            and min(held.values()) >= share
            and await self.workers() >= len(self.of("worker"))
        )


@contextlib.contextmanager
def clustered(postgres: PostgresServer, redis: RedisServer, folder: Path) -> Iterator[Cluster]:
    """A database of its own on a server that may be stopped, and a Valkey that may be killed."""
    database = asyncio.run(_database(postgres))
    cluster = Cluster(postgres, redis, database, folder)
    try:
        cluster.open()
        yield cluster
    finally:
        cluster.close()


async def _database(postgres: PostgresServer) -> str:
    name = await postgres.create_database()
    await migrate_postgres(postgres.url(name), partitions=PARTITIONS)
    return name


def mentions(process: Process, pattern: str) -> bool:
    return re.search(pattern, process.said()) is not None
