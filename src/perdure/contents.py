"""Values with their blobs, for callers that may wait: the command line, an API, a program that started a run.

Owns the way from references to content and back outside the loops. A coordinator uses its fetcher for this, a worker
the filling of its inputs.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.blobs import INLINE_BYTES, BlobStore, parse_ref
from perdure.budget import Budget
from perdure.errors import PerdureError
from perdure.kernel import segments
from perdure.kernel.readings.run_view import about_view, run_view
from perdure.kernel.readings.seen import JOURNAL, Seen
from perdure.kernel.segments import BlobRef
from perdure.kernel.state import State
from perdure.threads import aside
from perdure.weight import WHY, is_heavy

LARGE_BYTES = 256 * 1024
"""The largest value that is read on the loop; a larger one is read in a thread."""
PREVIEW_BYTES = 200
PREVIEWS = 20
"""How many large outputs of one run a view shows the beginning of."""


_SEALED = msgspec.json.encode(segments.SEALED)


class TooMuch(PerdureError):
    """A value is larger than the caller has room for."""

    code = "too_large"
    status = 413


class NoBlobStore(PerdureError):
    code = "no_blob_store"


class Contents:
    def __init__(self, blobs: BlobStore | None) -> None:
        self._blobs = blobs

    @property
    def blobs(self) -> BlobStore:
        if self._blobs is None:
            raise NoBlobStore("there is no blob store here; set PERDURE_BLOB_URL")
        return self._blobs

    @property
    def store(self) -> BlobStore | None:
        """The blob store, if there is one."""
        return self._blobs

    async def resolve(
        self, tenant: str, value: Any, *, raw: bool = False, budget: Budget | None = None, masked: bool = True
    ) -> Any:
        """The value with all its parts that are stored as blobs. With `raw` such parts are `msgspec.Raw`: JSON to be
        written out as it is, which takes a fraction of the memory. Without `masked` sealed fields stay sealed, for a
        run, which opens them itself."""
        kind = type(value)
        budget = budget or Budget()
        if kind is BlobRef:
            return await self.load(tenant, value.ref, raw=raw, budget=budget, masked=masked)
        if not segments.has_refs(value):
            return segments.mask(value) if masked and segments.has_sealed(value) else value
        if kind is dict:
            return {
                key: await self.resolve(tenant, one, raw=raw, budget=budget, masked=masked)
                for key, one in value.items()
            }
        return [await self.resolve(tenant, item, raw=raw, budget=budget, masked=masked) for item in value]

    async def load(
        self, tenant: str, ref: str, *, raw: bool = False, budget: Budget | None = None, masked: bool = True
    ) -> Any:
        """The value a reference names."""
        refs = parse_ref(ref)[1]
        budget = budget or Budget()
        size = (await self.blobs.stat(tenant, ref)).size
        if not budget.load(size):
            if not budget.partial:
                raise TooMuch(
                    "the value and all the blobs it refers to are too large to be loaded at once; fetch its parts one by one"
                )
            return {"$ref": ref, "size": size}
        data = await self.blobs.get(tenant, ref)
        if raw and not refs and _SEALED not in data:
            return msgspec.Raw(data)
        if len(data) > LARGE_BYTES:  # heavy data would hold up the loop even when it is read in a thread
            if await aside(tenant, is_heavy, data):
                if not budget.partial:
                    raise TooMuch(f"{ref}: {WHY}")
                return {"$ref": ref, "size": size}
            content = await aside(tenant, segments.decode, data, refs)
        else:
            content = segments.decode(data, refs)
        return await self.resolve(tenant, content, raw=raw, budget=budget, masked=masked)

    async def keep(self, tenant: str, value: Any) -> Any:
        """The value as it may be handed to a coordinator: a large one as a reference to its blob, which is written
        first."""
        data, refs = segments.encode(value)
        if len(data) <= INLINE_BYTES or self._blobs is None:
            return value
        ref = await self._blobs.put(tenant, data)
        return BlobRef(f"{ref}+refs" if refs else ref)

    async def view(
        self,
        state: State,
        *,
        raw: bool = False,
        nodes: bool = True,
        values: bool = True,
        seen: Seen = JOURNAL,
        budget: Budget | None = None,
    ) -> dict[str, Any]:
        """A run as `run_view` shows it, with inputs and outputs whole, and the beginning of nodes' large outputs. Without `values`
        its inputs and outputs are left out, and `omitted` names them."""
        budget = budget or Budget()
        view = run_view(state, nodes=nodes, seen=seen) | about_view(state)
        if state.deadline_at is not None:
            view["deadline_at"] = state.deadline_at
        if not values:
            return view | {"inputs": None, "outputs": None, "omitted": ["inputs", "outputs"]}
        outputs = state.outputs if state.outputs_ref is None else BlobRef(state.outputs_ref)
        for name, value in (("inputs", {} if state.inputs is None else state.inputs), ("outputs", outputs)):
            try:
                view[name] = await self.resolve(state.tenant, value, raw=raw, budget=budget)
            except PerdureError as error:  # the run is shown as it is; what cannot be loaded is named
                view.setdefault("problems", []).append(f"{name}: {error.message}")
        await self.preview(state.tenant, view.get("nodes", {}))
        return view

    async def preview(self, tenant: str, nodes: dict[str, Any]) -> None:
        """Add the beginning of large outputs to these nodes, for the first `PREVIEWS` of them."""
        large = [node for node in nodes.values() if "size" in node and self._blobs is not None][:PREVIEWS]
        for node in large:
            await self._preview(tenant, node)

    async def outputs(self, state: State) -> Any:
        value = state.outputs if state.outputs_ref is None else BlobRef(state.outputs_ref)
        return await self.resolve(state.tenant, value)

    async def _preview(self, tenant: str, node: dict[str, Any]) -> None:
        try:
            data = await self.blobs.part(tenant, node["output"]["$ref"], 0, PREVIEW_BYTES)
        except PerdureError as error:
            node["output"]["problem"] = error.message
        else:
            node["output"]["preview"] = data.decode(errors="ignore")
