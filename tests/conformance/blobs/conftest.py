"""Every case gets `store`, once per adapter; those that need several on one storage take `storage`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure.blobs import BlobStore
from tests.conformance.blobs.adapters import ADAPTERS, SLOW, Storage


def _parameters() -> list[object]:
    marks = [pytest.mark.slow, pytest.mark.xdist_group("s3")]
    return [pytest.param(name, marks=marks if name in SLOW else ()) for name in sorted(ADAPTERS)]


@pytest.fixture(params=_parameters())
def storage(request, tmp_path) -> Storage:
    return ADAPTERS[request.param](tmp_path)


@pytest.fixture
async def store(storage) -> AsyncIterator[BlobStore]:
    store = storage.open()
    yield store
    await store.close()
