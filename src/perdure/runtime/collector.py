"""The collector: deletes blobs that no journal names any more.

A collection has two steps. *Mark* finds everything the journals name, in events, snapshots, definitions, commands and
notices, and what was promoted; a text that looks like a reference counts as one. *Sweep* discards a blob that is unnamed and older than the
grace period, which leaves it readable; deletes one that was discarded a grace period ago and is still unnamed; and
restores one that was discarded and is named after all. Nothing is deleted that two marks, a grace period apart, have
not both found unnamed.

So a run may name an old blob at any moment of a collection: if the mark came too early to see it, the blob is at worst
discarded, can still be read, and the next collection restores it. The assumption: a process that puts a blob, or reads
a reference in a journal, writes the event that names it before a grace period has passed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import AsyncIterator

import msgspec

from perdure.archive import Archive
from perdure.blobs import (
    SCHEME,
    WITH_REFS,
    BlobMissing,
    BlobStore,
    ForeignBlobStore,
    StoredBlob,
    key_of,
)
from perdure.clock import Clock
from perdure.errors import NotFound
from perdure.journal import Journal
from perdure.runtime.coordinator.library import DEFINITIONS, Library, database_identity

GRACE_SECONDS = 24 * 3600.0
_PAGE = 500
_REF = re.compile(rb"sha256:([0-9a-f]{64})(\+refs)?")
_EVERYONE = ""
"""The tenant that blobs named in commands and notices are counted under. They count for every tenant: they are few, and
their tenant is not looked up."""


class Named(msgspec.Struct):
    """The hashes of the blobs that the journals name, by tenant."""

    tenants: dict[str, set[str]]
    runs: int = 0
    missing: list[str] = []
    """References to blobs that are not in the store."""

    def keys(self, tenant: str) -> set[str]:
        digests = self.tenants.get(tenant, set()) | self.tenants.get(_EVERYONE, set())
        return {key_of(tenant, f"sha256:{digest}") for digest in digests}


class Collected(msgspec.Struct, kw_only=True):
    runs: int = 0
    kept: int = 0
    discarded: int = 0
    discarded_bytes: int = 0
    restored: int = 0
    deleted: int = 0
    deleted_bytes: int = 0
    unfinished: int = 0
    missing: list[str] = []


class Collector:
    def __init__(
        self,
        journal: Journal,
        archive: Archive,
        blobs: BlobStore,
        library: Library,
        clock: Clock,
        *,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._journal = journal
        self._archive = archive
        self._blobs = blobs
        self._library = library
        self._clock = clock
        self._grace = grace_seconds
        self._definitions: dict[str, set[tuple[str, bool]]] = {}

    async def collect(self, *, dry_run: bool = False) -> Collected:
        return await self.sweep(await self.mark(), dry_run=dry_run)

    # -- mark ----------------------------------------------------------------------------------------------------------

    async def mark(self) -> Named:
        named = Named(defaultdict(set))
        cursor = None
        while True:
            page = await self._journal.list_runs(limit=_PAGE, cursor=cursor)
            for record in page.items:
                named.runs += 1
                await self._mark_run(named, record.row.tenant, record.run_id)
            cursor = page.next_cursor
            if cursor is None:
                break
        for tenant in {"default", *named.tenants}:
            async for name in self._workflows(tenant):
                await self._mark_definition(named, tenant, name)
        await self._mark_assets(named)
        await self._mark_entries(named)
        after = 0
        while commands := await self._journal.read_commands(after=after):
            for command in commands:
                await self._mark_text(named, _EVERYONE, command.body)
            after = commands[-1].position
        after = 0
        while notices := await self._journal.read_notices(after=after):
            for notice in notices:
                await self._mark_text(named, _EVERYONE, notice.body)
            after = notices[-1].notice_id
        return named

    async def _mark_assets(self, named: Named) -> None:
        """What was promoted or uploaded outlives every run. It is looked at after the runs: one that is promoted meanwhile is named by
        its run, or here."""
        cursor = None
        while True:
            page = await self._archive.list_all_assets(limit=_PAGE, cursor=cursor)
            for asset in page.items:
                await self._mark_text(named, asset.tenant, f"{asset.ref} {asset.preview}".encode())
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _mark_entries(self, named: Named) -> None:
        """What agents left outlives their runs."""
        cursor = None
        while True:
            page = await self._archive.list_all_entries(limit=_PAGE, cursor=cursor)
            for entry in page.items:
                await self._mark_text(named, entry.tenant, entry.body)
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _mark_run(self, named: Named, tenant: str, run_id: str) -> None:
        named.tenants.setdefault(tenant, set())
        after = 0
        while stored := await self._journal.read_events(run_id, after, _PAGE):
            for event in stored:
                await self._mark_text(named, tenant, event.body)
            after = stored[-1].seq
        snapshot = await self._journal.find_snapshot(run_id)
        if snapshot is not None:
            await self._mark_text(named, tenant, snapshot.body)

    async def _workflows(self, tenant: str) -> AsyncIterator[str]:
        cursor = None
        while True:
            page = await self._journal.list_workflows(tenant=tenant, cursor=cursor)
            for workflow in page.items:
                inner = None
                while True:
                    versions = await self._journal.list_workflow_versions(workflow.name, tenant=tenant, cursor=inner)
                    for version in versions.items:
                        yield version.ir_hash
                    inner = versions.next_cursor
                    if inner is None:
                        break
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _mark_text(self, named: Named, tenant: str, text: bytes) -> None:
        for digest, refs in _REF.findall(text):
            await self._mark_ref(named, tenant, digest.decode(), bool(refs))

    async def _mark_ref(self, named: Named, tenant: str, digest: str, refs: bool) -> None:
        known = named.tenants[tenant]
        if digest in known:
            return
        known.add(digest)
        await self._mark_definition(named, tenant, f"sha256:{digest}")
        if refs:  # what the blob names is named too
            ref = f"{SCHEME}sha256:{digest}{WITH_REFS}"
            for owner in [tenant] if tenant != _EVERYONE else [name for name in named.tenants if name != _EVERYONE]:
                try:
                    await self._mark_text(named, tenant, await self._blobs.get(owner, ref))
                except BlobMissing:
                    named.missing.append(ref)

    async def _mark_definition(self, named: Named, tenant: str, name: str) -> None:
        """Mark a definition, if `name` is the hash of an IR: the blob it is kept in, and what it names."""
        if name not in self._definitions:
            found = self._definitions[name] = set()
            for one in (name, f"definition:{name}"):
                try:
                    stored = await self._journal.get_definition(one)
                except NotFound:
                    continue
                if stored.kind.endswith(":blob"):
                    named.tenants[DEFINITIONS].add(_REF.findall(stored.body)[0][0].decode())
                body = await self._library.read(one)
                found |= {(digest.decode(), bool(refs)) for digest, refs in _REF.findall(body)}
        for digest, refs in self._definitions[name]:
            await self._mark_ref(named, tenant, digest, refs)

    # -- sweep ---------------------------------------------------------------------------------------------------------

    async def sweep(self, named: Named, *, dry_run: bool = False) -> Collected:
        done = Collected(runs=named.runs, missing=named.missing)
        before = self._clock.now() - self._grace
        checked = False
        for tenant in sorted({"default", DEFINITIONS, *named.tenants} - {_EVERYONE}):
            keys = named.keys(tenant)
            async for blob in self._list(tenant, discarded=True):
                checked = checked or await self._check_owner()
                await self._look_at_discarded(done, tenant, blob, blob.key in keys, before, dry_run)
            async for blob in self._list(tenant, discarded=False):
                checked = checked or await self._check_owner()
                if blob.key in keys or blob.modified_at >= before:
                    done.kept += 1
                    continue
                done.discarded += 1
                done.discarded_bytes += blob.size
                if not dry_run:
                    # Crash here, or a run that names the blob now: the blob can be read, and is restored if named.
                    await self._blobs.discard(tenant, blob.key)
        if not dry_run:
            done.unfinished = await self._blobs.tidy(before)
        return done

    async def _look_at_discarded(
        self, done: Collected, tenant: str, blob: StoredBlob, is_named: bool, before: float, dry_run: bool
    ) -> None:
        if is_named:
            done.restored += 1
            if not dry_run:
                await self._blobs.restore(tenant, blob.key)
        elif blob.modified_at < before:
            done.deleted += 1
            done.deleted_bytes += blob.size
            if not dry_run:
                await self._blobs.delete_discarded(tenant, blob.key, before)

    async def _list(self, tenant: str, *, discarded: bool) -> AsyncIterator[StoredBlob]:
        lists = self._blobs.list_discarded if discarded else self._blobs.list_blobs
        after = ""
        while page := await lists(tenant, after=after, limit=_PAGE):
            for blob in page:
                yield blob
            after = page[-1].key
            if len(page) < _PAGE:
                return

    async def _check_owner(self) -> bool:
        """Check that the blob store belongs to this database: the blobs of another would all look unnamed from here."""
        mine = await database_identity(self._journal, self._clock)
        found = await self._blobs.claim(mine)
        if found != mine:
            raise ForeignBlobStore(
                f"the blob store belongs to another database ({found}, this one is {mine}); nothing was collected. Name the "
                "database that it belongs to with --db, or the store of this one with PERDURE_BLOB_URL"
            )
        return True
