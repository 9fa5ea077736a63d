"""What a tenant has used, from the ledger: by workflow, by model or by day, and its total. The ledger changes with the appends, so it is exact."""

from __future__ import annotations

import datetime
import re
from typing import Any, Literal

from perdure.model.money import MILLIONTHS
from perdure.records import LedgerSum
from perdure.runtime.coordinator.projections import day_of
from perdure.service.errors import Invalid, Trouble
from perdure.service.tenancy import Tenancy
from perdure.service.views import View

By = Literal["workflow", "model", "day"]
DAYS = 30
"""How far back it goes where nobody says."""
MOST = 1_000
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SHOWN = ("input", "cached", "written", "output", "reasoning", "calls")


async def read_spent(tenancy: Tenancy, by: By, since: str | None, until: str | None, workflow: str | None) -> View:
    now = tenancy.engine.clock.now()
    first = _day("since", since) or day_of(now - DAYS * 86_400)
    last = _day("until", until) or day_of(now)
    where = (first, _after(last))
    rows = await tenancy.archive.sum_ledger(tenancy.tenant, by, *where, workflow=workflow or "", limit=MOST + 1)
    total = await tenancy.archive.sum_ledger(tenancy.tenant, "tenant", *where, workflow=workflow or "", limit=1)
    items = [
        {"name": row.name, **_usage(row)} for row in rows[:MOST] if row.calls or row.usd or row.input or row.output
    ]
    whole = _usage(total[0]) if total else _usage(LedgerSum(name=""))
    return {"by": by, "since": first, "until": last, "items": items, "total": whole, "more": len(rows) > MOST}


def _day(name: str, given: str | None) -> str | None:
    if given is None:
        return None
    try:
        if _DAY.fullmatch(given):
            return datetime.date.fromisoformat(given).isoformat()
    except ValueError:
        pass
    message = f"{given[:40]!r} is no day; write one as 2026-11-18"
    raise Invalid(message, [Trouble(name, "wrong_value", message)])


def _after(day: str) -> str:
    """The day behind it. Days are compared as text, and behind the last that there is everything is."""
    last = datetime.date.fromisoformat(day)
    return ":" if last == datetime.date.max else (last + datetime.timedelta(days=1)).isoformat()


def _usage(row: LedgerSum) -> dict[str, Any]:
    found: dict[str, Any] = {name: getattr(row, name) for name in _SHOWN}
    lost = {"calls": row.unsettled_calls, "usd": row.unsettled_usd / MILLIONTHS}
    return {**found, "usd": row.usd / MILLIONTHS, "priced": row.unpriced == 0, "unsettled": lost}
