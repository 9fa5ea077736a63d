"""list, discard, restore, delete_discarded, tidy, claim: what a collection of garbage needs."""

import time

import pytest

from perdure.blobs import BlobMissing, key_of

A, B = "tenant-a", "tenant-b"
FAR = time.time() + 10**9


async def test_a_long_list_comes_in_pages_by_key(store):
    refs = [await store.put(A, f"content {number}".encode()) for number in range(25)]
    keys: list[str] = []
    while page := await store.list_blobs(A, after=keys[-1] if keys else "", limit=7):
        keys += [one.key for one in page]
        if len(page) < 7:
            break
    assert keys == sorted(key_of(A, ref) for ref in refs)


async def test_what_is_discarded_is_not_listed_and_can_still_be_read(store):
    ref = await store.put(A, b"content")
    key = key_of(A, ref)
    await store.discard(A, key)
    assert await store.list_blobs(A) == []
    assert [one.key for one in await store.list_discarded(A)] == [key]
    assert await store.get(A, ref) == b"content"
    assert await store.part(A, ref, 0, 3) == b"con"
    assert (await store.stat(A, ref)).size == 7
    assert await store.list_discarded(B) == []


async def test_what_is_deleted_is_gone(store):
    ref = await store.put(A, b"content")
    await store.discard(A, key_of(A, ref))
    await store.delete_discarded(A, key_of(A, ref), FAR)
    with pytest.raises(BlobMissing):
        await store.get(A, ref)
    assert await store.list_discarded(A) == []


async def test_only_what_was_discarded_before_is_deleted(store):
    ref = await store.put(A, b"content")
    await store.discard(A, key_of(A, ref))
    await store.delete_discarded(A, key_of(A, ref), time.time() - 3600)
    assert await store.get(A, ref) == b"content"


async def test_what_is_restored_is_listed_again(store):
    ref = await store.put(A, b"content")
    await store.discard(A, key_of(A, ref))
    await store.restore(A, key_of(A, ref))
    assert [one.key for one in await store.list_blobs(A)] == [key_of(A, ref)]
    assert await store.list_discarded(A) == []
    assert await store.get(A, ref) == b"content"


async def test_what_is_put_again_outlives_the_copy_that_was_discarded(store):
    ref = await store.put(A, b"content")
    await store.discard(A, key_of(A, ref))
    await store.put(A, b"content")
    await store.delete_discarded(A, key_of(A, ref), FAR)
    assert await store.get(A, ref) == b"content"


async def test_the_same_content_can_be_discarded_again(store):
    ref = await store.put(A, b"content")
    await store.discard(A, key_of(A, ref))
    await store.put(A, b"content")
    await store.discard(A, key_of(A, ref))
    assert {one.key for one in await store.list_discarded(A)} == {key_of(A, ref)}
    assert await store.get(A, ref) == b"content"
    await store.restore(A, key_of(A, ref))
    assert await store.list_discarded(A) == []
    assert await store.get(A, ref) == b"content"


async def test_what_is_not_there_can_be_discarded_restored_and_deleted(store):
    key = "ab" * 32
    await store.discard(A, key)
    await store.restore(A, key)
    await store.delete_discarded(A, key, FAR)
    assert await store.list_blobs(A) == await store.list_discarded(A) == []


async def test_discarded_blobs_are_listed_in_pages(store):
    keys = sorted([key_of(A, await store.put(A, f"content {number}".encode())) for number in range(9)])
    for key in keys:
        await store.discard(A, key)
    first = await store.list_discarded(A, limit=4)
    rest = await store.list_discarded(A, after=first[-1].key, limit=100)
    assert [one.key for one in first + rest] == keys


async def test_putting_again_counts_as_modified_now(storage, store):
    ref = await store.put(A, b"content")
    before = (await store.stat(A, ref)).modified_at
    while (await store.stat(A, ref)).modified_at <= before:
        await store.put(A, b"content")
    assert len(await store.list_blobs(A)) == 1


async def test_there_is_nothing_to_tidy_where_every_write_finished(store):
    ref = await store.put(A, b"content")
    assert await store.tidy(FAR) == 0
    assert await store.get(A, ref) == b"content"


async def test_the_first_who_claims_the_store_has_it(storage, store):
    assert await store.claim("database 1") == "database 1"
    assert await store.claim("database 1") == "database 1"
    assert await storage.open().claim("database 2") == "database 1"
