"""The worker and the blob store: stored before it is reported, loaded before it is called, in order."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from perdure.blob_stores.memory import MemoryObjects
from perdure.blob_stores.objects import ObjectBlobs
from perdure.blobs import INLINE_BYTES, BlobStoreUnavailable, ref_of
from perdure.clock import system
from perdure.kernel.segments import BlobRef, pack
from perdure.outcomes import Chosen, Failure
from perdure.runtime.worker.attempt import STEP_BYTES
from tests.doubles.blob_faults import BlobFault, FaultyBlobs
from tests.doubles.fake_clock import FakeClock
from tests.runtime.harness import make_task, soon, wait_until, working

BIG = {"text": "x" * 100_000}
DATA = msgspec.json.encode(BIG)


def store() -> ObjectBlobs:
    return ObjectBlobs(MemoryObjects(), system.new_id)


class Slow:
    """A store whose `put` waits until it is let go."""

    def __init__(self) -> None:
        self.store = store()
        self.putting = asyncio.Event()
        self.go = asyncio.Event()
        self.order: list[int] = []

    async def put(self, tenant: str, data: Any) -> str:
        self.putting.set()
        self.order.append(len(data))
        await self.go.wait()
        return await self.store.put(tenant, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


async def test_a_large_output_is_stored_before_it_is_reported():
    async def handler(config, ctx):
        return BIG

    slow = Slow()
    async with working(handler, blobs=slow) as h:
        await h.publish(make_task(tenant="t1"))
        await soon(slow.putting.wait())
        await h.has_nothing()
        slow.go.set()
        result = await h.result()
        assert (result.output, result.output_ref, result.size) == (None, ref_of(DATA), len(DATA))
        assert await slow.get("t1", ref_of(DATA)) == DATA


async def test_a_choice_goes_with_a_large_output():
    async def handler(config, ctx):
        return Chosen(BIG, ("a", "b"), "because")

    async with working(handler, blobs=store()) as h:
        result = await h.do(make_task())
        assert (result.output_ref, result.choice, result.reasoning) == (ref_of(DATA), ("a", "b"), "because")


async def test_without_a_store_everything_is_in_the_result():
    async def handler(config, ctx):
        return BIG

    async with working(handler) as h:
        result = await h.do(make_task())
        assert (result.output, result.output_ref) == (BIG, None)


async def test_config_inputs_and_checkpoint_are_whole_when_the_handler_is_called():
    blobs = store()
    ref = BlobRef(await blobs.put("default", DATA))
    nested = msgspec.json.encode(pack({"inner": [ref]}))
    deep = BlobRef(await blobs.put("default", nested) + "+refs")

    async def handler(config, ctx):
        return [config == {"a": BIG, "b": [{"inner": [BIG]}]}, ctx.inputs == {"p": BIG}, ctx.last_checkpoint == BIG]

    async with working(handler, blobs=blobs) as h:
        task = make_task(config={"a": ref, "b": [deep]}, inputs={"p": ref}, checkpoint={"data": ref, "steps": {}})
        assert (await h.do(task)).output == [True, True, True]


async def test_a_blob_is_loaded_in_the_tenant_of_its_task():
    blobs = store()
    ref = BlobRef(await blobs.put("one", DATA))

    async def handler(config, ctx):
        return len(config["a"]["text"])

    async with working(handler, blobs=blobs) as h:
        assert (await h.do(make_task(config={"a": ref}, tenant="one"))).output == 100_000
        other = await h.do(make_task("m", config={"a": ref}, tenant="two"))
        assert (other.kind, other.code, other.not_done, other.retryable) == ("failed", "blob_missing", True, False)


async def test_what_cannot_be_loaded_was_not_begun():
    called = []

    async def handler(config, ctx):
        called.append(1)

    async with working(handler) as h:
        result = await h.do(make_task(config=BlobRef(ref_of(DATA))))
        assert (result.code, result.not_done, result.started_at) == ("no_blob_store", True, None)
    assert called == []


async def test_no_timeout_applies_once_the_handler_has_returned():
    async def handler(config, ctx):
        return BIG

    clock, slow = FakeClock(), Slow()
    async with working(handler, clock=clock, blobs=slow) as h:
        await h.publish(make_task(timeout_seconds=5.0, heartbeat_timeout_seconds=2.0))
        await soon(slow.putting.wait())
        await clock.advance(30.0)
        slow.go.set()
        result = await h.result()
        assert (result.kind, result.output_ref) == ("completed", ref_of(DATA))


async def test_a_stop_does_not_undo_what_is_done_and_only_being_stored():
    async def handler(config, ctx):
        return BIG

    slow = Slow()
    async with working(handler, blobs=slow) as h:
        task = make_task()
        await h.publish(task)
        await soon(slow.putting.wait())
        await h.transport.stop([task.task_id])
        h.worker.beat()
        await wait_until(lambda: h.worker._running[task.task_id].ending == "cancelled", "it was told")
        slow.go.set()
        assert (await h.result()).kind == "completed"


async def test_a_store_that_fails_is_asked_again_and_then_the_attempt_has_failed():
    async def handler(config, ctx):
        return BIG

    clock = FakeClock()
    faulty = FaultyBlobs(store(), lambda operation, number: BlobFault.FAIL_BEFORE if operation == "put" else None)
    async with working(handler, clock=clock, blobs=faulty) as h:
        await h.publish(make_task())
        await wait_until(lambda: faulty.calls["put"] >= 1, "it is tried")
        for _ in range(100):
            await clock.advance(1.0)
        result = await h.result()
        assert (result.kind, result.code, result.retryable) == ("failed", BlobStoreUnavailable.code, True)
        assert 5 < faulty.calls["put"] < 60


async def test_checkpoints_arrive_in_the_order_they_were_made_however_long_they_take_to_store():
    async def handler(config, ctx):
        await asyncio.gather(
            ctx.checkpoint({"n": 1, "text": "a" * 100_000}),
            ctx.checkpoint({"n": 2}),
            ctx.checkpoint({"n": 3, "text": "b" * 90_000}),
            ctx.checkpoint({"n": 4}),
        )
        return "done"

    slow = Slow()
    async with working(handler, blobs=slow) as h:
        await h.publish(make_task())
        await soon(slow.putting.wait())
        slow.go.set()
        results = [await h.result() for _ in range(5)]
        assert [result.kind for result in results] == ["checkpointed"] * 4 + ["completed"]
        numbers = []
        for result in results[:4]:
            data = (
                result.output
                if result.output_ref is None
                else msgspec.json.decode(await slow.get("default", result.output_ref))
            )
            numbers.append(data["n"])
        assert numbers == [1, 2, 3, 4]
        assert [result.output_ref is None for result in results] == [False, True, False, True, True]


async def test_a_large_checkpoint_from_a_thread_is_stored_before_it_goes_on():
    def handler(config, ctx):
        ctx.checkpoint(BIG)
        return "after"

    slow = Slow()
    async with working(handler, blobs=slow) as h:
        await h.publish(make_task())
        await soon(slow.putting.wait())
        await h.has_nothing()
        slow.go.set()
        first, second = await h.result(), await h.result()
        assert (first.kind, first.output_ref is not None, second.output) == ("checkpointed", True, "after")


async def test_a_checkpoint_that_cannot_be_stored_fails_the_handler_that_waits_for_it(monkeypatch):
    monkeypatch.setattr("perdure.runtime.worker.handler_results.STORE_SECONDS", 0.0)
    faulty = FaultyBlobs(store(), lambda operation, number: BlobFault.FULL if operation == "put" else None)

    async def on_loop(config, ctx):
        await ctx.checkpoint(BIG)

    def in_thread(config, ctx):
        ctx.checkpoint(BIG)

    for handler in (on_loop, in_thread):
        async with working(handler, blobs=faulty) as h:
            result = await h.do(make_task())
            assert (result.kind, result.code) == ("failed", "blob_store_full")


async def test_inputs_that_must_be_loaded_first_are_a_clear_mistake_on_the_loop():
    from perdure.nodes.registry import NodeType, Registry

    blobs = store()
    ref = BlobRef(await blobs.put("default", DATA))

    async def handler(config, ctx):
        try:
            return ctx.inputs
        except RuntimeError as error:
            return [str(error), len((await ctx.load_inputs())["p"]["text"]), len(ctx.inputs["p"]["text"])]

    registry = Registry()
    registry.add(NodeType(name="lazy", description="For tests.", handler=handler, inputs_on_demand=True))
    async with working(blobs=blobs) as h:
        h.worker._handlers._registry = registry
        output = (await h.do(make_task(type="lazy", inputs={"p": ref}))).output
        assert "await ctx.load_inputs()" in output[0]
        assert output[1:] == [100_000, 100_000]


async def test_details_of_a_failure_that_are_large_are_left_out():
    async def handler(config, ctx):
        raise Failure("mine", "no", details={"small": 1} if config == "small" else BIG)

    async with working(handler, blobs=store()) as h:
        assert (await h.do(make_task(config="small"))).details == {"small": 1}
        result = await h.do(make_task("m", config="large"))
        assert (result.code, result.details) == ("mine", {"left_out": f"{len(DATA)} bytes of details; 16384 are kept"})


async def test_steps_are_stored_as_blobs_once_they_are_large_together():
    async def handler(config, ctx):
        for number in range(40):
            await ctx.step(f"large {number}", lambda: "x" * 30_000)
        await ctx.step("small", lambda: "x" * 1_000)
        await ctx.checkpoint("y" * 30_000)

    async with working(handler, blobs=store()) as h:
        await h.publish(make_task())
        kept = [await h.result() for _ in range(43)]
    inline = [len(one.output) for one in kept if one.output is not None and one.step]
    assert sum(inline) < STEP_BYTES + INLINE_BYTES
    assert [bool(one.output_ref) for one in kept[:40]] == sorted(bool(one.output_ref) for one in kept[:40])
    assert kept[39].output_ref is not None
    assert kept[40].output == "x" * 1_000
    assert [one.number for one in kept[:42]] == list(range(1, 43))
