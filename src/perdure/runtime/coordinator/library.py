"""The library: definitions by the hash of their content, for all runs of a process.

Owns how an IR is kept and found again: in the journal, or as a blob if it is large. Knows no run.
"""

from __future__ import annotations

import asyncio

from perdure.archive.aliases import LATEST, choose_version
from perdure.blobs import INLINE_BYTES, BlobDamaged, BlobMissing, BlobStore, BlobStoreUnavailable
from perdure.clock import Clock
from perdure.errors import PerdureError
from perdure.expressions.errors import NotAtHand
from perdure.journal import Journal
from perdure.model import ir as irs
from perdure.model.ir import IR

MOST_BYTES = 32 * 1024 * 1024
"""How much the IRs kept in memory take as they are stored, some times as much in memory; beyond that, the one added first
is dropped."""

DEFINITIONS = "perdure:definitions"
"""The tenant that owns the blobs of definitions. As in the journal, a definition is named by its hash and open to all
who know it."""
_AS_BLOB = ":blob"
_IDENTITY = "perdure:database"


class NeedsDefinition(NotAtHand):
    """A run's IR is kept as a blob and must be fetched first."""

    code = "needs_definition"

    def __init__(self, name: str) -> None:
        super().__init__(f"definition:{name}", f"definition {name} is kept as a blob and must be fetched first")
        self.name = name


class Library:
    """IRs by hash, shared by all runs of a process. Large ones are kept as blobs."""

    def __init__(self, journal: Journal, blobs: BlobStore | None = None) -> None:
        self._journal = journal
        self._blobs = blobs
        self._irs: dict[str, IR] = {}
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self._reading: dict[str, asyncio.Lock] = {}
        self._lost: dict[str, PerdureError] = {}
        """Definitions that were fetched in vain, with the error. It is raised once: the blob may be put again."""

    def add(self, ir: IR, size: int) -> None:
        """Keep an IR, which is stored as so many bytes."""
        if ir.hash in self._irs:
            return
        self._irs[ir.hash] = ir
        self._sizes[ir.hash] = size
        self._bytes += size
        while self._bytes > MOST_BYTES and len(self._irs) > 1:  # runs in memory keep their own reference
            first = next(iter(self._irs))
            del self._irs[first]
            self._bytes -= self._sizes.pop(first)

    async def get(self, name: str) -> IR:
        found = self._irs.get(name)
        if found is None:
            try:
                async with self._reading.setdefault(
                    name, asyncio.Lock()
                ):  # many runs of a new workflow may begin at once
                    found = self._irs.get(name) or self._keep(name, await self.read(name))
            finally:
                self._reading.pop(name, None)
        return found

    async def find_workflow(self, tenant: str, name: str, version: int | None) -> IR | None:
        """The IR registered under a name, in this version or, if None, the highest."""
        found = await self._journal.find_workflow(name, version, tenant=tenant)
        return None if found is None else await self.get(found.ir_hash)

    async def find_target(self, tenant: str, workflow: str) -> tuple[int, IR] | None:
        """The version and IR that a reference means: `name`, the highest, `name@3` or `name@alias`. Where an alias gives several versions a
        share, it is always the same one of them."""
        name, _, which = workflow.partition("@")
        version = int(which[:10]) if which.isascii() and which.isdecimal() else None
        if which and which != LATEST and version is None:
            archive = self._journal.archive
            alias = None if archive is None else await archive.find_alias(tenant, name, which)
            if alias is None:
                return None
            version = choose_version(alias, workflow)
        found = await self._journal.find_workflow(name, version, tenant=tenant)
        return None if found is None else (found.version, await self.get(found.ir_hash))

    async def get_now(self, name: str) -> IR:
        """`get` for a coordinator, which waits for no blob: raises NeedsDefinition instead."""
        found = self._irs.get(name)
        if found is None:
            if name in self._lost:
                raise self._lost.pop(name)
            stored = await self._journal.get_definition(name)
            if stored.kind.endswith(_AS_BLOB):
                raise NeedsDefinition(name)
            found = self._keep(name, stored.body)
        return found

    def _keep(self, name: str, body: bytes) -> IR:
        """Decode an IR, unless another reader has done so meanwhile: all runs share one."""
        found = self._irs.get(name)
        if found is None:
            found = irs.decode(body)
            self.add(found, len(body))
        return found

    async def fetch(self, name: str) -> None:
        """Load a definition so that `get_now` returns it, or raises why it cannot be had. Raises StoreUnavailable."""
        try:
            await self.get(name)
        except (BlobMissing, BlobDamaged) as error:
            self._lost[name] = error

    async def put(self, name: str, kind: str, body: bytes) -> None:
        """Store a definition under its name, before anything refers to it."""
        if len(body) > INLINE_BYTES and self._blobs is not None:
            kind, body = f"{kind}{_AS_BLOB}", (await self._blobs.put(DEFINITIONS, body)).encode()
        await self._journal.put_definition(name, kind, body)

    async def has_blob(self, tenant: str, ref: str) -> bool:
        """Whether the blob store has this blob. Raises StoreUnavailable when the store does not answer."""
        if self._blobs is None:
            return False
        try:
            await self._blobs.stat(tenant, ref)
        except BlobMissing:
            return False
        return True

    async def read(self, name: str) -> bytes:
        found = await self._journal.get_definition(name)
        if not found.kind.endswith(_AS_BLOB):
            return found.body
        if self._blobs is None:
            raise BlobStoreUnavailable(f"definition {name} is kept as a blob, and there is no blob store here")
        return await self._blobs.get(DEFINITIONS, found.body.decode())


async def database_identity(journal: Journal, clock: Clock) -> str:
    """The identity that distinguishes this database from any other, made when it is first asked for."""
    await journal.put_definition(_IDENTITY, "identity", clock.new_id().encode())
    return (await journal.get_definition(_IDENTITY)).body.decode()
