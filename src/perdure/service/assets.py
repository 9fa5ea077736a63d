"""Assets that outlive their run, in versions: promoted from what a node gave, or uploaded in parts. It must not know HTTP, nor where
bytes are kept.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.archive.kept_rows import AssetRow
from perdure.assets import (
    ANY_TYPE,
    LARGEST_PREVIEW,
    Preview,
    StoredAsset,
    find_asset,
    find_file_trouble,
    is_media_type,
    value_of,
)
from perdure.blobs import BlobMissing, InvalidBlobRef, full_ref
from perdure.errors import NotFound, Refused
from perdure.kernel.segments import BlobRef
from perdure.service.errors import Invalid, Trouble
from perdure.service.pages import listing
from perdure.service.runs.node_values import Which, get_output
from perdure.service.views import View
from perdure.threads import aside

if TYPE_CHECKING:
    from perdure.service.tenancy import Tenancy

MOST_PARTS = 10_000
LARGEST_PART = 32 * 1024 * 1024
_PREVIEW = msgspec.json.Decoder(Preview | None)


class Assets:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy
        self._tenant = tenancy.tenant
        self._blobs = tenancy.engine.contents.blobs

    @listing
    async def list(self, *, name: str = "", limit: int = 100, cursor: str | None = None) -> View:
        """The versions of one name, or of all, by name and version."""
        page = await self._tenancy.archive.list_assets(self._tenant, name, limit=limit, cursor=cursor)
        return {"items": [_describe(row) for row in page.items], "next_cursor": page.next_cursor}

    async def get(self, name: str, *, version: int | None = None) -> View:
        """A version; without one the newest."""
        return _describe(await self._get(name, version))

    async def promote(
        self,
        run_id: str,
        node: str,
        *,
        name: str = "",
        pointer: str = "",
        visit: int | None = None,
        item: int | None = None,
    ) -> View:
        """Keep an asset that a node gave as the next version of a name, by default of its own: it outlives the run. Of several that
        the node gave, `pointer` says which."""
        record, state = await self._tenancy.load(run_id)
        output = get_output(state, Which(node=node, visit=visit, item=item))
        tenant = record.row.tenant
        if isinstance(output, BlobRef) or pointer:
            output = await self._tenancy.engine.contents.resolve(tenant, output, budget=self._tenancy.budget)
        stored = await aside(tenant, _choose, output, node, pointer)
        stored = stored if not name else msgspec.structs.replace(stored, name=stored.name or name)
        return await self._keep(name or stored.name, stored, tenant, run_id=run_id, node=node)

    async def put(self, name: str, parts: Sequence[str], *, media_type: str = "", file_name: str = "") -> View:
        """Keep content that was put as blobs, part by part, as the next version of a name."""
        self._check_name(name)
        media_type, file_name = media_type or ANY_TYPE, file_name or name
        if not is_media_type(media_type):
            raise _invalid("media_type", "it is no media type, such as image/png")
        if (trouble := find_file_trouble(file_name)) is not None:
            raise _invalid("file_name", trouble)
        if not 1 <= len(parts) <= MOST_PARTS:
            raise _invalid("parts", f"expected 1 to {MOST_PARTS:,} blobs")
        most = self._tenancy.engine.settings.asset_max_bytes
        sizes = [await self._measure(ref) for ref in parts]
        if sum(sizes) > most:
            raise Refused(
                f"the asset has {sum(sizes):,} bytes, and {most:,} are allowed (PERDURE_ASSET_MAX_BYTES)",
                code="asset_too_large",
            )
        await self._check_room(self._tenant, sum(sizes))
        with tempfile.NamedTemporaryFile(prefix="perdure-") as file:
            for ref in parts:
                await aside(self._tenant, file.write, await self._blobs.get(self._tenant, full_ref(ref)))
            await aside(self._tenant, file.flush)
            kept = await self._blobs.put_file(self._tenant, Path(file.name))
        return await self._keep(name, StoredAsset(kept, media_type, file_name, sum(sizes)), self._tenant)

    async def part(self, name: str, *, version: int | None = None, first: int = 0, count: int = 1024 * 1024) -> bytes:
        """Read `count` bytes of the content from `first` on, which are not checked against its hash."""
        row = await self._get(name, version)
        try:
            return await self._blobs.part(self._tenant, row.ref, first, min(count, LARGEST_PART))
        except BlobMissing as error:
            raise NotFound(f"the content of asset {name} is gone: {error.message}") from None

    async def delete(self, name: str, version: int) -> View:
        """Delete a version. Its number is not given again; `perdure gc` takes its content, unless something else names that."""
        row = None
        if self._tenancy.is_sane(name):
            now = self._tenancy.engine.clock.now()
            row = await self._tenancy.archive.delete_asset(self._tenant, name, version, now)
        if row is None:
            raise _missing(name, version)
        return _describe(row)

    async def _get(self, name: str, version: int | None) -> AssetRow:
        sane = self._tenancy.is_sane(name)
        row = await self._tenancy.archive.find_asset(self._tenant, name, version) if sane else None
        if row is None:
            raise _missing(name, version)
        return row

    async def _measure(self, ref: str) -> int:
        try:
            size = (await self._blobs.stat(self._tenant, full_ref(ref))).size
        except (BlobMissing, InvalidBlobRef):
            raise _invalid("parts", f"there is no blob {ref[:100]}; put it first") from None
        if size > LARGEST_PART:
            raise _invalid("parts", f"a part has {size:,} bytes, and {LARGEST_PART:,} are allowed")
        return size

    async def _check_room(self, tenant: str, size: int) -> None:
        """Refuse what is more than a tenant may keep. Two at once may both pass, and be too much by one of them."""
        most = self._tenancy.engine.settings.tenant_asset_bytes
        kept = await self._tenancy.archive.measure_assets(tenant)
        if kept + size > most:
            message = f"assets of {kept:,} bytes are kept, {size:,} more would be over {most:,} (PERDURE_TENANT_ASSET_BYTES); delete some"
            raise Refused(message, code="too_many_assets")

    async def _measured(self, tenant: str, stored: StoredAsset) -> StoredAsset:
        """The asset as its content is: the value of a node may say anything of it (S20). Raises where the content is gone."""
        preview = stored.preview
        if preview is not None:
            size = (await self._blobs.stat(tenant, preview.ref)).size
            # It counts for nothing: what is no preview would be kept for nothing, too.
            preview = msgspec.structs.replace(preview, size=size) if size <= LARGEST_PREVIEW else None
        size = (await self._blobs.stat(tenant, stored.ref)).size
        return msgspec.structs.replace(stored, size=size, preview=preview)

    async def _keep(self, name: str, stored: StoredAsset, tenant: str, *, run_id: str = "", node: str = "") -> View:
        self._check_name(name)
        stored = await self._measured(tenant, stored)
        await self._check_room(tenant, stored.size)
        row = AssetRow(
            tenant=tenant,
            name=name,
            ref=stored.ref,
            media_type=stored.media_type,
            file_name=stored.name,
            size=stored.size,
            preview="" if stored.preview is None else msgspec.json.encode(stored.preview).decode(),
            run_id=run_id,
            node=node,
            kept_by=self._tenancy.by,
            kept_at=self._tenancy.engine.clock.now(),
        )
        version = await self._tenancy.archive.keep_asset(row)
        return _describe(msgspec.structs.replace(row, version=version))

    @staticmethod
    def _check_name(name: str) -> None:
        trouble = find_file_trouble(name) if name else "the asset has no name of its own; give it one"
        if trouble is not None:
            raise _invalid("name", trouble)


def _choose(output: Any, node: str, pointer: str) -> StoredAsset:
    """The asset that is meant. Raises Invalid."""
    found: dict[str, StoredAsset] = {}
    pending: list[tuple[str, Any]] = [("", output)]
    while pending and len(found) < MOST_PARTS:
        path, value = pending.pop()
        if type(value) is dict:
            if (stored := find_asset(value)) is not None:
                found[path] = stored
                continue
            pending += [(f"{path}/{key.replace('~', '~0').replace('/', '~1')}", one) for key, one in value.items()]
        elif type(value) is list:
            pending += [(f"{path}/{number}", one) for number, one in enumerate(value)]
    if pointer in found:
        return found[pointer]
    if not pointer and len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise _invalid("node", f"node {node} gave no asset")
    known = ", ".join(sorted(found)[:5])
    raise _invalid("pointer", f"node {node} gave {len(found)} assets; name one: {known}{', …' * (len(found) > 5)}")


def _describe(row: AssetRow) -> View:
    preview = _PREVIEW.decode(row.preview) if row.preview else None
    stored = StoredAsset(row.ref, row.media_type, row.file_name, row.size, preview)
    return {
        "name": row.name,
        "version": row.version,
        "media_type": row.media_type,
        "file_name": row.file_name,
        "size": row.size,
        "run_id": row.run_id or None,
        "node": row.node or None,
        "kept_by": row.kept_by,
        "kept_at": row.kept_at,
        "asset": value_of(stored),
    }


def _missing(name: str, version: int | None) -> NotFound:
    return NotFound(f"there is no asset {name[:200]}{'' if version is None else f', version {version}'}")


def _invalid(field: str, message: str) -> Invalid:
    return Invalid(message, [Trouble(field, "wrong_value", message)])
