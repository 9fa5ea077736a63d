"""close: whoever waits is told, and what comes after is refused."""

import asyncio
from typing import Any

import pytest

from perdure.transport import TransportClosed
from tests.conformance.transport.messages import claim, is_waiting, receive, result, soon, task


async def test_closing_again_is_no_mistake(transport):
    await transport.close()
    await transport.close()


async def test_a_closed_transport_refuses_everything_with_an_answer(transport):
    await transport.close()
    calls: dict[str, list[Any]] = {
        "publish": [[task("a")]],
        "recall": [[]],
        "stop": [[]],
        "receive": [1],
        "acknowledge": [[]],
        "receive_begin": [],
        "grant_begin": ["a", True],
        "find_missing": [[]],
        "list_workers": [],
        "forget_worker": ["w1"],
        "claim": ["w1", ["default"], 1],
        "begin": [task("a"), "w1"],
        "report": [[result("a")]],
    }
    for name, arguments in calls.items():
        with pytest.raises(TransportClosed):
            await soon(getattr(transport, name)(*arguments))


async def test_whoever_waits_is_woken(transport):
    once = task("a", effect="at_most_once")
    await transport.publish([once])
    await claim(transport)
    calls = [claim(transport), receive(transport), transport.begin(once, "w1")]
    waiting = [asyncio.ensure_future(call) for call in calls]
    await soon(transport.receive_begin())
    waiting.append(asyncio.ensure_future(transport.receive_begin()))
    for one in waiting:
        assert await is_waiting(one)
    await transport.close()
    for one in waiting:
        with pytest.raises(TransportClosed):
            await soon(one)
