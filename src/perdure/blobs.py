"""Blobs: content by its hash, for values too large for an event. This file is the port.

It owns what a reference is and what a store must offer. It must not know runs, journals or where bytes are kept.

A reference names content: `cas://sha256:<64 hexadecimal digits>`. The content of a value is its JSON; a reference that
ends with `+refs` says that this JSON holds further references, written as in `perdure.kernel.segments`. Every operation
is in a tenant, and nothing a tenant can ask tells whether another one has the same content (X31).

The promises: `put` returns when the content is durable, so a reference written after it never names missing content.
`get` gives exactly what was put, or says that it is missing or damaged. Equal content is kept once per tenant.

Content that nothing names any more goes in two steps (see `docs/concepts/blobs.md`): `discard` takes it out of the
listing, and it can still be read; `delete_discarded` is the end. A `put` of discarded content is simply a `put`.

    BlobMissing            there is no such content, now
    BlobDamaged            there is something else under its name
    BlobStoreUnavailable   the store did not answer, or would not take it: try again
    └── BlobStoreFull      there is no room
    InvalidBlobRef         the caller's mistake
    ForeignBlobStore       the store belongs to another database
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from perdure.errors import IntegrityError, NotFound, PerdureError, StoreUnavailable

INLINE_BYTES = 32 * 1024
"""A value whose JSON is at most this long stays where it is; a longer one becomes a blob."""

SCHEME = "cas://"
WITH_REFS = "+refs"

_REF = re.compile(r"(?:cas://)?sha256:([0-9a-f]{64})(\+refs)?")


Data: TypeAlias = bytes | bytearray


class BlobMissing(NotFound):
    code = "blob_missing"


class BlobDamaged(IntegrityError):
    code = "blob_damaged"


class BlobStoreUnavailable(StoreUnavailable):
    code = "blob_store_unavailable"


class BlobStoreFull(BlobStoreUnavailable):
    code = "blob_store_full"


class InvalidBlobRef(PerdureError):
    code = "invalid_blob_ref"
    status = 400


class ForeignBlobStore(PerdureError):
    code = "foreign_blob_store"


class BlobStat(msgspec.Struct, frozen=True):
    size: int
    modified_at: float
    """When this content was last put, by the store's clock."""


class StoredBlob(msgspec.Struct, frozen=True):
    """A blob as it is listed. `key` is derived from tenant and hash (`key_of`); there is no way back to the hash."""

    key: str
    size: int
    modified_at: float


class BlobStore(Protocol):
    async def put(self, tenant: str, data: Data) -> str:
        """Store content; returns its reference. Content that is there already counts as modified now."""
        ...

    async def put_file(self, tenant: str, path: Path) -> str:
        """Store the content of a file, of which no more than a few parts are in memory at a time; otherwise as `put`. A file that
        changes meanwhile is refused with BlobDamaged."""
        ...

    async def get(self, tenant: str, ref: str) -> bytes: ...

    async def part(self, tenant: str, ref: str, first: int, count: int) -> bytes:
        """Read `count` bytes from `first` on, fewer at the end of the content, and no others; unlike `get`, they are not checked against the
        hash."""
        ...

    async def stat(self, tenant: str, ref: str) -> BlobStat: ...

    async def list_blobs(self, tenant: str, *, after: str = "", limit: int = 1000) -> list[StoredBlob]:
        """Blobs above `after`, by key, without discarded ones; fewer than `limit` means there are no more."""
        ...

    async def discard(self, tenant: str, key: str) -> None:
        """Set aside content that nothing seems to name. Nothing happens if it is not there."""
        ...

    async def list_discarded(self, tenant: str, *, after: str = "", limit: int = 1000) -> list[StoredBlob]:
        """Discarded blobs, as in `list_blobs`; `modified_at` is when they were discarded. Keys may repeat."""
        ...

    async def restore(self, tenant: str, key: str) -> None:
        """Bring discarded content back: something names it after all."""
        ...

    async def delete_discarded(self, tenant: str, key: str, before: float) -> None:
        """Delete for good what was discarded under this key before that time."""
        ...

    async def remember(self, tenant: str, name: str, data: Data) -> None:
        """Keep data under a name, in the place of what was there. No journal names it: a reader can do without."""
        ...

    async def recall(self, tenant: str, name: str) -> tuple[bytes, float] | None:
        """What was remembered under a name last, and when; None if nothing is there any more."""
        ...

    async def forget(self, before: float, limit: int = 1000) -> int:
        """Forget what was remembered before that time, of all tenants, so much at a time; 0 means there is no more."""
        ...

    async def tidy(self, before: float) -> int:
        """Remove what unfinished writes left behind before that time; returns how many."""
        ...

    async def claim(self, owner: str) -> str:
        """Make the store this owner's, unless it has one; returns the owner it has."""
        ...

    async def close(self) -> None: ...


# -- references --------------------------------------------------------------------------------------------------------


def ref_of(data: Data, *, refs: bool = False) -> str:
    return f"{SCHEME}sha256:{hashlib.sha256(data).hexdigest()}{WITH_REFS if refs else ''}"


def parse_ref(ref: str) -> tuple[str, bool]:
    """The hash, and whether the content holds references. The scheme may be left out."""
    found = _REF.fullmatch(ref)
    if found is None:
        raise InvalidBlobRef(
            f"{ref[:100]!r} is not a reference to a blob, such as cas://sha256:<64 hexadecimal digits>"
        )
    return found[1], found[2] is not None


def is_ref(text: str) -> bool:
    return _REF.fullmatch(text) is not None


def full_ref(ref: str) -> str:
    """The reference with its scheme, which a definition need not write."""
    return ref if ref.startswith(SCHEME) else SCHEME + ref


def key_of(tenant: str, ref: str) -> str:
    """A store's name for this tenant's content. Equal content of two tenants has nothing in common there (X31)."""
    digest, _ = parse_ref(ref)
    return hashlib.blake2b(bytes.fromhex(digest), digest_size=32, key=_tenant_key(tenant)).hexdigest()


def folder_of(tenant: str) -> str:
    """The folder in which a store keeps this tenant's blobs; never the tenant's name, which may hold any character."""
    return hashlib.blake2b(b"folder", digest_size=16, key=_tenant_key(tenant)).hexdigest()


def name_of(tenant: str, name: str) -> str:
    """Where a store keeps what a tenant remembers under a name; never the name, which may hold any character."""
    key = hashlib.blake2b(name.encode(), digest_size=32, key=_tenant_key(tenant)).hexdigest()
    return f"{folder_of(tenant)}/{key[:2]}/{key}"


def _tenant_key(tenant: str) -> bytes:
    return hashlib.blake2b(tenant.encode(), digest_size=32, person=b"perdure tenant").digest()
