"""Blobs: content by its hash, in the tenant of the principal. It must not know HTTP, nor where bytes are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.blobs import BlobMissing, InvalidBlobRef, full_ref
from perdure.errors import NotFound
from perdure.service.views import View

if TYPE_CHECKING:
    from perdure.service.tenancy import Tenancy


class Blobs:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenant = tenancy.tenant
        self._contents = tenancy.engine.contents

    async def get(self, ref: str) -> bytes:
        """The bytes exactly as they were put. Another tenant's blob is not found."""
        try:
            return await self._contents.blobs.get(self._tenant, full_ref(ref))
        except (BlobMissing, InvalidBlobRef) as error:
            raise _missing(ref, error) from None

    async def part(self, ref: str, first: int, count: int) -> bytes:
        """Read `count` bytes of a blob from `first` on, which are not checked against its hash."""
        try:
            return await self._contents.blobs.part(self._tenant, full_ref(ref), first, count)
        except (BlobMissing, InvalidBlobRef) as error:
            raise _missing(ref, error) from None

    async def stat(self, ref: str) -> View:
        """The size of a blob, and when it was last put."""
        try:
            found = await self._contents.blobs.stat(self._tenant, full_ref(ref))
        except (BlobMissing, InvalidBlobRef) as error:
            raise _missing(ref, error) from None
        return {"size": found.size, "modified_at": found.modified_at}

    async def put(self, data: bytes) -> View:
        """Store the bytes and give the reference by which a definition names them."""
        ref = await self._contents.blobs.put(self._tenant, data)
        return {"ref": ref, "size": len(data)}


def _missing(ref: str, error: BlobMissing | InvalidBlobRef) -> NotFound:
    why = f": {error.message}" if isinstance(error, InvalidBlobRef) else ""
    return NotFound(f"there is no blob {ref[:100]}{why}")
