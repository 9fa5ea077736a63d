"""How values leave a worker: the one way of outputs and checkpoints from a handler to a result.

This file owns the order of what happens to a value: it is made into JSON and checked, then (where that is asked for)
scrubbed and sealed, and last, if it is large, stored as a blob. It is stored before it is reported, so that no reported
reference names a blob that was not written.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from perdure.assets import Asset, NotStored, Preview, StoredAsset, find_unstored
from perdure.blobs import INLINE_BYTES, WITH_REFS, BlobDamaged, BlobStore, BlobStoreUnavailable
from perdure.clock import Clock
from perdure.kernel import segments
from perdure.kernel.segments import SEALED
from perdure.outcomes import Failure
from perdure.pieces import contains
from perdure.runtime.worker.asset_previews import make_preview
from perdure.runtime.worker.encoder import LIGHT_BYTES, is_light
from perdure.runtime.worker.outputs import Encoded, encode_output
from perdure.runtime.worker.spooled_content import spooled
from perdure.secrets.scrubber import CannotClean, Scrubber
from perdure.secrets.vault import Vault
from perdure.settings import DEFAULTS
from perdure.threads import aside
from perdure.transport import Result, Task
from perdure.weight import WHY, is_heavy

STORE_SECONDS = 60.0
"""How long the blob store may be away before work that is done counts as failed, to be done again."""

_log = logging.getLogger(__name__)
_decode = msgspec.json.Decoder().decode


class Left(msgspec.Struct, frozen=True, gc=False):
    """A value as a result carries it: inline, or as a reference to a blob."""

    value: Any
    ref: str | None
    size: int


_NOTHING = Left(None, None, 4)
_MARK = msgspec.json.encode(SEALED)


class Protected(Encoded, frozen=True, gc=False):
    """JSON that was scrubbed and sealed."""

    refs: bool = False
    """Whether it names blobs, and is packed."""


def is_quick(value: Any) -> bool:
    """Whether it takes no time to make a result of the value."""
    return len(value.data) <= LIGHT_BYTES if isinstance(value, Encoded) else is_light(value)


class Leaving:
    def __init__(
        self,
        blobs: BlobStore | None,
        clock: Clock,
        vault: Vault | None = None,
        asset_max_bytes: int = DEFAULTS.asset_max_bytes,
    ) -> None:
        """Without a blob store every value stays in its result, however large."""
        self.asset_max_bytes = asset_max_bytes
        self._blobs = blobs
        self._clock = clock
        self._vault = vault

    def send_small(self, task: Task, value: Any, what: str = "output", most: int = INLINE_BYTES) -> Left | Encoded:
        """The value if it is small, of `most` bytes; otherwise its JSON, for `send`. Raises Failure. To be called
        beside the loop unless the value `is_quick`."""
        if value is None:
            return _NOTHING
        data = self._protect(task, value.data if type(value) is Encoded else encode_output(value, what), what)
        if len(data) <= most or self._blobs is None:
            return Left(_decode(data), None, len(data))
        return Protected(*segments.encode_again(data))

    def clean(self, result: Result) -> Result:
        """The result with every secret that was revealed in this process taken out of its texts, details and choice. (The
        name of a step is refused instead, `outputs.check_step`: two names that are masked would be the same.)"""
        if (
            self._vault is None
            or not self._vault.scrubber
            or not (result.code or result.message or result.details or result.reasoning or result.choice)
        ):
            return result
        scrubber = self._vault.scrubber
        return msgspec.structs.replace(
            result,
            code=scrubber.text(result.code),
            message=scrubber.text(result.message),
            details=scrubber.value(result.details),
            reasoning=scrubber.text(result.reasoning),
            choice=result.choice and tuple(map(scrubber.text, result.choice)),
        )

    @property
    def scrubber(self) -> Scrubber | None:
        return None if self._vault is None else self._vault.scrubber

    def clean_text(self, text: str) -> str:
        return text if self._vault is None or not self._vault.scrubber else self._vault.scrubber.text(text)

    def clean_json(self, said: str) -> str | None:
        """Short JSON without secrets; None if they cannot be taken out of it."""
        if self._vault is None or not self._vault.scrubber:
            return said
        try:
            return bytes(self._vault.scrubber.json(said.encode())).decode()
        except CannotClean:
            return None

    def _protect(self, task: Task, data: bytes | bytearray, what: str) -> bytes | bytearray:
        """The JSON of a value, scrubbed and sealed. Raises Failure for a value that pretends to be sealed already."""
        if contains(data, _MARK):
            message = f"the {what} has a key {SEALED!r}, which is Perdure's own; give the field another name"
            raise Failure("bad_output", message, retryable=False)
        if self._vault is None:
            return data
        if self._vault.scrubber:
            try:
                data = self._vault.scrubber.json(data)
            except CannotClean as error:
                raise Failure("bad_output", f"the {what}: {error}", retryable=False) from None
        if task.sensitive and what != "asks":
            if is_heavy(data):
                raise Failure("bad_output", f"the {what} has sensitive fields, and {WHY}", retryable=False)
            sealer = self._vault.sealer(task.tenant, task.sealed_for or task.run_id)
            node, paths = (task.node, task.sensitive) if what == "output" else (f"{task.node}#{what}", ("*",))
            data = msgspec.json.encode(sealer.seal(_decode(data), node, paths))
        return data

    def protect_chunk(self, task: Task, value: Any) -> bytes:
        """A chunk of a stream as JSON, scrubbed. Raises Failure. To be called beside the loop unless the value is light."""
        return bytes(self._protect(task, encode_output(value, "chunk"), "chunk"))

    async def store(self, task: Task, data: bytes) -> str:
        """A reference to the data, once it is stored. Raises Failure."""
        if self._blobs is None:
            raise Failure(
                "no_blob_store", f"{task.node} streams, and this worker has no blob store; set PERDURE_BLOB_URL"
            )
        return await self._store(self._blobs, task, data, "stream")

    async def send(self, task: Task, value: Any, what: str = "output", most: int = INLINE_BYTES) -> Left:
        """The value as the result carries it, stored as a blob if it is large. Raises Failure."""
        if type(value) is Protected:
            small: Left | Encoded = value
        else:
            try:
                if is_quick(value):
                    small = self.send_small(task, value, what, most)
                else:
                    small = await aside(task.tenant, self.send_small, task, value, what, most)
            except NotStored:
                await self.keep_assets(
                    task, await aside(task.tenant, find_unstored, partial(encode_output, value, what))
                )
                small = await aside(task.tenant, self.send_small, task, value, what, most)
        if type(small) is Left:
            return small
        assert isinstance(small, Protected)
        assert self._blobs is not None
        del value  # a large value; its JSON is enough
        ref = await self._store(self._blobs, task, small.data, what)
        return Left(None, ref + WITH_REFS if small.refs else ref, len(small.data))

    async def keep_assets(self, task: Task, found: list[Asset]) -> None:
        """Store these assets. Raises Failure."""
        for asset in found:
            if asset.stored is None:
                await self.keep_asset(task, asset)

    async def keep_asset(self, task: Task, asset: Asset) -> StoredAsset:
        """Store one. What a node seals is refused: the content would stand in the store in the open, and the value that names it would
        be sealed, so that nobody could know that the content is still needed."""
        if task.sensitive:
            message = f"{task.node} has sensitive fields, and the content of an asset is not sealed; return it from another node"
            raise Failure("bad_output", message, retryable=False)
        if self._blobs is None:
            message = f"{task.node} returns an asset, and this worker has no blob store; set PERDURE_BLOB_URL"
            raise Failure("no_blob_store", message)
        blobs, tenant = self._blobs, task.tenant
        async with spooled(asset, self.asset_max_bytes) as (data, size):
            put = partial(blobs.put_file, tenant, data) if isinstance(data, Path) else partial(blobs.put, tenant, data)
            ref = await self._insist(put, task, f"{asset!r} of {size:,} bytes")
            preview = None
            made = await make_preview(asset.media_type, data)
            if made is not None:
                at = await self._insist(partial(blobs.put, tenant, made[1]), task, "preview")
                preview = Preview(at, made[0], len(made[1]))
        asset.stored = StoredAsset(ref, asset.media_type, asset.name, size, preview)
        return asset.stored

    async def _store(self, blobs: BlobStore, task: Task, data: bytes | bytearray, what: str) -> str:
        return await self._insist(partial(blobs.put, task.tenant, data), task, f"{what} of {len(data)} bytes")

    async def _insist(self, put: Callable[[], Awaitable[str]], task: Task, what: str) -> str:
        pause, until = 0.1, self._clock.monotonic() + STORE_SECONDS
        while True:
            try:
                return await put()
            except BlobDamaged as error:
                raise Failure("bad_output", error.message, retryable=False) from error
            except BlobStoreUnavailable as error:
                if self._clock.monotonic() >= until:
                    raise Failure(error.code, f"the {what} cannot be stored: {error}") from error
                _log.warning("%s: its %s cannot be stored: %s; trying again", task.task_id, what, error)
            await self._clock.sleep(pause * (0.5 + self._clock.random() / 2))
            pause = min(pause * 2, 5.0)
