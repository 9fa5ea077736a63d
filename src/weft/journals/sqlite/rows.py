"""Rows of the database as the structs of the port, and cursors as the strings callers keep."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import msgspec

from weft.journal import InvalidCursor, Page, RunRecord, RunRow

Item = TypeVar("Item")


def run_record(row: tuple[Any, ...]) -> RunRecord:
    return RunRecord(
        run_id=row[0],
        seq=row[1],
        commit_id=row[2],
        quarantined=row[3],
        row=RunRow(
            state=row[4],
            workflow=row[5],
            workflow_version=row[6],
            ir=row[7],
            partition=row[8],
            tenant=row[9],
            tags=row[10],
            generation=row[11],
            counter=row[12],
            busy=bool(row[13]),
            created_at=row[14],
            started_at=row[15],
            ended_at=row[16],
            error=row[17],
            parent=row[18],
        ),
    )


def positional(kind: type[Item]) -> Callable[[tuple[Any, ...]], Item]:
    """For structs whose fields are the columns, in order."""
    return lambda row: kind(*row)


def named(kind: type[Item]) -> Callable[[tuple[Any, ...]], Item]:
    """The same, for structs that take their fields by name only."""
    names: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
    return lambda row: kind(**dict(zip(names, row, strict=True)))


def as_json(values: Collection[int] | Collection[str] | None) -> str | None:
    """A list as a parameter: SQLite takes it apart with json_each."""
    return None if values is None else msgspec.json.encode(list(values)).decode()


def page(items: Sequence[tuple[Item, tuple[object, ...]]], limit: int) -> Page[Item]:
    """Of one item more than was asked for, with their places: the page, and where the next one begins."""
    shown = items[:limit]
    more = len(items) > limit > 0
    return Page(tuple(item for item, _ in shown), encode_cursor(shown[-1][1]) if more else None)


def encode_cursor(place: tuple[object, ...]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def decode_cursor(cursor: str | None, kinds: type[Any]) -> tuple[Any, ...] | None:
    """`kinds` is the tuple type of a place, such as `tuple[float, int]`."""
    if cursor is None:
        return None
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        place: tuple[Any, ...] = msgspec.json.decode(data, type=kinds)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise InvalidCursor(f"cursor {cursor[:80]!r} is not one of this list; begin again without a cursor") from error
    return place
