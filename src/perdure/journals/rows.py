"""Rows of a database as the structs of the port, and cursors as the strings callers keep; for all SQL adapters.

A row is anything that can be indexed: a tuple of SQLite, a record of asyncpg.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from perdure.errors import NotFound
from perdure.journal import InvalidCursor, Page, RunRecord, RunRow

Item = TypeVar("Item")
Row: TypeAlias = Sequence[Any]


def run_record(row: Row) -> RunRecord:
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


def positional(kind: type[Item]) -> Callable[[Row], Item]:
    """A reader of rows for structs whose fields are the columns, in order."""
    return lambda row: kind(*row)


def named(kind: type[Item]) -> Callable[[Row], Item]:
    """A reader of rows for structs that take their fields by name only."""
    names: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
    return lambda row: kind(**dict(zip(names, row, strict=True)))


def page(items: Sequence[tuple[Item, tuple[object, ...]]], limit: int) -> Page[Item]:
    """The page, and where the next one begins. `items`: with their places, one more than the page may have."""
    shown = items[:limit]
    more = len(items) > limit > 0
    return Page(tuple(item for item, _ in shown), encode_cursor(shown[-1][1]) if more else None)


def encode_cursor(place: tuple[object, ...]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def decode_cursor(cursor: str | None, kinds: type[Any]) -> tuple[Any, ...] | None:
    """The place in a cursor. `kinds` is the tuple type of a place, such as `tuple[float, int]`."""
    if cursor is None:
        return None
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        place: tuple[Any, ...] = msgspec.json.decode(data, type=kinds)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise InvalidCursor(f"cursor {cursor[:80]!r} is not one of this list; begin again without a cursor") from error
    return place


def listing(
    state: str | None, tenant: str | None, run_id: str | None, limit: int, cursor: str | None
) -> dict[str, object]:
    """The parameters of a list of approvals or dead letters."""
    place = decode_cursor(cursor, tuple[float, str])
    return {
        "state": state,
        "tenant": tenant,
        "run_id": run_id,
        "cursor_at": place and place[0],
        "cursor_key": place and place[1],
        "limit": max(limit, 0) + 1,
    }


def as_bytes(text: str) -> bytes:
    """Free text of people as bytes: PostgreSQL's text holds no NUL, and no half of a surrogate pair."""
    return text.encode("utf-8", "surrogatepass")


def as_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def found(item: Item | None, kind: str, name: str) -> Item:
    if item is None:
        raise NotFound(f"{kind} {name} does not exist")
    return item
