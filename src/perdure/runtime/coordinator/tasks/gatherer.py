"""The gatherer: makes the outputs of a map's items into the map's output, many of them in a thread, since they may be
large.

Owns how items become one value, and when that is done beside the loop. A key names what is gathered: the map, its
attempt, and the command that ended its last item; the outputs of the other items no longer change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from perdure.blobs import INLINE_BYTES, WITH_REFS, BlobStore
from perdure.expressions.errors import NotAtHand
from perdure.expressions.namespace import outcome
from perdure.kernel import commands as c
from perdure.kernel import segments
from perdure.kernel.causal_past import Seen
from perdure.kernel.state import State
from perdure.kernel.values import Error
from perdure.model.extremes import WHY, has_many
from perdure.runtime.worker.outputs import MAX_BYTES
from perdure.threads import aside

FEW = 100
"""How many items are gathered at once: up to so many on the loop, more in a thread; each has up to 32 KiB."""


class NeedsGathered(NotAtHand):
    """The outputs of many items must be made into one value first."""

    code = "needs_gathered"

    def __init__(self, key: str, items: Sequence[Seen]) -> None:
        super().__init__(key, f"{len(items)} items must be gathered first")
        self.items = items


def key_of(state: State, need: c.Need, command: c.Command) -> str:
    owner = state.find(need.node, need.scope)
    attempt = 0 if owner is None else owner.attempt
    said = [type(command).__name__, *(getattr(command, name) for name in command.__struct_fields__ if _stays(name))]
    digest = hashlib.sha256(msgspec.json.encode(said, enc_hook=repr)).hexdigest()
    return f"gathered:{state.run_id}:{state.generation}:{need.node}:{need.scope}:{attempt}:{digest}"


def _stays(name: str) -> bool:
    """Whether a field is the same when the same message is decided again, at a later time."""
    return name not in ("at", "entropy") and not name.endswith("_at")


class Gathered(msgspec.Struct, frozen=True):
    data: bytes = b""
    refs: bool = False
    error: Error | None = None


def gather(items: Sequence[Seen]) -> Gathered:
    """Make the outputs of all items into one value. It is checked like any other output: a few numbers that take long
    to read may pass in each item and still be too many in all."""
    data, refs = _encode(items, packed=False), False
    if data is None:
        data, refs = _encode(items, packed=True), True
    assert data is not None
    if len(data) > MAX_BYTES:
        message = (
            f"the outputs of all items together have more than {MAX_BYTES:,} bytes of JSON; store them and return where"
        )
        return Gathered(error=Error("bad_output", message))
    if has_many(data):
        return Gathered(error=Error("bad_output", f"the outputs of all items together: {WHY}"))
    return Gathered(data, refs)


def _encode(items: Sequence[Seen], *, packed: bool) -> bytes | None:
    """The outputs as one JSON list. None: one holds references, so all must be packed, for a value to mean the same
    everywhere."""
    pieces: list[bytes] = []
    size = 0
    for start in range(0, len(items), FEW):
        values = [outcome(one) for one in items[start : start + FEW]]
        data, refs = (segments.encode_packed(values), False) if packed else segments.encode(values)
        if refs:
            return None
        pieces.append(data[1:-1])
        size += len(data)
        if size > MAX_BYTES:
            break
    return b"[" + b",".join(pieces) + b"]"


async def store_gathered(blobs: BlobStore, tenant: str, need: NeedsGathered) -> c.Verdict:
    found = await aside(tenant, gather, need.items)
    ref = ""
    if found.error is None and len(found.data) > INLINE_BYTES:
        ref = await blobs.put(tenant, found.data) + (WITH_REFS if found.refs else "")
    return judge(found, need.items, ref)


def judge(found: Gathered, items: Sequence[Seen], ref: str) -> c.Verdict:
    """The verdict on what was gathered. `ref` names the blob where a large value is stored by now."""
    if found.error is not None:
        return c.Verdict(error=found.error)
    if ref:
        return c.Verdict(output_ref=ref, size=len(found.data))
    return c.Verdict(value=[outcome(one) for one in items], size=len(found.data))
