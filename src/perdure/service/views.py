"""How things look to people and programs, the same in the API, the command line and the SDK: plain data, ready for
JSON.

The view of a run itself is in `perdure.kernel.readings.run_view`. It must not read anything; it turns what was read into data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from perdure.errors import NotFound
from perdure.journal import ApprovalRow, DeadLetterRow, Outline, Page, RunRecord
from perdure.kernel.readings.explain import explain
from perdure.kernel.readings.run_view import activation_view, node_view
from perdure.kernel.readings.seen import JOURNAL, Seen
from perdure.kernel.state import State
from perdure.model.problems import Problem

Item = TypeVar("Item")
View = dict[str, Any]


def page_view(page: Page[Item], view: Callable[[Item], View]) -> View:
    return {"items": [view(one) for one in page.items], "next_cursor": page.next_cursor}


_DAMAGED = "what its row says cannot be read; `perdure doctor` says more"


def _read(value: bytes, instead: View) -> View:
    """A decoded value, or `instead` where it is damaged: one damaged row must not fail a whole list."""
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return instead
    return found if isinstance(found, dict) else instead


def outline_view(outline: Outline | None) -> View:
    """What a list says of a run beyond its row. Null: it cannot be read."""
    shown: View = {"submitted_by": None, "alias": None, "origin": None, "last_event_at": None, "dlq_count": 0}
    if outline is None:
        return shown
    shown |= {"last_event_at": outline.last_at, "dlq_count": outline.letters}
    if outline.first is not None:
        said = _read(outline.first, {})
        shown |= {name: said.get(key) or None for name, key in (("submitted_by", "by"), ("alias", "alias"))}
        origin = said.get("origin")
        shown["origin"] = origin[0] if isinstance(origin, list) and origin else None
    return shown


def run_summary(record: RunRecord, starts: Mapping[str, float] | None = None) -> View:
    """A run in a list: what its row says, without nodes. `starts` says since when a task of each run is executed."""
    row = record.row
    started_at = row.started_at
    if started_at is None and starts is not None and row.ended_at is None:
        started_at = starts.get(record.run_id)
    shown = {
        "run_id": record.run_id,
        "seq": record.seq,
        "workflow": row.workflow,
        "version": row.workflow_version,
        "state": row.state,
        "waiting": row.state == "running" and not row.busy,
        "counter": row.counter,
        "generation": row.generation,
        "error": None if row.error is None else _read(row.error, {"code": "unreadable", "message": _DAMAGED}),
        "created_at": row.created_at,
        "started_at": started_at,
        "ended_at": row.ended_at,
        "tags": _read(row.tags, {}),
        "parent": row.parent,
    }
    return shown if record.quarantined is None else {**shown, "quarantined": record.quarantined}


def approval_view(row: ApprovalRow) -> View:
    return {
        "approval_id": row.approval_id,
        "run_id": row.run_id,
        "node": row.node,
        "state": row.state,
        "requested_at": row.requested_at,
        "expires_at": row.expires_at,
        "decided_at": row.decided_at,
        **msgspec.json.decode(row.body),
    }


def dead_letter_view(row: DeadLetterRow) -> View:
    return {
        "dead_letter_id": row.dead_letter_id,
        "run_id": row.run_id,
        "node": row.node,
        "state": row.state,
        "created_at": row.created_at,
        "resolved_at": row.resolved_at,
        "reprocessed_at": row.resolved_at if row.state == "requeued" else None,
        **{name: value for name, value in msgspec.json.decode(row.body).items() if name != "seq"},
    }


def problem_view(problem: Problem) -> View:
    return msgspec.structs.asdict(problem)


def get_node(state: State, name: str) -> int:
    index = state.ir.numbers.get(name)
    if index is None:
        raise NotFound(explain(state, name))
    return int(index)


def node_with_visits(state: State, name: str, seen: Seen = JOURNAL) -> View:
    """One node with its present state and every visit. Large outputs are still references."""
    index = get_node(state, name)
    visits = [one for one in state.activations.values() if one.node == index and one.item < 0 and one.visit]
    ordered = sorted(visits, key=lambda one: one.visit)
    return {
        "run_id": state.run_id,
        "node": name,
        "type": state.node(index).type,
        **node_view(state, index, seen),
        "visits": [activation_view(state, one, seen) for one in ordered],
        "ports": list(ports_of(state, index)),
    }


def ports_of(state: State, index: int) -> tuple[str, ...]:
    """Where a node yields, if it does."""
    found = state.irs[-1].nodes[index]
    return () if found is None or found.stream is None else ("out", *found.stream.ports)


def without_outputs(views: Iterable[View]) -> None:
    """Replace outputs by their sizes; a caller that wants an output asks for its node."""
    for view in views:
        if "output" in view:
            view.setdefault("size", len(msgspec.json.encode(view.pop("output"))))
            view.pop("output", None)


def line_view(line: object) -> View:
    """A line that a handler logged."""
    view: View = msgspec.to_builtins(line)
    return {name: value for name, value in view.items() if name not in ("tenant", "run_id")}
