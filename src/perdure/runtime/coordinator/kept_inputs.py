"""Inputs of items as a mailbox keeps them: whole where they take little memory, otherwise as blobs.

A mailbox is held in memory with all that waits in it. Short JSON may take thirty times its length there: 28 KB of small objects
take 0.8 MB. So what counts is the memory, estimated from the JSON.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.blobs import INLINE_BYTES, WITH_REFS, BlobStore
from perdure.kernel import segments
from perdure.kernel.commands import Delivered
from perdure.kernel.segments import BlobRef
from perdure.pieces import count

MOST_WEIGHT = 2 * INLINE_BYTES
"""The most memory of inputs that are kept whole; JSON of more than `INLINE_BYTES` is a blob in any case."""
REF_WEIGHT = 500
"""What a reference takes, and an item beside its inputs."""
_OBJECT_BYTES, _VALUE_BYTES = 200, 60


class Kept(msgspec.Struct, frozen=True):
    size: int
    """The bytes of JSON."""
    weight: int
    """The bytes that the mailbox holds in memory."""
    data: bytes | None = None
    """What is to be stored as a blob; None: the inputs stay whole."""
    refs: bool = False


def weigh_inputs(inputs: Any) -> Kept:
    data, refs = segments.encode(inputs)
    weight = REF_WEIGHT + estimate_memory(data)
    if len(data) > INLINE_BYTES or weight > MOST_WEIGHT:
        return Kept(len(data), REF_WEIGHT, data, refs)
    return Kept(len(data), weight)


async def store_inputs(blobs: BlobStore | None, tenant: str, delivered: Delivered, kept: Kept) -> Delivered:
    """The item as a mailbox takes it: with a reference where its inputs are large. Raises StoreUnavailable."""
    delivered = msgspec.structs.replace(delivered, size=kept.weight)
    if kept.data is None or blobs is None:
        return delivered
    ref = await blobs.put(tenant, kept.data)
    return msgspec.structs.replace(delivered, inputs=BlobRef(ref + WITH_REFS if kept.refs else ref))


def estimate_memory(data: bytes) -> int:
    """The bytes that JSON takes once it is decoded, and rather too many: what stands in texts counts too."""
    objects = count(data, b"[") + count(data, b"{")
    return len(data) + _OBJECT_BYTES * objects + _VALUE_BYTES * count(data, b",")
