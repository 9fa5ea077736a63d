"""Every case gets `opened`, once per adapter: another process with each call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from perdure.transport import SharedTransport
from tests.conformance.shared_transport.adapters import ADAPTERS, PARTITIONS


@pytest.fixture(params=sorted(ADAPTERS))
async def opened(request, redis_servers) -> AsyncIterator[Callable[..., Awaitable[SharedTransport]]]:
    async with ADAPTERS[request.param](redis_servers) as open_another:

        async def opened(partitions=range(PARTITIONS)) -> SharedTransport:
            return await open_another(partitions)

        yield opened
