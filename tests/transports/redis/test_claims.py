"""A worker asks for tasks when there may be some: what the last claim has shown is not asked again."""

import asyncio

from tests.conformance.transport.messages import claim, is_waiting, soon, task
from tests.transports.redis.helpers import wait_until


def count_claims(transport, monkeypatch):
    """The limits of the claims that go to the server."""
    asked: list[int] = []
    start = transport._link.start

    def note(name, keys, arguments):
        if name == "claim":
            asked.append(arguments[2])
        return start(name, keys, arguments)

    monkeypatch.setattr(transport._link, "start", note)
    return asked


async def open_heard(opened):
    transport = await opened()
    heard = transport._wakes.heard
    first = asyncio.ensure_future(transport.claim("w0", ("default",), 1))
    await wait_until(lambda: f"{opened.prefix}:wake:queue:default" in heard, "wake-ups are heard")
    first.cancel()
    await asyncio.wait([first])
    return transport


async def test_a_claim_that_was_given_less_than_it_asked_for_is_not_followed_by_an_empty_one(opened, monkeypatch):
    transport = await open_heard(opened)
    channel = f"{opened.prefix}:wake:queue:default"
    before = transport._wakes.count_said([channel])
    await transport.publish([task("a")])
    await wait_until(lambda: transport._wakes.count_said([channel]) > before, "the wake-up has come")
    asked = count_claims(transport, monkeypatch)
    assert await claim(transport, 10) == ["a"]
    waiting = asyncio.ensure_future(transport.claim("w1", ("default",), 9))
    assert await is_waiting(waiting)
    assert asked == [10]
    await transport.publish([task("b")])
    assert [one.node for one in await soon(waiting)] == ["b"]
    assert asked == [10, 9]


async def test_a_claim_that_was_given_all_it_asked_for_is_followed_at_once(opened, monkeypatch):
    transport = await open_heard(opened)
    monkeypatch.setattr("perdure.transports.redis.claims.POLL_SECONDS", 600.0)
    await transport.publish([task("a"), task("b"), task("c")])
    assert [await claim(transport, 1), await claim(transport, 2)] == [["a"], ["b", "c"]]


async def test_a_worker_that_can_do_more_than_before_asks_at_once(opened, monkeypatch):
    transport = await open_heard(opened)
    monkeypatch.setattr("perdure.transports.redis.claims.POLL_SECONDS", 600.0)
    await transport.publish([task("a", type="one"), task("b", type="two")])
    assert [one.node for one in await soon(transport.claim("w1", ("default",), 9, ["one"]))] == ["a"]
    assert [one.node for one in await soon(transport.claim("w1", ("default",), 9, ["one", "two"]))] == ["b"]


async def test_a_worker_that_hears_no_wake_ups_asks_at_once(opened, monkeypatch):
    transport = await open_heard(opened)
    await transport.publish([task("a")])
    assert await claim(transport, 10) == ["a"]
    asked = count_claims(transport, monkeypatch)
    transport._wakes.heard.clear()
    waiting = asyncio.ensure_future(transport.claim("w1", ("default",), 9))
    await wait_until(lambda: asked, "it has asked")
    waiting.cancel()
    await asyncio.wait([waiting])
