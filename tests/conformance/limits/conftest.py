"""Every case gets `pair`, once per adapter."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conformance.limits.adapters import ADAPTERS, Pair


@pytest.fixture(params=sorted(ADAPTERS))
async def pair(request, redis_servers) -> AsyncIterator[Pair]:
    async with ADAPTERS[request.param](redis_servers) as pair:
        yield pair
