"""Every case gets `journal`, once per adapter; those that need several on one storage take `handles`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conformance.journal.adapters import ADAPTERS, Handles
from weft.journal import Journal


@pytest.fixture(params=sorted(ADAPTERS))
async def handles(request, tmp_path) -> AsyncIterator[Handles]:
    handles = Handles(ADAPTERS[request.param](tmp_path))
    yield handles
    await handles.close()


@pytest.fixture
async def journal(handles) -> Journal:
    return await handles.open()
