"""Every case gets `leases`, once per adapter; those that append take `office`, which has the journal too."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure.leases import Leases
from tests.conformance.leases.adapters import ADAPTERS, Office


@pytest.fixture(params=sorted(ADAPTERS))
async def office(request, postgres_servers) -> AsyncIterator[Office]:
    async with ADAPTERS[request.param](postgres_servers) as office:
        yield office


@pytest.fixture
def leases(office) -> Leases:
    return office.leases
