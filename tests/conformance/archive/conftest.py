"""Every case gets `archive`, once per adapter; those that need runs, or a second process, take `office`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure.archive import Archive
from tests.conformance.archive.adapters import ADAPTERS, Office, office_of
from tests.conformance.journal.adapters import Handles, Place


@pytest.fixture(params=sorted(ADAPTERS))
async def office(request, tmp_path, postgres_servers) -> AsyncIterator[Office]:
    async with ADAPTERS[request.param](Place(tmp_path, postgres_servers)) as opener:
        handles = Handles(opener)
        yield await office_of(handles)()
        await handles.close()


@pytest.fixture
def archive(office) -> Archive:
    return office.archive
