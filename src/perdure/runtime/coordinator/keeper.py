"""The keeper: which values stay in their events, and which are stored as blobs.

Owns the one answer to that in a coordinator: a value stays if it is short, and if its run has room for its parts. Where one must be
stored first, `NeedsStore` is raised, and the message is decided again once it is.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.blobs import INLINE_BYTES, ref_of
from perdure.expressions.errors import NeedsStore, stored_key
from perdure.kernel import commands as c
from perdure.kernel import segments
from perdure.kernel.segments import BlobRef
from perdure.kernel.values import Error
from perdure.runtime.coordinator.tasks.cache import Cache
from perdure.runtime.coordinator.tasks.room import Room

PART_BYTES = 1024
"""The largest part that stays inside an object that is too large as a whole; larger parts are stored as blobs."""
LEFT_OUT = {"left_out": "the values of this run have so many parts that details of errors are no longer kept"}

_BROUGHT: dict[type[c.Command], str] = {
    c.Signal: "payload",
    c.Vote: "data",
    c.Requeue: "config",
    c.EndChild: "output",
    c.HearEvent: "output",
}
"""The values that commands bring which no worker reports, and of which a run may be brought thousands."""


class Keeper:
    def __init__(self, cache: Cache | None) -> None:
        """Without a cache nothing can be stored: every value stays where it is."""
        self._cache = cache

    def keep(self, value: Any, tenant: str, limit: int = INLINE_BYTES, room: Room | None = None) -> tuple[Any, int]:
        """A value as an event may hold it, and its size. `room` is that of its run; None for values of which a run has
        one. Raises NeedsStore."""
        return self.store(value, *segments.encode(value), tenant, limit, room)

    def store(
        self, value: Any, data: bytes, refs: bool, tenant: str, limit: int = INLINE_BYTES, room: Room | None = None
    ) -> tuple[Any, int]:
        """The same for a value whose JSON is at hand."""
        if self._cache is None or (len(data) <= limit and (room is None or room.admits(data))):
            return value, len(data)
        ref = ref_of(data, refs=refs)
        if stored_key(ref) not in self._cache.view(tenant):
            raise NeedsStore(ref, data)
        return BlobRef(ref), len(data)

    def keep_parts(self, value: Any, tenant: str, room: Room) -> Any:
        """`keep` for an object whose keys must stay visible: each large part is stored by itself."""
        if not isinstance(value, dict):
            return value
        data, _ = segments.encode(value)
        if len(data) <= INLINE_BYTES and room.admits(data):
            return value
        return {key: self.keep(item, tenant, PART_BYTES, room)[0] for key, item in value.items()}

    def keep_brought(self, command: c.Command, tenant: str, room: Room) -> c.Command:
        """A command as it may be decided on in a run whose values have many parts."""
        name = _BROUGHT.get(type(command))
        if name is None:
            return command
        if isinstance(command, c.EndChild) and command.error is not None:
            command = msgspec.structs.replace(command, error=without_details(command.error, room))
        value = getattr(command, name)
        if type(value) is not dict and type(value) is not list:
            return command
        kept, _ = self.keep(value, tenant, room=room)
        if kept is value:
            return command
        return msgspec.structs.replace(command, **(split(kept) if name == "output" else {name: kept}))


def split(value: Any) -> dict[str, Any]:
    """An output as the fields of commands and events: the value itself, or a reference to all of it."""
    return {"output": None, "output_ref": value.ref} if type(value) is BlobRef else {"output": value}


def without_details(error: Error, room: Room) -> Error:
    """An error as it may be kept: without its details, where there is no room for them."""
    details = error.details
    if (type(details) is not dict and type(details) is not list) or room.admits(segments.encode(details)[0]):
        return error
    return msgspec.structs.replace(error, details=LEFT_OUT)
