"""Finding, filtering and paging over rows in memory."""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from perdure.errors import NotFound
from perdure.journal import (
    TRIGGER_WORKFLOW,
    ApprovalRow,
    DeadLetterRow,
    InvalidCursor,
    Page,
    RunCount,
    RunFilter,
    RunRecord,
    RunRow,
)

Item = TypeVar("Item")


def found(item: Item | None, kind: str, name: str) -> Item:
    if item is None:
        raise NotFound(f"{kind} {name} does not exist")
    return item


def matches(run: RunRecord, where: RunFilter, parents: Collection[str]) -> bool:
    """`parents`: runs that have open children."""
    row = run.row
    return (
        where.tenant in {None, row.tenant}
        and (not where.states or row.state in where.states)
        and where.workflow in {None, row.workflow}
        and (where.tag is None or msgspec.json.decode(row.tags).get(where.tag[0]) == where.tag[1])
        and (where.since is None or row.created_at >= where.since)
        and (where.until is None or row.created_at < where.until)
        and (where.parent is None or row.parent == where.parent)
        and (not where.top or row.parent is None)
        and (not where.plain or row.workflow != TRIGGER_WORKFLOW)
        and (not where.may_wait or not row.busy or run.run_id in parents)
        and (where.quarantined is None or where.quarantined == (run.quarantined is not None))
        and where.version in {None, row.workflow_version}
        and where.error in {None, error_code(row)}
        and (where.id_prefix is None or run.run_id.startswith(where.id_prefix))
        and (not where.by_end or row.ended_at is not None)
        and (where.ended_since is None or (row.ended_at is not None and row.ended_at >= where.ended_since))
        and (where.ended_until is None or (row.ended_at is not None and row.ended_at < where.ended_until))
    )


def error_code(row: RunRow) -> str | None:
    return None if row.error is None else str(msgspec.json.decode(row.error)["code"])


def count(
    runs: Sequence[RunRecord],
    where: RunFilter,
    group: Literal["state", "workflow", "error"] | None,
    bucket: float | None,
) -> list[RunCount]:
    """How many runs there are by group and by stretch of time; `runs` are those that match."""
    found: Counter[tuple[str | None, int | None]] = Counter()
    for run in runs:
        row = run.row
        named = {None: None, "state": row.state, "workflow": row.workflow, "error": error_code(row)}[group]
        moment = row.ended_at if where.by_end else row.created_at
        found[named, None if bucket is None or moment is None else int(moment // bucket)] += 1
    return [RunCount(*key, number) for key, number in found.most_common()]


def is_asked(row: ApprovalRow | DeadLetterRow, state: str | None, tenant: str | None, run_id: str | None) -> bool:
    return state in {None, row.state} and tenant in {None, row.tenant} and run_id in {None, row.run_id}


def page(
    items: Sequence[Item], place: Callable[[Item], tuple[Any, ...]], kinds: Any, limit: int, cursor: str | None
) -> Page[Item]:
    items = sorted(items, key=place)
    if cursor is not None:
        try:
            data = base64.b64decode(cursor, validate=True)
            after: tuple[Any, ...] = msgspec.json.decode(data, type=kinds)
        except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
            raise InvalidCursor(f"cursor {cursor[:80]!r} is not one of this list") from error
        items = [item for item in items if place(item) > after]
    shown = items[: max(limit, 0)]
    more = len(items) > limit > 0
    return Page(tuple(shown), base64.b64encode(msgspec.json.encode(place(shown[-1]))).decode() if more else None)
