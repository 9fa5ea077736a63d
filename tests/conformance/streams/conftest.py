"""Every case gets `store`, once per adapter."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conformance.streams.adapters import ADAPTERS, Store


@pytest.fixture(params=sorted(ADAPTERS))
async def store(request, redis_servers) -> AsyncIterator[Store]:
    async with ADAPTERS[request.param](redis_servers) as store:
        yield store
