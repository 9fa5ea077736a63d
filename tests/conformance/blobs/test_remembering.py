"""remember, recall, forget: what is kept under a name for a while."""

import time

A, B = "acme", "other"
FAR = time.time() + 10**6


async def test_what_is_remembered_is_recalled_until_something_else_takes_its_place(store):
    assert await store.recall(A, "answer") is None
    before = time.time() - 60
    await store.remember(A, "answer", b"one")
    data, at = await store.recall(A, "answer")
    assert (data, before < at < FAR) == (b"one", True)
    await store.remember(A, "answer", b"two")
    assert (await store.recall(A, "answer"))[0] == b"two"


async def test_nobody_recalls_what_another_tenant_remembers(store):
    await store.remember(A, "answer", b"one")
    assert await store.recall(B, "answer") is None
    assert await store.recall(A, "Answer") is None
    await store.remember(B, "../answer", b"two")
    assert (await store.recall(A, "answer"))[0] == b"one"
    assert (await store.recall(B, "../answer"))[0] == b"two"


async def test_it_is_no_blob_and_is_forgotten_by_its_age(store):
    ref = await store.put(A, b"content")
    for number in range(3):
        await store.remember(A, f"n{number}", b"x")
    await store.remember(B, "n0", b"x")
    assert len(await store.list_blobs(A)) == 1
    assert await store.forget(time.time() - 3600) == 0
    assert await store.forget(FAR, limit=3) == 3
    assert await store.forget(FAR) == 1
    assert await store.forget(FAR) == 0
    assert await store.recall(B, "n0") is None
    assert await store.get(A, ref) == b"content"
