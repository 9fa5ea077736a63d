"""Backup and restore as docs/operations/backup.md says, with runs under way: nothing that the backup has is lost, nothing doubled."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from perdure.blobs import INLINE_BYTES
from perdure.cli.app import app
from perdure.doctor import examine
from perdure.engine import Engine
from perdure.journals.postgres import migrate_postgres
from tests.distributed.helpers import PARTITIONS, Deployment, eventually
from tests.engine import tasks
from tests.engine.helpers import crash, ended, start, task, transform, workflow
from tests.servers.postgres import FAST, PostgresServer
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.slow

LARGE = "x" * (2 * INLINE_BYTES)
FLOW = workflow(
    task("large", args={"value": "{{ inputs.text }}"}),
    task("gate", "gate", ["large"], args={"name": "backup"}),
    task("after", needs=["gate"], args={"value": "{{ large.value }}"}),
    transform("size", "{{ after.value | length }}", ["after"]),
)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """In memory where there is enough, and nevertheless with what the command insists on."""
    server = PostgresServer(**FAST)
    server.settings["fsync"] = "on"
    server.start()
    yield server
    server.remove()


@pytest.fixture(autouse=True)
def gate() -> asyncio.Event:
    tasks.gates.clear()
    return tasks.gate_of("backup")


@asynccontextmanager
async def deployed(url: str, redis: RedisServer, blobs: Path) -> AsyncIterator[Deployment]:
    deployment = Deployment(url, redis, blobs)
    try:
        yield deployment
    finally:
        for engine in reversed(list(deployment.engines)):
            await deployment.close(engine)


async def under_way(deployment: Deployment, names: list[str]) -> Engine:
    """A deployment in the middle of these runs: each has stored something large and waits at the gate."""
    await deployment.coordinator()
    await deployment.worker()
    client = await deployment.open()
    for name in names:
        await start(client, FLOW, name, {"text": LARGE})
    await at_gate(client, names)
    return client


async def at_gate(client: Engine, names: list[str]) -> None:
    async def all_there() -> bool:
        states = [await client.runs.state(name) for name in names]
        return all(state.find("gate", ()) is not None for state in states)

    await eventually(all_there)


async def check(client: Engine, names: list[str]) -> None:
    """They have completed with what was in the blobs, and everything the database says is true."""
    for name in names:
        state = await ended(client, name)
        assert (state.state.value, state.outputs) == ("completed", {"size": len(LARGE)})
    report = await examine(client.journal, client.library)
    assert report.sound, report.findings
    assert report.runs >= len(names)


async def test_a_dump_with_the_blobs_copied_after_it_restores_every_run_it_has(
    server: PostgresServer, redis_server: RedisServer, tmp_path: Path, gate: asyncio.Event
):
    url = server.url(await server.create_database())
    await migrate_postgres(url, partitions=PARTITIONS)
    names = [f"r{number}" for number in range(5)]
    dump = server.folder / "backup.dump"
    async with deployed(url, redis_server, tmp_path / "blobs") as old:
        client = await under_way(old, names)
        # The backup, while everything goes on: first the database, then the blobs.
        await asyncio.to_thread(server.run, "pg_dump", "-Fc", "-d", url, "-f", str(dump))
        gate.set()
        await start(client, FLOW, "later", {"text": LARGE})
        await check(client, [*names, "later"])
        shutil.copytree(tmp_path / "blobs", tmp_path / "copy")

    gate.clear()
    another = server.url(await server.create_database())
    await asyncio.to_thread(server.run, "pg_restore", "-d", another, str(dump))
    async with deployed(another, redis_server, tmp_path / "copy") as new:
        new.prefix = old.prefix  # whatever the Redis of before still has
        await new.coordinator()
        await new.worker()
        client = await new.open()
        assert await client.journal.incarnation() == 2
        assert await client.journal.find_run("later") is None
        gate.set()
        await check(client, names)


async def test_after_files_were_put_back_with_everything_stopped_a_command_refuses_what_is_remembered(
    server: PostgresServer,
    redis_server: RedisServer,
    tmp_path: Path,
    gate: asyncio.Event,
    monkeypatch: pytest.MonkeyPatch,
):
    name = await server.create_database()
    url = server.url(name)
    await migrate_postgres(url, partitions=PARTITIONS)
    names = [f"r{number}" for number in range(5)]
    base = server.folder / "base"
    shutil.rmtree(base, ignore_errors=True)
    async with deployed(url, redis_server, tmp_path / "blobs") as old:
        await under_way(old, names)
        await asyncio.to_thread(server.run, "pg_basebackup", "-d", server.url(), "-D", str(base), "-c", "fast")
        gate.set()
        client = old.engines[-1]
        await check(client, names)
        for engine in list(old.engines):  # everything dies
            old.engines.remove(engine)
            await crash(engine)

    server.stop("immediate")
    server.put_back("base")
    server.start()
    for setting in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.delenv(f"PERDURE_{setting}", raising=False)
    arguments = ["migrate", "--restored", "--json", "--db", url]
    done = await asyncio.to_thread(CliRunner().invoke, app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"applied": [], "incarnation": 1001}

    gate.clear()
    async with deployed(url, redis_server, tmp_path / "blobs") as new:
        new.prefix = old.prefix  # its streams remember attempts of a future that never was
        await new.coordinator()
        await new.worker()
        client = await new.open()
        assert await client.journal.incarnation() == 1001
        await at_gate(client, names)  # they are where the backup has them
        gate.set()
        await check(client, names)
