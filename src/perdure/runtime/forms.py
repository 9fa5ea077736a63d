"""The form of an approval: a JSON Schema of the data that an approver has to give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure.contents import Contents
from perdure.errors import NotFound
from perdure.expressions.json_schema import SchemaInvalid, check
from perdure.journal import Journal, RunRecord, StoredEvent
from perdure.kernel import events as e

_PAGE = 1000
_DEEPEST = 5


async def read_form(journal: Journal, contents: Contents, run_id: str, approval_id: str) -> Any:
    """The form that the approval was requested with; None if it has no form or there is no such approval."""
    record = await journal.find_run(run_id)
    if record is None:
        return None
    event = None
    if record.seq > _PAGE:
        event = _find_request(await _read_around(journal, record, approval_id), approval_id)
    after = 0
    while event is None and (stored := await journal.read_events(run_id, after, _PAGE)):
        event = _find_request(stored, approval_id)
        after = stored[-1].seq
    return None if event is None else await contents.resolve(record.row.tenant, event.form)


def _find_request(stored: Sequence[StoredEvent], approval_id: str) -> e.ApprovalRequested | None:
    for one in stored:
        if one.type == "approval.requested":
            event = e.decode(one.body)
            if isinstance(event, e.ApprovalRequested) and event.approval == approval_id:
                return event
    return None


async def _read_around(journal: Journal, record: RunRecord, approval_id: str) -> list[StoredEvent]:
    """Events from the time on at which the approval was requested. A long run has many before it; where a clock was set
    back they may be the wrong ones."""
    try:
        row = await journal.get_approval(approval_id)
    except NotFound:
        return []
    low, high = 0, record.seq
    while low < high:  # the first event of that time is behind `low`, and not behind `high`
        middle = (low + high) // 2
        found = await journal.read_events(record.run_id, middle, 1)
        if found and found[0].at < row.requested_at:
            low = middle + 1
        else:
            high = middle
    return await journal.read_events(record.run_id, low, _PAGE)


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
