"""Trouble with the blob store: it is away, it is full, something in it is gone; and crashes beside it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from perdure.blobs import BlobMissing, key_of
from perdure.kernel.events import refs_of
from perdure.kernel.lifecycle import RunState
from perdure.kernel.segments import BlobRef
from perdure.runtime.coordinator.tasks import cache, fetcher
from tests.doubles.blob_faults import BlobFault, FaultyBlobs
from tests.engine import tasks
from tests.engine.helpers import (
    DEADLINE,
    ask,
    crash,
    ended,
    events,
    finish,
    opened,
    output_of,
    running,
    start,
    state_of,
    task,
    transform,
    until,
    until_true,
    workflow,
)
from tests.engine.test_blobs import BIG, big, content, ref_to

pytestmark = pytest.mark.slow

R = RunState
LOOKS = task("b", "echo", ["a"], args={"value": "{{ a.size }}"})
PASSES = big("b", "measure", ["a"], args={"value": "{{ a }}"})


@pytest.fixture(autouse=True)
def _quiet(caplog, monkeypatch):
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(fetcher, "_LONGEST_PAUSE", 0.05)


class Away:
    """A plan: the store is away for these operations until it comes back."""

    def __init__(self, *operations: str, fault: BlobFault = BlobFault.FAIL_BEFORE) -> None:
        self.operations = operations
        self.fault = fault
        self.back = False

    def __call__(self, operation: str, number: int) -> BlobFault | None:
        return self.fault if operation in self.operations and not self.back else None


def injured(engine: Any, plan: Any) -> FaultyBlobs:
    """Put the double between the engine and its store. Before `hold`."""
    engine.blobs = FaultyBlobs(engine.blobs, plan)
    engine.contents._blobs = engine.library._blobs = engine.blobs
    return engine.blobs


async def destroy(engine: Any, value: Any) -> None:
    ref = ref_to(value)
    await engine.blobs.discard("default", key_of("default", ref))
    await engine.blobs.delete_discarded("default", key_of("default", ref), 10**12)
    with pytest.raises(BlobMissing):
        await engine.blobs.get("default", ref)


@pytest.mark.parametrize("fault", [BlobFault.FAIL_BEFORE, BlobFault.FAIL_AFTER, BlobFault.FULL])
async def test_a_store_that_takes_nothing_for_a_while_costs_time_and_no_second_execution(tmp_path, fault):
    engine = await opened(tmp_path)
    plan = Away("put", fault=fault)
    store = injured(engine, plan)
    await engine.hold()
    try:
        await start(engine, workflow(big("a"), PASSES))
        await until_true(lambda: store.calls["put"] >= 2, "it is tried again")
        assert state_of(await engine.runs.state("r1"), "a") == "queued"
        other = await finish(engine, workflow(task("x"), task("y", needs=["x"])), "r2")
        assert other.state is R.COMPLETED
        plan.back = True
        state = await ended(engine)
        assert output_of(state, "b")["length"] == BIG
        assert len(tasks.seen) == 4
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)


async def test_a_store_that_is_away_too_long_fails_the_attempt_which_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr("perdure.runtime.worker.handler_results.STORE_SECONDS", 0.0)
    engine = await opened(tmp_path)
    plan = Away("put")
    injured(engine, plan)
    await engine.hold()
    try:
        retry = {"max_attempts": 50, "backoff_ms": 1, "jitter": False}
        await start(engine, workflow(big("a", retry=retry)))
        await until_true(lambda: len(tasks.seen) >= 3, "it was tried again")
        found = [event for event in await events(engine.journal) if event.type == "node.retrying"]
        assert {event.error.code for event in found} == {"blob_store_unavailable"}
        plan.back = True
        state = await ended(engine)
        assert state.find("a").output_ref == ref_to(content())
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)


@pytest.mark.parametrize("operation", ["get", "stat"])
async def test_a_run_that_looks_into_a_blob_stands_still_while_the_store_is_away_and_others_go_on(tmp_path, operation):
    engine = await opened(tmp_path)
    plan = Away(operation)
    store = injured(engine, plan)
    await engine.hold()
    try:
        branch = {"rules": [{"condition": "output.size > 5", "next_nodes": ["c"]}], "default": ["d"]}
        definition = workflow(
            big("a"), LOOKS, big("x", branch=branch), task("c"), task("d"), transform("t", "{{ a.size }}", ["a"])
        )
        await start(engine, definition)
        await until_true(lambda: store.calls[operation] >= 6, "it is asked again and again")
        state = await engine.runs.state("r1")
        assert not state.terminal
        assert state_of(state, "b") == "queued"
        assert state_of(state, "t") == "queued"
        assert state_of(state, "x") == "queued"
        other = await finish(engine, workflow(task("x"), transform("y", "{{ x.node }}", ["x"])), "r2")
        assert output_of(other, "y") == "x"
        plan.back = True
        state = await ended(engine)
        assert output_of(state, "b")["value"] == output_of(state, "t") == BIG
        assert (state_of(state, "c"), state_of(state, "d")) == ("completed", "skipped")
        assert len(tasks.seen) == 5
        assert len(engine.coordinator.fetcher) == 0
        assert engine.coordinator.fetcher._needs == {}
        assert engine.coordinator.publisher.fetched == {}
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)


async def test_a_coordinator_that_cannot_store_what_it_made_itself_waits_with_that_run_only(tmp_path):
    engine = await opened(tmp_path)
    plan = Away("put", fault=BlobFault.FULL)
    store = injured(engine, plan)
    await engine.hold()
    try:
        value = "w" * 20_000
        definition = workflow(
            task("a", args={"value": "{{ inputs.text }}"}),
            transform("t", ["{{ a.value }}"] * 3, ["a"]),
            task("z", "echo", ["t"]),
        )
        await start(engine, definition, inputs={"text": value})
        await until_true(lambda: store.calls["put"] >= 3, "it is tried again")
        assert state_of(await engine.runs.state("r1"), "t") == "queued"
        await finish(engine, workflow(task("x")), "r2")
        plan.back = True
        state = await ended(engine)
        assert state.find("t").output_ref == ref_to([value] * 3)
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)


async def test_a_run_that_waits_for_a_blob_can_be_cancelled_and_paused(tmp_path):
    engine = await opened(tmp_path)
    plan = Away("get", "stat")
    store = injured(engine, plan)
    await engine.hold()
    try:
        await start(engine, workflow(big("a"), LOOKS))
        await start(engine, workflow(big("a"), LOOKS), "r2")
        await until_true(lambda: store.calls["stat"] >= 2, "it is asked for")
        assert (await ask(engine, "pause", "r2")).state == "paused"
        await until(engine, lambda state: state_of(state, "b") == "held", "r2")
        await ask(engine, "cancel")
        assert (await ended(engine)).state is R.CANCELLED
        plan.back = True
        await until_true(lambda: len(engine.coordinator.fetcher) == 0, "nothing waits any more")
        assert state_of(await engine.runs.state("r2"), "b") == "held"
        await ask(engine, "resume", "r2")
        assert output_of(await ended(engine, "r2"), "b")["value"] == BIG
        assert [key for key, _ in tasks.seen] == ["r1/a/do", "r2/a/do", "r2/b/do"]
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)


@pytest.mark.parametrize("kind", ["missing", "damaged"])
@pytest.mark.parametrize(
    "node", [LOOKS, PASSES, transform("b", "{{ a.size }}", ["a"])], ids=["looks", "passes", "trivial"]
)
async def test_a_blob_that_cannot_be_had_fails_what_needs_it_and_says_which(tmp_path, node, kind):
    gated = {**node, "dependencies": ["a", "g"]}
    async with running(tmp_path) as engine:
        await start(engine, workflow(big("a"), task("g", "gate", args={"name": "g"}), gated))
        await until(engine, lambda state: state_of(state, "a") == "completed")
        await _break(engine, content(), kind)
        tasks.gate_of("g").set()
        state = await ended(engine)
        assert state.state is R.FAILED
        assert state.error.code == f"blob_{kind}"
        assert ref_to(content()) in state.error.message
        await engine.blobs.put("default", _json(content()))  # somebody repairs it
        await ask(engine, "retry")
        state = await until(engine, lambda state: state.generation == 2 and state.terminal)
        assert state.state is R.COMPLETED


@pytest.mark.parametrize("kind", ["missing", "damaged"])
async def test_a_condition_over_a_blob_that_cannot_be_had_is_an_error_and_never_false(tmp_path, kind):
    definition = workflow(
        big("a"),
        task(
            "g",
            "gate",
            ["a"],
            args={"name": "g"},
            branch={"rules": [{"condition": "ctx.a.output.size > 5", "next_nodes": ["c"]}], "default": ["d"]},
        ),
        task("c"),
        task("d"),
    )
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until(engine, lambda state: state_of(state, "a") == "completed")
        await until_true(lambda: "r1/g/do" in [key for key, _ in tasks.seen], "g runs")
        await _break(engine, content(), kind)
        tasks.gate_of("g").set()
        state = await ended(engine)
        assert (state.state, state.error.code) == (R.FAILED, "routing_failed")
        assert "blob" in state.error.message
        assert state_of(state, "g") == "completed"
        await engine.blobs.put("default", _json(content()))
        await ask(engine, "retry")
        state = await until(engine, lambda state: state.generation == 2 and state.terminal)
        assert state.state is R.COMPLETED
        assert [key for key, _ in tasks.seen] == ["r1/a/do", "r1/g/do", "r1/c/do"]  # nothing is executed again


def _json(value: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


async def _break(engine: Any, value: Any, kind: str) -> None:
    if kind == "missing":
        await destroy(engine, value)
        return
    key = key_of("default", ref_to(value))
    (file,) = engine.journal._options.path.parent.rglob(key)
    file.write_bytes(b"{}")


async def test_two_values_that_do_not_fit_into_memory_together_do_not_push_each_other_out_for_ever(tmp_path):
    definition = workflow(
        big("a", args={"size": 200_000}),
        big("b", args={"size": 300_000}),
        task("t", "echo", ["a", "b"], args={"value": "{{ a.size + b.size }}"}),
        transform("u", "{{ a.size + b.size }}", ["a", "b"]),
        task("c", needs=["a", "b"], when="ctx.a.output.size < ctx.b.output.size"),
    )
    async with running(tmp_path) as engine:
        engine.coordinator.renderer._cache._limit = 250_000
        state = await finish(engine, definition)
        assert output_of(state, "t")["value"] == output_of(state, "u") == 500_000
        assert state_of(state, "c") == "completed"
        kept = engine.coordinator.renderer._cache
        assert kept.bytes <= 250_000
        assert not kept._pins


async def test_a_value_too_large_to_look_into_is_refused_and_passed_on_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(fetcher, "LARGEST_BYTES", 50_000)
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(big("a"), PASSES, {**LOOKS, "id": "c", "on_failure": "continue"}))
        assert output_of(state, "b")["length"] == BIG
        assert state.find("c").error.code == "blob_too_large"


async def test_nothing_is_kept_in_memory_beyond_the_limit():
    kept = cache.Cache(1000)
    for number in range(10):
        kept.add(("t", f"k{number}"), "x" * 300, 300)
    assert kept.bytes == 900
    assert ("t", "k9") in kept
    assert ("t", "k0") not in kept
    kept.pin(("t", "k7"))
    kept.add(("t", "large"), "y" * 900, 900)
    assert ("t", "k7") in kept
    assert kept.view("other").get("k7") is None
    kept.unpin(("t", "k7"))
    assert kept.bytes <= 1000


# -- crashes -----------------------------------------------------------------------------------------------------------


class Dies:
    """A plan: the n-th `put` is the last thing the process does, before or after it took effect."""

    def __init__(self, number: int, fault: BlobFault) -> None:
        self.number = number
        self.fault = fault

    def __call__(self, operation: str, number: int) -> BlobFault | None:
        return self.fault if operation == "put" and number == self.number else None


EVERYTHING = workflow(
    big("a"),
    transform("t", {"a": "{{ a }}", "list": ["q" * 20_000] * 3}, ["a"]),
    {
        "id": "each",
        "type": "map",
        "config": {
            "over": [1, 2],
            "node": {
                "type": "task",
                "config": {"function": "tests.engine.large:make", "args": {"size": "{{ item * 50000 }}"}},
            },
        },
        "dependencies": ["t"],
    },
    big("m", "measure", ["each"], args={"value": "{{ t.a }}"}),
    outputs={"t": "{{ t }}", "each": "{{ each }}"},
)


@pytest.mark.parametrize("fault", [BlobFault.HANG_BEFORE, BlobFault.HANG_AFTER])
async def test_a_crash_at_any_put_leaves_no_event_that_names_what_is_not_there(tmp_path, fault):
    for number in range(1, 20):
        tasks.reset()
        folder = tmp_path / str(number)
        folder.mkdir()
        engine = await opened(folder)
        store = injured(engine, Dies(number, fault))
        await engine.hold()
        work = asyncio.create_task(finish(engine, EVERYTHING, inputs={"text": "i" * BIG}))
        died = asyncio.create_task(store.hung.wait())
        await asyncio.wait({work, died}, return_when=asyncio.FIRST_COMPLETED, timeout=DEADLINE)
        over = work.done()
        for one in (work, died):
            one.cancel()
        await asyncio.gather(work, died, return_exceptions=True)
        if not over and await engine.journal.find_run("r1") is not None:
            for event in await events(engine.journal):
                for ref in refs_of(event):
                    await store.store.get("default", ref)
        await crash(engine)
        if over:
            assert number > 4
            return
        async with running(folder) as engine:
            if await engine.journal.find_run("r1") is None:
                await start(engine, EVERYTHING, inputs={"text": "i" * BIG})
            state = await ended(engine)
            whole = await engine.contents.outputs(state)
            assert whole["t"] == {"a": content(), "list": ["q" * 20_000] * 3}
            assert [one["size"] for one in whole["each"]] == [50_000, 100_000]
    raise AssertionError("it never ran without a crash")


async def test_an_engine_closes_while_its_blob_store_is_away(tmp_path, monkeypatch):
    monkeypatch.setattr("perdure.engine._SETTLE_SECONDS", 0.05)
    engine = await opened(tmp_path)
    plan = Away("stat")
    store = injured(engine, plan)
    await engine.hold()
    await start(engine, workflow(big("a"), LOOKS))
    await until_true(lambda: store.calls["stat"] >= 2, "it is asked for")
    await asyncio.wait_for(engine.close(0.1), 10)
    async with running(tmp_path) as engine:
        assert output_of(await ended(engine), "b")["value"] == BIG


async def test_a_store_of_another_database_is_refused(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    shared = f"file:{tmp_path / 'shared'}"
    async with running(tmp_path / "one", blob_url=shared) as engine:
        await finish(engine, workflow(big("a")))
    async with running(tmp_path / "two", blob_url=shared) as engine:
        state = await finish(engine, workflow(big("a", retry={"max_attempts": 1})))
        assert state.state is R.FAILED
        assert "belongs to another database" in state.error.message
    async with running(tmp_path / "one", blob_url=shared) as engine:
        assert (await finish(engine, workflow(big("b")), "r2")).state is R.COMPLETED


async def test_references_of_one_tenant_say_nothing_to_another(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(big("a")))
        with pytest.raises(BlobMissing):
            await engine.contents.resolve("somebody else", BlobRef(state.find("a").output_ref))
        view = engine.coordinator.renderer._cache.view("somebody else")
        assert state.find("a").output_ref not in view
