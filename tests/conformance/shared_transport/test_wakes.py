"""wake and on_wake: hints between processes."""

import asyncio

import pytest

from perdure.transport import SharedTransport, TransportClosed
from tests.conformance.transport.messages import soon


async def wake_until(heard: list[str], transport: SharedTransport, topic: str, said: str) -> None:
    """A hint may get lost, and whoever listens may not listen yet."""
    async with asyncio.timeout(20):
        while said not in heard:
            await transport.wake(topic, said)
            await asyncio.sleep(0.01)


async def test_a_topic_wakes_whoever_listens_in_any_process(opened):
    one, other = await opened(()), await opened(())
    heard: list[str] = []
    end = other.on_wake("run:r1", heard.append)
    await wake_until(heard, one, "run:r1", "7")
    end()
    await one.wake("run:r1", "8")
    other.on_wake("run:r2", heard.append)
    await wake_until(heard, one, "run:r2", "9")
    assert "8" not in heard


async def test_a_hint_says_nothing_or_what_its_sender_said(opened):
    one = await opened(())
    heard: list[str] = []
    one.on_wake("t", heard.append)
    await wake_until(heard, one, "t", "1 2")
    assert set(heard) <= {"", "1 2"}


async def test_nobody_is_woken_through_a_closed_transport(opened):
    one, other = await opened(()), await opened(())
    heard: list[str] = []
    one.on_wake("t", heard.append)
    await one.close()
    with pytest.raises(TransportClosed):
        await soon(one.wake("t", "x"))
    heard.clear()
    await other.wake("t", "y")
    assert heard == []
