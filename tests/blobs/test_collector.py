"""Collecting garbage while runs go on: nothing that a journal names is ever gone."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from perdure.blob_stores.folder import FolderObjects
from perdure.blob_stores.objects import ObjectBlobs
from perdure.blobs import BlobMissing, ForeignBlobStore, key_of
from perdure.clock import system
from perdure.journal import AgentEntry
from perdure.kernel import segments
from perdure.kernel.lifecycle import RunState
from perdure.runtime.collector import Collector
from perdure.service import Service
from tests.doubles.blob_faults import BlobFault, FaultyBlobs
from tests.engine import tasks
from tests.engine.helpers import compiled, crash, ended, finish, opened, running, start, task, workflow
from tests.engine.test_blobs import BIG, big, content

pytestmark = pytest.mark.slow

R = RunState
HOUR = 3600.0
GRACE = 24 * HOUR


@pytest.fixture(autouse=True)
def _fresh():
    tasks.reset()


class Later:
    """The time is what the test says; everything else is as usual."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> float:
        return system.now() + self.passed

    def __getattr__(self, name: str) -> Any:
        return getattr(system, name)


@pytest.fixture
def clock():
    return Later()


def collector(engine: Any, clock: Any, blobs: Any = None) -> Collector:
    return Collector(engine.journal, engine.archive, blobs or engine.blobs, engine.library, clock, grace_seconds=GRACE)


def with_clock(engine: Any, clock: Any) -> None:
    """The store's time is the test's."""
    engine.blobs._objects._clock = clock


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


async def keys(store: Any, tenant: str = "default") -> set[str]:
    return {one.key for one in await store.list_blobs(tenant)}


async def test_what_runs_and_definitions_name_stays_and_the_rest_goes_in_two_steps(tmp_path, clock):
    async with running(tmp_path) as engine:
        with_clock(engine, clock)
        orphan = await engine.blobs.put("default", b"nobody names this")
        config = await engine.blobs.put("default", encoded({"value": "{{ inputs.text }}"}))
        definition = workflow(
            big("a"),
            {"id": "t", "type": "transform", "config_ref": config},
            {
                "id": "each",
                "type": "map",
                "config": {
                    "over": list(range(400)),
                    "node": {
                        "type": "task",
                        "config": {"function": "tests.engine.large:make", "args": {"size": "{{ item + 40000 }}"}},
                    },
                },
            },
            outputs={"all": {"a": "{{ a }}", "each": "{{ each }}"}},
        )
        state = await finish(engine, definition, inputs={"text": "t" * BIG})
        before = await keys(engine.blobs)
        clock.passed = 2 * GRACE
        done = await collector(engine, clock).collect(dry_run=True)
        assert (done.discarded, done.deleted) == (1, 0)
        assert await keys(engine.blobs) == before
        done = await collector(engine, clock).collect()
        assert (done.runs, done.discarded, done.restored, done.deleted, done.missing) == (1, 1, 0, 0, [])
        assert await keys(engine.blobs) == before - {key_of("default", orphan)}
        assert await engine.blobs.get("default", orphan) == b"nobody names this"
        assert (await collector(engine, clock).collect()).deleted == 0, "not before another grace"
        clock.passed = 4 * GRACE
        assert (await collector(engine, clock).collect()).deleted == 1
        with pytest.raises(BlobMissing):
            await engine.blobs.get("default", orphan)
        whole = await engine.contents.outputs(state)
        assert whole["all"]["a"] == content()
        assert len(whole["all"]["each"]) == 400
        assert (await engine.contents.view(state))["inputs"] == {"text": "t" * BIG}


async def test_what_is_young_stays_whether_it_is_named_or_not(tmp_path, clock):
    async with running(tmp_path) as engine:
        with_clock(engine, clock)
        ref = await engine.blobs.put("default", b"about to be named")
        clock.passed = GRACE - HOUR
        assert (await collector(engine, clock).collect()).discarded == 0
        await engine.blobs.put("default", b"about to be named")  # again: it is young again
        clock.passed = GRACE + HOUR
        assert (await collector(engine, clock).collect()).discarded == 0
        assert await engine.blobs.get("default", ref) == b"about to be named"


async def test_large_definitions_stay_as_long_as_a_workflow_or_a_run_has_them(tmp_path, clock):
    definition = workflow(*(task(f"n{number}", args={"value": "v" * 1000}) for number in range(60)))
    patched = workflow(*(task(f"m{number}", args={"value": "v" * 1000}) for number in range(60)), name="other")
    async with running(tmp_path) as engine:
        with_clock(engine, clock)
        await engine.workflows.register(compiled(definition))
        kept = await engine.workflows.keep(compiled(patched))  # no workflow and no run has it
        assert len(await engine.blobs.list_blobs("perdure:definitions")) == 4
        clock.passed = 2 * GRACE
        assert (await collector(engine, clock).collect()).discarded == 2
        clock.passed = 4 * GRACE
        assert (await collector(engine, clock).collect()).deleted == 2
    async with running(tmp_path) as engine:
        assert (await finish(engine, definition)).state is R.COMPLETED
        reply = await start(engine, kept, "r2")
        assert reply.code == "blob_missing"
        await engine.workflows.keep(compiled(patched))
        assert (await finish(engine, patched, "r3")).state is R.COMPLETED


