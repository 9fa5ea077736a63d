"""Every case gets `transport`, once per adapter; those that need to take over take `adapter` too."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure.transport import Transport
from tests.conformance.transport.adapters import ADAPTERS, Adapter


@pytest.fixture(params=sorted(ADAPTERS))
async def adapter(request, redis_servers) -> AsyncIterator[Adapter]:
    async with ADAPTERS[request.param](redis_servers) as adapter:
        yield adapter
        await adapter.transport.close()


@pytest.fixture
async def transport(adapter) -> Transport:
    return adapter.transport
