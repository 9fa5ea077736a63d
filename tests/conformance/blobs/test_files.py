"""put_file: the content of a file, of which only parts are in memory."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from perdure.blob_stores.objects import PIECE
from perdure.blobs import BlobDamaged, ref_of

TENANT = "tenant-a"


@pytest.mark.parametrize("size", [0, 1, PIECE, 3 * PIECE + 5])
async def test_a_file_is_the_same_blob_as_its_bytes(store, tmp_path, size):
    data = (hashlib.sha256(str(size).encode()).digest() * (size // 32 + 1))[:size]
    path = tmp_path / "content"
    path.write_bytes(data)
    assert await store.put_file(TENANT, path) == ref_of(data)
    assert await store.get(TENANT, ref_of(data)) == data
    assert await store.put_file(TENANT, path) == await store.put(TENANT, data)
    assert len(await store.list_blobs(TENANT)) == 1


@pytest.mark.parametrize("size", [10, 3 * PIECE])
async def test_a_file_that_changes_meanwhile_is_not_stored(store, tmp_path, size, monkeypatch):
    path = tmp_path / "content"
    path.write_bytes(b"a" * size)
    hashed: Any = hashlib.file_digest

    def then_change(file: Any, name: str) -> Any:
        found = hashed(file, name)
        Path(path).write_bytes(b"b" * size)
        return found

    monkeypatch.setattr(hashlib, "file_digest", then_change)
    with pytest.raises(BlobDamaged, match="content changed while it was stored"):
        await store.put_file(TENANT, path)
    assert await store.list_blobs(TENANT) == []
