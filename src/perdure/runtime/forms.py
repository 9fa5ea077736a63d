"""The form of an approval: a JSON Schema of the data that an approver has to give."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure.contents import Contents
from perdure.expressions.json_schema import SchemaInvalid, check
from perdure.journal import Journal, RunRecord, StoredEvent
from perdure.kernel import events as e

_PAGE = 1000
_DEEPEST = 5
_MOST_RUNS = 64
"""Long runs whose approvals are remembered."""


class Forms:
    """The forms of approvals, for those who vote. A long run is read once: where its approvals were requested is
    remembered, and a vote reads what was written since."""

    def __init__(self, journal: Journal, contents: Contents) -> None:
        self._journal = journal
        self._contents = contents
        self._known: dict[str, _Requests] = {}

    async def read(self, run_id: str, approval_id: str) -> Any:
        """The form that the approval was requested with; None if it has no form or there is no such approval."""
        record = await self._journal.find_run(run_id)
        if record is None:
            return None
        event = None
        if record.seq > _PAGE:
            event = await self._look_up(record, approval_id)
        if event is None:
            event = await _find_request(self._journal, run_id, approval_id)
        return None if event is None else await self._contents.resolve(record.row.tenant, event.form)

    async def _look_up(self, record: RunRecord, approval_id: str) -> e.ApprovalRequested | None:
        run_id = record.run_id
        known = self._known.pop(run_id, None) or _Requests()
        self._known[run_id] = known  # the last one asked for is the last one to be forgotten
        while len(self._known) > _MOST_RUNS:
            del self._known[next(iter(self._known))]
        async with known.lock:  # who votes at the same time waits, and need not read the same
            while known.seq < record.seq and (stored := await self._journal.read_events(run_id, known.seq, _PAGE)):
                known.places.update((event.approval, event.seq) for event in _list_requests(stored))
                known.seq = stored[-1].seq
        seq = known.places.get(approval_id, 0)
        found = _list_requests(await self._journal.read_events(run_id, seq - 1, 1)) if seq else []
        if found and found[0].approval == approval_id:
            return found[0]
        self._known.pop(run_id, None)  # no such approval, or the database was restored since
        return None


class _Requests:
    """Where approvals of one run were requested, up to an event."""

    __slots__ = ("lock", "places", "seq")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.seq = 0
        self.places: dict[str, int] = {}


async def read_form(journal: Journal, contents: Contents, run_id: str, approval_id: str) -> Any:
    """The form of one approval, for those who ask once."""
    return await Forms(journal, contents).read(run_id, approval_id)


async def _find_request(journal: Journal, run_id: str, approval_id: str) -> e.ApprovalRequested | None:
    after = 0
    while stored := await journal.read_events(run_id, after, _PAGE):
        for event in _list_requests(stored):
            if event.approval == approval_id:
                return event
        after = stored[-1].seq
    return None


def _list_requests(stored: Sequence[StoredEvent]) -> list[e.ApprovalRequested]:
    events = [e.decode(one.body) for one in stored if one.type == "approval.requested"]
    return [event for event in events if isinstance(event, e.ApprovalRequested)]


def check_form(form: Any, data: Any) -> list[str]:
    """The problems that the form finds in an approver's data. No data counts as data without any field."""
    if form is None:
        return []
    try:
        if not isinstance(form, dict):
            raise SchemaInvalid("it is no JSON object")
        if data is None and not check(form, None):
            return []
        return check(form, {} if data is None else data)
    except SchemaInvalid as error:  # data that cannot be checked is refused
        return [f"the form of this approval cannot be used, so nobody can approve: {error}"]


def fields_of(form: Any) -> dict[str, Any]:
    """The fields that a person is asked for one by one, with the schema of each."""
    if not isinstance(form, dict):
        return {}
    fields, required = form.get("properties"), form.get("required")
    described = fields if isinstance(fields, dict) else {}
    names = required if isinstance(required, list) else []
    return {**described, **{name: {} for name in names if name not in described}}


def example_of(form: Any) -> dict[str, Any]:
    """An example of the data: a value for each required field; empty if none is required."""
    fields = fields_of(form)
    required = form.get("required") if isinstance(form, dict) else None
    return (
        {name: _example(fields[name], 0) for name in required if name in fields} if isinstance(required, list) else {}
    )


def _example(schema: Any, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return "…"
    choices = schema.get("enum")
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    if isinstance(choices, list) and choices:
        return choices[0]
    match schema.get("type"):
        case "integer" | "number":
            least = schema.get("minimum", 0)
            return least if isinstance(least, int | float) else 0
        case "boolean":
            return True
        case "array":
            return [_example(schema.get("items"), depth + 1)]
        case "object":
            required, fields = schema.get("required"), fields_of(schema)
            names = required if isinstance(required, list) else []
            return {name: _example(fields[name], depth + 1) for name in names if isinstance(name, str)}
        case _:
            return "…"


def read_fields(form: Any, answers: Mapping[str, str]) -> dict[str, Any] | None:
    """A person's answers as data: parsed as JSON if possible, unless the form asks for text. Empty answers are left
    out."""
    fields = fields_of(form)
    if not fields:
        return None
    return {name: _read(answers[name], schema) for name, schema in fields.items() if answers.get(name)}


def _read(text: str, schema: Any) -> Any:
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
