"""What all attempts of a process share: opened once, before the first; closed when the worker ends."""

import asyncio

import pytest

from perdure.nodes.registry import NodeType
from perdure.nodes.shared_values import Opener, SharedValues
from tests.doubles.fake_clock import FakeClock
from tests.runtime import shared_functions
from tests.runtime.harness import call, make_task, wait_until, working
from tests.runtime.shared_functions import close_pool, gate, open_pool, said, trouble, use_pool

HERE = "tests.runtime.shared_functions"
POOL = NodeType(name="pool", description="For tests.", handler=use_pool, open=open_pool, close=close_pool)


@pytest.fixture(autouse=True)
def _afresh():
    said.clear()
    trouble.clear()
    gate.set()
    yield
    gate.set()


async def test_a_class_has_one_object_which_is_opened_before_the_first_call_and_closed_at_the_end():
    async with working(device="3") as h:
        outputs = [(await h.do(call(f"{HERE}:Counter", f"n{by}", args={"by": by}))).output for by in (1, 2, 3)]
        assert said == ["made", "opened"]
    assert outputs == [[1, True, "3"], [3, True, "3"], [6, True, "3"]]
    assert said == ["made", "opened", "closed"]


async def test_its_methods_may_be_async():
    async with working() as h:
        assert (await h.do(call(f"{HERE}:AsyncCounter", args={"by": 4}))).output == 4
    assert said == ["made", "opened", "closed async"]


async def test_attempts_at_the_same_time_share_what_one_of_them_opens():
    gate.clear()
    async with working() as h:
        await h.publish(*(call(f"{HERE}:Counter", f"n{number}", args={"by": 1}) for number in range(4)))
        await wait_until(lambda: len(h.worker._running) == 4, "all have begun")
        gate.set()
        assert sorted([(await h.result()).output[0] for _ in range(4)]) == [1, 2, 3, 4]
    assert said.count("made") == 1


async def test_wrong_arguments_are_those_of_the_method():
    async with working() as h:
        result = await h.do(call(f"{HERE}:Counter", args={"buy": 1}))
    assert (result.code, said) == ("bad_arguments", [])
    assert "did you mean 'by'?" in result.message


async def test_a_node_type_shares_what_its_open_gave_and_closes_it():
    async with working(types=None) as h:
        h.worker._registry.add(POOL)
        assert [(await h.do(make_task(f"n{number}", "pool"))).output for number in range(3)] == [1, 2, 3]
        assert said == ["pool opened"]
    assert said == ["pool opened", "pool closed after 3"]


async def test_what_cannot_be_opened_fails_its_attempt_and_its_type_is_offered_again_after_a_while():
    clock = FakeClock()
    async with working(clock=clock) as h:
        h.worker._registry.add(POOL)
        trouble.append(OSError("no such host"))
        result = await h.do(make_task(type="pool"))
        assert (result.kind, result.code, result.retryable) == ("failed", "initialize_failed", True)
        assert result.message == "node type pool could not be opened: OSError: no such host"
        assert result.retry_after == 1.0  # the next attempt is not spent on the pause
        assert "pool" not in h.worker._list_types()
        again = await h.do(make_task(type="pool", attempt=2))
        assert again.code == "initialize_failed"
        assert again.retry_after == pytest.approx(1.0)
        await clock.advance(1.0)
        assert "pool" in h.worker._list_types()
        assert (await h.do(make_task(type="pool", attempt=3))).output == 1


async def test_when_memory_runs_out_the_next_attempt_begins_with_a_new_object():
    async with working() as h:
        result = await h.do(call(f"{HERE}:Counter", args={"by": 0}))
        assert (result.code, result.message) == ("out_of_memory", "OutOfMemoryError: 2 GiB on the device")
        assert said == ["made", "opened"]
        assert (await h.do(call(f"{HERE}:Counter", args={"by": 2}, attempt=2))).output[0] == 2
    assert said == ["made", "opened", "closed", "made", "opened", "closed"]


async def test_a_new_one_waits_until_nobody_uses_the_old_one():
    shared = SharedValues(FakeClock(), _at_once)
    old, new = (
        Opener("m:C", owner, lambda: said.append("open"), None, lambda _: said.append("close")) for owner in "ab"
    )
    async with asyncio.TaskGroup() as group, shared.use(old):
        waiting = group.create_task(_use(shared, new))
        await asyncio.sleep(0)
        assert said == ["open"]
    assert waiting.done()
    assert said == ["open", "close", "open"]
    await shared.close()
    assert said[-1] == "close"


async def test_an_attempt_that_is_over_does_not_undo_an_opening():
    gate.clear()
    async with working() as h:
        await h.publish(call(f"{HERE}:Counter", args={"by": 1}, timeout_seconds=0.05))
        assert (await h.result()).code == "timeout"
        gate.set()
        assert (await h.do(call(f"{HERE}:Counter", args={"by": 1}, attempt=2))).output[0] == 1
    assert said.count("made") == 1


async def test_a_class_without_a_call_is_called_itself():
    async with working() as h:
        result = await h.do(call(f"{HERE}:Plain", args={"x": 1}))
    assert "Plain" in result.message


@pytest.mark.slow
async def test_an_isolated_process_opens_for_itself_and_closes_before_it_ends(tmp_path, monkeypatch):
    log = tmp_path / "said"
    monkeypatch.setenv("SHARED_LOG", str(log))
    async with working(concurrency=1, device="1") as h:
        h.worker._registry.add(POOL)
        for number in (1, 2):
            task = call(f"{HERE}:Counter", f"c{number}", isolation="process", args={"by": 1})
            assert (await h.do(task)).output == [number, True, "1"]
            assert (await h.do(make_task(f"p{number}", "pool", isolation="process"))).output == number
    assert log.read_text().split("\n")[:-1] == ["made", "opened", "pool opened", "closed", "pool closed after 2"]
    assert shared_functions.said == []


async def _at_once(call):
    return call()


async def _use(shared, opener):
    async with shared.use(opener):
        pass
