"""The library: definitions by the hash of their content, for all runs of a process.

Owns how an IR is kept and found again, in the journal or, a large one, as a blob. Knows no run.
"""

from __future__ import annotations

import asyncio

from perdure.blobs import INLINE_BYTES, BlobDamaged, BlobMissing, BlobStore, BlobStoreUnavailable
from perdure.clock import Clock
from perdure.errors import PerdureError
from perdure.expressions.errors import NotAtHand
from perdure.journal import Journal
from perdure.model import ir as irs
from perdure.model.ir import IR

MOST_IRS = 2000
"""IRs in memory; beyond that the one that was added first goes."""

DEFINITIONS = "perdure:definitions"
"""The tenant whose blobs definitions are. They are named by hash and belong to all who know it, as the journal has them."""
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
        self._reading: dict[str, asyncio.Lock] = {}
        self._lost: dict[str, PerdureError] = {}
        """What was looked for and is not there; told once, since it may be put again."""

    def add(self, ir: IR) -> None:
        self._irs.setdefault(ir.hash, ir)
        while len(self._irs) > MOST_IRS:  # runs in memory keep theirs
            del self._irs[next(iter(self._irs))]

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
        """What is registered under a name, as its highest version or that one."""
        found = await self._journal.find_workflow(name, version, tenant=tenant)
        return None if found is None else await self.get(found.ir_hash)

    async def get_now(self, name: str) -> IR:
        """The same for a coordinator, which waits for no blob: raises NeedsDefinition instead."""
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
        """One for all runs, whoever reads it first."""
        found = self._irs.get(name)
        if found is None:
            found = irs.decode(body)
            self.add(found)
        return found

    async def fetch(self, name: str) -> None:
        """See to it that `get_now` knows it, or why it cannot be had. Raises StoreUnavailable."""
        try:
            await self.get(name)
        except (BlobMissing, BlobDamaged) as error:
            self._lost[name] = error

    async def put(self, name: str, kind: str, body: bytes) -> None:
        """Keep a definition under its name, before anything refers to it."""
        if len(body) > INLINE_BYTES and self._blobs is not None:
            kind, body = f"{kind}{_AS_BLOB}", (await self._blobs.put(DEFINITIONS, body)).encode()
        await self._journal.put_definition(name, kind, body)

    async def has_blob(self, tenant: str, ref: str) -> bool:
        """Raises StoreUnavailable when nobody can say."""
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
    """What tells this database from any other, made when it is first asked for."""
    await journal.put_definition(_IDENTITY, "identity", clock.new_id().encode())
    return (await journal.get_definition(_IDENTITY)).body.decode()
