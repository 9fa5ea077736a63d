"""A blob store over anything that keeps bytes by name: hashes, names, tenants and checks stand here, once.

Names are `<tenant>/kept/<2 digits>/<key>` and `<tenant>/discarded/<key>-<number>`: a discarded object gets a name of
its own each time, so that nothing that happens to one copy can happen to another. The tenant is a hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from perdure.blobs import (
    SCHEME,
    BlobDamaged,
    BlobMissing,
    BlobStat,
    BlobStoreUnavailable,
    Data,
    ForeignBlobStore,
    StoredBlob,
    folder_of,
    key_of,
    name_of,
    parse_ref,
)
from perdure.errors import StoreUnavailable

Result = TypeVar("Result")

OWNER = "owner"
"""The object that names the database the store belongs to."""
PIECE = 4 * 1024 * 1024
"""How much of a file is in memory at a time."""
_KEPT, _DISCARDED, _NAMED = "kept", "discarded", "named"
_PAGE = 500


class Found(msgspec.Struct, frozen=True):
    """One object as it is listed."""

    name: str
    size: int
    modified_at: float


class Objects(Protocol):
    """A store of bytes by name. It raises only BlobStoreUnavailable; an object that does not exist is None."""

    async def write(self, name: str, data: Data) -> None:
        """Write all of the object or nothing, whatever was there before; it is durable on return."""
        ...

    async def write_file(self, name: str, path: Path, digest: str) -> bool:
        """As `write`, with the content of a file, piece by piece. False, and nothing is written, if that is not what the digest
        says."""
        ...

    async def create(self, name: str, data: Data) -> bool:
        """Write an object unless there is one of that name: then nothing happens, and False is returned."""
        ...

    async def read(self, name: str, first: int = 0, count: int | None = None) -> bytes | None: ...

    async def look(self, name: str) -> BlobStat | None: ...

    async def find(self, folder: str, after: str, limit: int) -> list[Found]:
        """Objects in the folder and below it whose name is above `after`, by name."""
        ...

    async def move(self, name: str, to: str) -> bool:
        """Rename an object; False if there is none. `to` exists before `name` ceases to, and counts as modified now."""
        ...

    async def remove(self, name: str) -> None: ...

    async def tidy(self, before: float) -> int: ...

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        """Call a function that takes long for large content, where it does not hold up the event loop."""
        ...

    async def close(self) -> None: ...


class ObjectBlobs:
    def __init__(
        self, objects: Objects, number: Callable[[], str], owner: Callable[[], Awaitable[str]] | None = None
    ) -> None:
        """`number` gives a new number at each call, also across processes. With `owner`, content is put only into a
        store that is this owner's: two owners that share one would collect each other's blobs."""
        self._objects = objects
        self._number = number
        self._owner = owner

    async def put(self, tenant: str, data: Data) -> str:
        if self._owner is not None:
            await self._check_owner(self._owner)
        digest = await self._objects.run(_hash, data)
        ref = f"{SCHEME}sha256:{digest}"
        await self._objects.write(_name(tenant, key_of(tenant, ref)), data)
        return ref

    async def put_file(self, tenant: str, path: Path) -> str:
        if self._owner is not None:
            await self._check_owner(self._owner)
        digest = await self._objects.run(_hash_file, path)
        ref = f"{SCHEME}sha256:{digest}"
        if not await self._objects.write_file(_name(tenant, key_of(tenant, ref)), path, digest):
            raise BlobDamaged(f"{path.name} changed while it was stored; store it when nothing writes to it any more")
        return ref

    async def get(self, tenant: str, ref: str) -> bytes:
        digest, _ = parse_ref(ref)
        data = await self._read(tenant, ref)
        if await self._objects.run(_hash, data) != digest:
            raise BlobDamaged(
                f"blob {ref} is damaged: {len(data)} bytes of another content are kept under its name; "
                "put the right content again, or repair the store from a backup"
            )
        return data

    async def part(self, tenant: str, ref: str, first: int, count: int) -> bytes:
        return await self._read(tenant, ref, first, count)

    async def _read(self, tenant: str, ref: str, first: int = 0, count: int | None = None) -> bytes:
        name = _name(tenant, key_of(tenant, ref))
        data = await self._objects.read(name, first, count)
        if data is None and (discarded := await self._find_discarded(tenant, ref)) is not None:
            data = await self._objects.read(discarded.name, first, count)
        if data is None:
            data = await self._objects.read(name, first, count)  # restored meanwhile
        if data is None:
            raise _missing(ref)
        return data

    async def stat(self, tenant: str, ref: str) -> BlobStat:
        name = _name(tenant, key_of(tenant, ref))
        found = await self._objects.look(name)
        if found is None and (discarded := await self._find_discarded(tenant, ref)) is not None:
            found = BlobStat(discarded.size, discarded.modified_at)
        if found is None:
            found = await self._objects.look(name)
        if found is None:
            raise _missing(ref)
        return found

    async def _find_discarded(self, tenant: str, ref: str) -> Found | None:
        copies = await self._copies(tenant, key_of(tenant, ref))
        return copies[-1] if copies else None

    async def _copies(self, tenant: str, key: str) -> list[Found]:
        """The copies discarded under this key, oldest first."""
        folder = f"{folder_of(tenant)}/{_DISCARDED}"
        found = await self._objects.find(folder, f"{folder}/{key}", 100)
        return [one for one in found if one.name.startswith(f"{folder}/{key}-")]

    # -- what nothing names --------------------------------------------------------------------------------------------

    async def list_blobs(self, tenant: str, *, after: str = "", limit: int = 1000) -> list[StoredBlob]:
        folder = f"{folder_of(tenant)}/{_KEPT}"
        return [_stored(one) for one in await self._objects.find(folder, _name(tenant, after) if after else "", limit)]

    async def discard(self, tenant: str, key: str) -> None:
        to = f"{folder_of(tenant)}/{_DISCARDED}/{key}-{self._number()}"
        await self._objects.move(_name(tenant, key), to)

    async def list_discarded(self, tenant: str, *, after: str = "", limit: int = 1000) -> list[StoredBlob]:
        folder = f"{folder_of(tenant)}/{_DISCARDED}"
        # A tilde sorts behind the hyphen, so all copies of the last key are passed over.
        return [_stored(one) for one in await self._objects.find(folder, f"{folder}/{after}~" if after else "", limit)]

    async def restore(self, tenant: str, key: str) -> None:
        for copy in await self._copies(tenant, key):
            await self._objects.move(copy.name, _name(tenant, key))

    async def delete_discarded(self, tenant: str, key: str, before: float) -> None:
        for copy in await self._copies(tenant, key):
            if copy.modified_at < before:
                await self._objects.remove(copy.name)

    async def remember(self, tenant: str, name: str, data: Data) -> None:
        await self._objects.write(f"{_NAMED}/{name_of(tenant, name)}", data)

    async def recall(self, tenant: str, name: str) -> tuple[bytes, float] | None:
        where = f"{_NAMED}/{name_of(tenant, name)}"
        about = await self._objects.look(where)
        data = None if about is None else await self._objects.read(where)
        return None if about is None or data is None else (data, about.modified_at)

    async def forget(self, before: float, limit: int = 1000) -> int:
        after, done = "", 0
        while done < limit:
            page = await self._objects.find(_NAMED, after, _PAGE)
            for found in page:
                if found.modified_at < before and done < limit:
                    await self._objects.remove(found.name)
                    done += 1
            if len(page) < _PAGE:
                break
            after = page[-1].name
        return done

    async def tidy(self, before: float) -> int:
        return await self._objects.tidy(before)

    # -- the store itself ----------------------------------------------------------------------------------------------

    async def claim(self, owner: str) -> str:
        found = await self._objects.read(OWNER)
        if found is None:
            if await self._objects.create(OWNER, owner.encode()):
                return owner
            found = await self._objects.read(OWNER)
        return owner if found is None else found.decode(errors="replace")

    async def _check_owner(self, owner: Callable[[], Awaitable[str]]) -> None:
        try:
            wanted = await owner()
        except BlobStoreUnavailable:
            raise
        except StoreUnavailable as error:
            raise BlobStoreUnavailable(f"cannot find out which database the blob store belongs to: {error}") from error
        found = await self.claim(wanted)
        if found != wanted:
            raise ForeignBlobStore(
                f"the blob store belongs to another database ({found}, this one is {wanted}); give each database a folder or "
                "prefix of its own with PERDURE_BLOB_URL"
            )
        self._owner = None  # it stays so: check once

    async def close(self) -> None:
        await self._objects.close()


def _name(tenant: str, key: str) -> str:
    return f"{folder_of(tenant)}/{_KEPT}/{key[:2]}/{key}"


def _stored(found: Found) -> StoredBlob:
    key = found.name.rpartition("/")[2].partition("-")[0]
    return StoredBlob(key, found.size, found.modified_at)


def _hash_file(path: Path) -> str:
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Pieces:
    """The content of a file, piece by piece, and whether it was what a digest says."""

    def __init__(self, path: Path, digest: str) -> None:
        self._path = path
        self._digest = digest
        self.has_changed = False

    def __iter__(self) -> Iterator[bytes]:
        """Raises FileChanged at the end, so that what writes the pieces does not finish."""
        seen = hashlib.sha256()
        with self._path.open("rb", buffering=0) as file:
            while piece := file.read(PIECE):
                seen.update(piece)
                yield piece
        if seen.hexdigest() != self._digest:
            self.has_changed = True
            raise FileChanged


class FileChanged(Exception):
    """A file is not what it was when its digest was made."""


def _hash(data: Data) -> str:
    return hashlib.sha256(data).hexdigest()


def _missing(ref: str) -> BlobMissing:
    return BlobMissing(f"there is no blob {ref}; it was never put here, or it was deleted")
