"""limits: a transport comes with what counts the attempts that are out. How it counts has a suite of its own."""

from perdure.limits import Ask, Entered, Full, Limit
from tests.conformance.transport.messages import soon


async def test_a_transport_counts_what_is_out_under_a_key(transport):
    limit = Limit("default", "one at a time", 1)
    first, second = Ask("r1/a/1.1", (limit,)), Ask("r1/b/1.1", (limit,))
    assert await soon(transport.limits.enter([first, second])) == [Entered((0,)), Full(limit)]
    await soon(transport.limits.leave([(first.owner, limit)]))
    assert await soon(transport.limits.enter([second])) == [Entered((0,))]
    await soon(transport.limits.leave([(second.owner, limit)]))
