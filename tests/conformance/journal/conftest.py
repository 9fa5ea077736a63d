"""Every case gets `journal`, once per adapter; those that need several on one storage take `handles`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure.journal import Journal
from tests.conformance.journal.adapters import ADAPTERS, Handles, Place


@pytest.fixture(params=sorted(ADAPTERS))
async def handles(request, tmp_path, postgres_servers) -> AsyncIterator[Handles]:
    async with ADAPTERS[request.param](Place(tmp_path, postgres_servers)) as opener:
        handles = Handles(opener)
        yield handles
        await handles.close()


@pytest.fixture
async def journal(handles) -> Journal:
    return await handles.open()
