"""How far a table of PostgreSQL was read: the cursor of a trigger, as text that only the source understands."""

from __future__ import annotations

import msgspec

from perdure.sources import SourceRefused

Key = tuple[str, ...]


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where rows are also looked for behind the cursor (`reread`)."""

    after: Key | None
    """The last row in order; None: none yet."""
    floor: Key | None = None
    """The row behind which reading began: what is before it is no item, however late it comes."""
    late: int = 0
    """How often rows came from behind the cursor: items move it, or they would come for ever."""

    def moved(self, after: Key | None) -> Place:
        return msgspec.structs.replace(self, after=after)


def write_place(place: Place) -> str:
    return msgspec.json.encode(place).decode()


def read_place(cursor: str, columns: int) -> Place:
    """The place that a cursor says. One without `reread` is the key of a row: reading began there. Raises SourceRefused."""
    if not cursor:
        return Place(None)
    try:
        if cursor.startswith("{"):
            place = msgspec.json.decode(cursor, type=Place)
        else:
            key = msgspec.json.decode(cursor, type=Key)
            place = Place(key, key)
    except msgspec.MsgspecError:
        place = Place(())
    if any(key is not None and len(key) != columns for key in (place.after, place.floor)):
        raise SourceRefused("the cursor is not one of this table")
    return place