async def test_a_command_that_waits_for_a_process_keeps_what_it_names(tmp_path, clock):
    engine = await opened(tmp_path)
    with_clock(engine, clock)
    ir, _ = await engine.workflows.register(compiled(workflow(big("m", "measure", args={"value": "{{ inputs }}"}))))
    from perdure.runtime.coordinator.requests import Request, encode_request, slim

    large = Request(kind="start", run_id="r1", ir=ir.hash, inputs=content())
    request = await slim(large, engine.contents, engine.journal)
    await engine.journal.put_command("r1", encode_request(request))
    clock.passed = 2 * GRACE
    done = await collector(engine, clock).collect()
    assert done.discarded == 0
    await engine.close()
    async with running(tmp_path) as engine:
        assert (await ended(engine)).find("m").output["length"] == BIG


# -- races -------------------------------------------------------------------------------------------------------------


async def make_orphan(engine: Any, clock: Any) -> str:
    """An old blob that nobody names: exactly what the run will name."""
    ref = await engine.blobs.put("default", encoded(content()))
    clock.passed += 2 * GRACE
    return ref


async def test_a_run_that_names_an_old_orphan_between_mark_and_sweep_keeps_it(tmp_path, clock):
    async with running(tmp_path) as engine:
        with_clock(engine, clock)
        ref = await make_orphan(engine, clock)
        collecting = collector(engine, clock)
        named = await collecting.mark()
        state = await finish(engine, workflow(big("a")))
        assert state.find("a").output_ref == ref
        done = await collecting.sweep(named)
        assert done.discarded == 0
        assert await engine.blobs.get("default", ref) == encoded(content())


async def test_a_run_that_names_an_old_orphan_in_the_instant_before_it_is_discarded_can_read_it_for_ever(
    tmp_path, clock
):
    """The sweep has looked at the blob and found it old; then the run puts it and names it; then it is discarded."""
    async with running(tmp_path) as engine:
        with_clock(engine, clock)
        ref = await make_orphan(engine, clock)

        class Instant(FaultyBlobs):
            async def discard(self, tenant: str, key: str) -> None:
                if key == key_of("default", ref) and not self.calls["discard"]:
                    self.calls["discard"] += 1
                    await finish(engine, workflow(big("a"), big("b", "measure", ["a"], args={"value": "{{ a }}"})))
                await self.store.discard(tenant, key)

        instant = Instant(engine.blobs, lambda operation, number: None)
        done = await collector(engine, clock, instant).collect()
        assert done.discarded == 1
        assert ref not in str(await keys(engine.blobs))
        assert await engine.blobs.get("default", ref) == encoded(content())
        for step in range(1, 4):  # whatever the time between collections, it stays
            clock.passed += 2 * GRACE
            done = await collector(engine, clock).collect()
            assert done.deleted == 0
            assert done.restored == (1 if step == 1 else 0)
            assert await engine.blobs.get("default", ref) == encoded(content())


async def test_a_rerun_may_name_what_only_a_run_named_that_is_gone_by_then(tmp_path, clock):
    """No put: the reference is taken from a journal, and that journal vanishes before the mark."""
    async with running(tmp_path) as engine:
        with_clock(engine, clock)
        state = await finish(engine, workflow(big("a"), task("b", needs=["a"])))
        ref = state.find("a").output_ref
        clock.passed = 2 * GRACE

        class Forgetful:
            def __getattr__(self, name: str) -> Any:
                return getattr(engine.journal, name)

            async def list_runs(self, *args: Any, **kwargs: Any) -> Any:
                page = await engine.journal.list_runs(*args, **kwargs)
                return msgspec.structs.replace(page, items=tuple(one for one in page.items if one.run_id != "r1"))

        forgetful = Collector(Forgetful(), engine.archive, engine.blobs, engine.library, clock, grace_seconds=GRACE)
        named = await forgetful.mark()
        from tests.engine.helpers import ask

        assert not (await ask(engine, "rerun", "r2", source="r1", node="b")).refused
        await ended(engine, "r2")
        assert (await forgetful.sweep(named)).discarded == 1
        assert await engine.blobs.get("default", ref) == encoded(content())
        clock.passed = 4 * GRACE
        assert (await forgetful.collect()).restored == 1
        assert key_of("default", ref) in await keys(engine.blobs)


