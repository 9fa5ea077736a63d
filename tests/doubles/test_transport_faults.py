"""The fault seams of the transport do what they promise."""

import pytest

from perdure.transport import TransportUnavailable
from perdure.transports.local import LocalTransport
from tests.conformance.transport.messages import beat, claim, receive, result, task
from tests.doubles.transport_faults import Fault, FaultKind, FaultyTransport


class Clock:
    """Only counts."""

    def __init__(self) -> None:
        self.slept = 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds


def faulty(operation: str, kind: FaultKind, **fields) -> tuple[FaultyTransport, LocalTransport, Clock]:
    inner, clock = LocalTransport(), Clock()

    def plan(name: str, number: int) -> Fault | None:
        return Fault(kind, **fields) if (name, number) == (operation, 1) else None

    return FaultyTransport(inner, plan, clock), inner, clock  # type: ignore[arg-type]


async def test_a_lost_task_is_nowhere():
    transport, inner, _ = faulty("publish", FaultKind.LOSE)
    await transport.publish([task("a")])
    assert await inner.find_missing([task("a").task_id]) == {task("a").task_id}
    await transport.publish([task("a")])
    assert await claim(inner) == ["a"]


async def test_a_lost_result_never_arrives():
    transport, _, _ = faulty("report", FaultKind.LOSE)
    await transport.report([result("a")])
    await transport.report([result("b")])
    assert await receive(transport) == ["b"]


async def test_a_repeated_task_is_claimed_twice():
    transport, _, _ = faulty("publish", FaultKind.DUPLICATE)
    await transport.publish([task("a")])
    assert [await claim(transport), await claim(transport)] == [["a"], ["a"]]


async def test_a_repeated_result_is_received_twice():
    transport, _, _ = faulty("report", FaultKind.DUPLICATE)
    await transport.report([result("a")])
    assert await receive(transport) == ["a", "a"]


async def test_what_is_held_back_arrives_later_and_out_of_order():
    transport, inner, _ = faulty("report", FaultKind.HOLD_BACK)
    await transport.report([result("a")])
    await transport.report([result("b")])
    assert await receive(inner) == ["b", "a"]


async def test_a_delay_passes_before_the_call():
    transport, inner, clock = faulty("publish", FaultKind.DELAY, seconds=3.0)
    await transport.publish([task("a")])
    assert clock.slept == 3.0
    assert await claim(inner) == ["a"]


@pytest.mark.parametrize(("kind", "done"), [(FaultKind.FAIL_BEFORE, False), (FaultKind.FAIL_AFTER, True)])
async def test_a_call_that_fails_was_done_or_not(kind, done):
    transport, inner, _ = faulty("publish", kind)
    with pytest.raises(TransportUnavailable):
        await transport.publish([task("a")])
    assert (await inner.find_missing([task("a").task_id]) == set()) is done


@pytest.mark.parametrize(("kind", "seen"), [(FaultKind.FAIL_BEFORE, 0), (FaultKind.FAIL_AFTER, 1)])
async def test_a_beat_may_fail(kind, seen):
    transport, inner, _ = faulty("beat", kind)
    with pytest.raises(TransportUnavailable):
        transport.beat(beat())
    assert len(await inner.list_workers()) == seen


async def test_a_lost_stop_is_not_heard():
    transport, inner, _ = faulty("stop", FaultKind.LOSE)
    await transport.publish([task("a")])
    await claim(inner)
    await transport.stop([task("a").task_id])
    assert inner.beat(beat("w1", task("a").task_id)) == ()
