"""put, get, part, stat: content by its hash, in a tenant, checked."""

import asyncio
import hashlib

import pytest

from perdure.blobs import BlobDamaged, BlobMissing, InvalidBlobRef, folder_of, ref_of

A, B = "tenant-a", "tenant-b"


@pytest.mark.parametrize("data", [b"", b"x", b"\x00\xff" * 50_000, b"[1, 2]"], ids=["empty", "one", "bytes", "json"])
async def test_content_comes_back_byte_for_byte(store, data):
    ref = await store.put(A, data)
    assert ref == f"cas://sha256:{hashlib.sha256(data).hexdigest()}" == ref_of(data)
    assert await store.get(A, ref) == data


async def test_another_process_reads_what_was_put(storage, store):
    ref = await store.put(A, b"content")
    other = storage.open()
    assert await other.get(A, ref) == b"content"
    await other.close()


async def test_equal_content_is_kept_once(storage, store):
    first, second = await store.put(A, b"same"), await store.put(A, b"same")
    assert first == second
    assert len(await store.list_blobs(A)) == 1


async def test_many_put_the_same_at_once(store):
    data = b"x" * 200_000
    refs = await asyncio.gather(*(store.put(A, data) for _ in range(10)))
    assert set(refs) == {ref_of(data)}
    assert await store.get(A, refs[0]) == data
    assert len(await store.list_blobs(A)) == 1


async def test_a_tenant_has_nothing_of_another(storage, store):
    ref = await store.put(A, b"mine")
    for ask in (store.get(B, ref), store.stat(B, ref), store.part(B, ref, 0, 1)):
        with pytest.raises(BlobMissing, match=ref):
            await ask
    assert await store.list_blobs(B) == []


async def test_equal_content_of_two_tenants_has_no_name_in_common(storage, store):
    await store.put(A, b"same")
    await store.put(B, b"same")
    keys = {tenant: {one.key for one in await store.list_blobs(tenant)} for tenant in (A, B)}
    assert len(keys[A]) == len(keys[B]) == 1
    assert not keys[A] & keys[B]
    digest = hashlib.sha256(b"same").hexdigest()
    assert digest not in str(keys)


async def test_what_was_never_put_is_missing(store):
    ref = ref_of(b"never")
    for ask in (store.get(A, ref), store.stat(A, ref), store.part(A, ref, 0, 10)):
        with pytest.raises(BlobMissing, match="there is no blob"):
            await ask


async def test_content_that_changed_is_damaged_and_can_be_put_again(storage, store):
    data = b"the right content"
    ref = await store.put(A, data)
    objects = storage.objects()
    (name,) = [one.name for one in await objects.find(folder_of(A), "", 10)]
    await objects.write(name, b"the wrong content")
    with pytest.raises(BlobDamaged, match=ref):
        await store.get(A, ref)
    await store.put(A, data)
    assert await store.get(A, ref) == data


async def test_a_part_is_read_by_its_bytes(store):
    ref = await store.put(A, b"0123456789")
    assert await store.part(A, ref, 0, 4) == b"0123"
    assert await store.part(A, ref, 0, 100) == b"0123456789"
    assert await store.part(A, ref, 3, 4) == b"3456"
    assert await store.part(A, ref, 8, 100) == b"89"
    assert await store.part(A, ref, 10, 4) == b""
    assert await store.part(A, await store.put(A, b""), 0, 4) == b""


async def test_stat_says_how_large_and_how_old(store):
    ref = await store.put(A, b"12345")
    found = await store.stat(A, ref)
    assert found.size == 5
    assert found.modified_at > 1_700_000_000


async def test_a_reference_needs_no_scheme_and_may_say_that_it_holds_others(store):
    ref = await store.put(A, b"content")
    assert await store.get(A, ref.removeprefix("cas://")) == b"content"
    assert await store.get(A, f"{ref}+refs") == b"content"


@pytest.mark.parametrize(
    "ref", ["", "cas://sha256:12", "../../etc/passwd", "cas://md5:" + "0" * 64, "sha256:" + "A" * 64]
)
async def test_what_is_no_reference_is_refused(store, ref):
    for ask in (store.get(A, ref), store.stat(A, ref), store.part(A, ref, 0, 1)):
        with pytest.raises(InvalidBlobRef, match="is not a reference to a blob"):
            await ask


@pytest.mark.parametrize("tenant", ["", "../b", "a/b", "Ä", "x" * 1000])
async def test_any_text_can_name_a_tenant(store, tenant):
    ref = await store.put(tenant, b"content")
    assert await store.get(tenant, ref) == b"content"
    assert len(await store.list_blobs(tenant)) == 1