async def test_many_puts_and_collections_at_once_lose_nothing(tmp_path):
    """Ten writers put the same old content again and again while three collectors run: what was put can be read."""
    clock = Later()
    store = ObjectBlobs(FolderObjects(tmp_path / "blobs", clock=clock), system.new_id)  # type: ignore[arg-type]
    engine = await opened(tmp_path)
    data = [b"%d" % number * 1000 for number in range(5)]
    stop = asyncio.Event()
    reads = 0

    async def write(number: int) -> None:
        nonlocal reads
        while not stop.is_set():
            ref = await store.put("default", data[number % 5])
            assert await store.get("default", ref) == data[number % 5]
            reads += 1

    async def collect() -> None:
        for _ in range(40):
            await Collector(engine.journal, engine.archive, store, engine.library, clock, grace_seconds=GRACE).collect()
            clock.passed += GRACE / 10  # far less than a grace passes between a put and its read

    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(write(number))
        await asyncio.gather(collect(), collect(), collect())
        stop.set()
    assert reads > 100
    await store.close()
    await engine.close()


# -- what is left behind -----------------------------------------------------------------------------------------------


async def test_a_blob_whose_process_died_before_the_append_is_collected(tmp_path, clock):
    engine = await opened(tmp_path)
    real = engine.blobs
    engine.blobs = FaultyBlobs(real, lambda operation, number: BlobFault.HANG_AFTER if operation == "put" else None)
    await engine.hold()
    await start(engine, workflow(big("a", args={"size": "{{ inputs.n }}"})), inputs={"n": 50_000})
    await engine.blobs.hung.wait()
    await crash(engine)
    async with running(tmp_path) as engine:
        with_clock(engine, clock)
        state = await ended(engine)  # the same output again: named now
        other = await engine.blobs.put("default", b"an output that was never reported")
        clock.passed = 2 * GRACE
        assert (await collector(engine, clock).collect()).discarded == 1
        clock.passed = 4 * GRACE
        assert (await collector(engine, clock).collect()).deleted == 1
        with pytest.raises(BlobMissing):
            await engine.blobs.get("default", other)
        await engine.blobs.get("default", state.find("a").output_ref)


async def test_unfinished_writes_are_tidied_up(tmp_path, clock):
    async with running(tmp_path) as engine:
        await finish(engine, workflow(big("a")))
        (file,) = (tmp_path / "perdure.db.blobs").glob("*/kept/*/*")
        left = file.with_name(".unfinished-left")
        left.write_bytes(b"half of it")
        assert len(await engine.blobs.list_blobs("default")) == 1
        assert (await collector(engine, clock).collect()).unfinished == 0, "somebody may be writing it"
        clock.passed = 2 * GRACE
        assert (await collector(engine, clock).collect()).unfinished == 1
        assert not left.exists()


async def test_a_blob_that_is_named_and_gone_is_reported_and_stops_nothing(tmp_path, clock):
    node = {"type": "task", "config": {"function": "tests.engine.large:make", "args": {"size": "{{ item + 40000 }}"}}}
    async with running(tmp_path) as engine:
        with_clock(engine, clock)
        state = await finish(
            engine, workflow({"id": "each", "type": "map", "config": {"over": list(range(400)), "node": node}})
        )
        ref = state.find("each").output_ref
        await engine.blobs.discard("default", key_of("default", ref))
        await engine.blobs.delete_discarded("default", key_of("default", ref), 10**12)
        done = await collector(engine, clock).collect()
        assert done.missing == [ref]


async def test_a_store_of_another_database_is_left_alone(tmp_path, clock):
    (tmp_path / "two").mkdir()
    shared = f"file:{tmp_path / 'shared'}"
    async with running(tmp_path, blob_url=shared) as engine:
        await finish(engine, workflow(big("a")))
    engine = await opened(tmp_path / "two", blob_url=shared)
    clock.passed = 10 * GRACE
    for dry_run in (True, False):
        with pytest.raises(ForeignBlobStore, match="nothing was collected"):
            await collector(engine, clock).collect(dry_run=dry_run)
    assert len(await engine.blobs.list_blobs("default")) == 1
    await engine.close()


async def test_collecting_where_there_is_nothing_makes_no_folder(tmp_path, clock):
    engine = await opened(tmp_path)
    done = await collector(engine, clock).collect()
    assert (done.kept, done.discarded) == (0, 0)
    assert not (tmp_path / "perdure.db.blobs").exists()
    await engine.close()


async def test_what_agents_left_outlives_their_runs(tmp_path, clock):
    """A turn of a session that is so large that it is a blob stays as long as its session."""
    async with running(tmp_path) as engine:
        with_clock(engine, clock)
        ref = await engine.blobs.put("default", encoded({"asked": "x", "said": "y", "label": "user,public"}))
        body = segments.encode(segments.BlobRef(ref))[0]
        about: dict[str, Any] = {"tenant": "default", "space": "session", "name": "chat/agent/ann", "place": "1"}
        await engine.archive.save_entry(AgentEntry(**about, at=1.0, body=body))
        for _ in range(3):
            clock.passed += GRACE + HOUR
            await collector(engine, clock).collect()
        view = await Service.of_owner(engine).agent_sessions.get("chat", "agent", "ann")
        assert view["turns"][0]["asked"] == "x"
        await engine.archive.delete_entries("default", "session", "chat/agent/ann")
        for _ in range(3):
            clock.passed += GRACE + HOUR
            await collector(engine, clock).collect()
        with pytest.raises(BlobMissing):
            await engine.blobs.get("default", ref)
