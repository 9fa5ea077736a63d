"""The form of an approval: a JSON Schema of what whoever approves has to give. What is none is for the eyes of people only."""

from __future__ import annotations

from typing import Any

from perdure.journal import Journal
from perdure.kernel import events as e
from perdure.routing.schemas import SchemaInvalid, check
from perdure.runtime.contents import Contents

_PAGE = 1000


async def find_form(journal: Journal, contents: Contents, run_id: str, approval_id: str) -> Any:
    """The form as it was asked with; None: there is none, or no such approval."""
    record = await journal.find_run(run_id)
    after = 0
    while record is not None and (stored := await journal.read_events(run_id, after, _PAGE)):
        for one in stored:
            if one.type == "approval.requested":
                event = e.decode(one.body)
                if isinstance(event, e.ApprovalRequested) and event.approval == approval_id:
                    return await contents.resolve(record.row.tenant, event.form)
        after = stored[-1].seq
    return None


def check_form(form: Any, data: Any) -> list[str]:
    """What is wrong with the data of somebody who approves. To give none is to leave every field out."""
    if not isinstance(form, dict):
        return []
    try:
        if data is None and not check(form, None):
            return []
        return check(form, {} if data is None else data)
    except SchemaInvalid:
        return []
