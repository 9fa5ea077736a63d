"""The moments to come: of one schedule, and of all of them in a range of time. Looking costs time, so it has a budget."""

from __future__ import annotations

from heapq import heappush, heappushpop, merge
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from perdure.budget import Budget
from perdure.errors import Refused
from perdure.journal import TriggerRow
from perdure.model.trigger_sources import Schedule
from perdure.model.triggers import Trigger
from perdure.service.triggers.shown_triggers import moment_view
from perdure.service.views import View
from perdure.threads import aside
from perdure.triggers.calendar import BadSchedule, compile_schedule, moments

if TYPE_CHECKING:
    from perdure.service.tenancy import Tenancy

LOOK_STEPS = 200_000
MOST_SCHEDULES = 1000
"""How many schedules one answer about all of them looks at."""
ALL_STEPS, LEAST_STEPS = 4_000_000, 20_000
"""What one answer about all of them may cost, shared out, and what each schedule may cost at least."""


def get_schedule(trigger: Trigger, name: str) -> Schedule:
    if not isinstance(trigger.source, Schedule):
        raise Refused(f"trigger {name} is a {trigger.kind}, and has no moments", code="not_a_schedule")
    return trigger.source


async def read_moments(
    tenancy: Tenancy, row: TriggerRow, schedule: Schedule, since: float | None, count: int
) -> list[View]:
    """Up to `count` moments from `since` on, or from where the trigger has got to."""
    most = count
    if schedule.max_firings and since is None:
        received = int(msgspec.json.decode(row.body)["received"])
        most = min(count, max(0, schedule.max_firings - received))
    begin = tenancy.engine.clock.now() if since is None else since
    found, _ = await aside(tenancy.tenant, _look, row.name, schedule, begin, float("inf"), most, LOOK_STEPS)
    return found


def _look(
    name: str, schedule: Schedule, since: float, until: float, most: int, steps: int
) -> tuple[list[View], float | None]:
    """The moments, at most `most`, and how far they are known where that is not as far as was asked: there were as many as
    are wanted, or the budget was spent."""
    zone = compile_schedule(schedule).zone
    found: list[View] = []
    budget = Budget(steps)
    cursor = since
    while len(found) < most:
        look = moments(schedule, cursor, until, most - len(found), trigger=name, budget=budget)
        found += [moment_view(one, zone) for one in look.moments]
        if look.done or (look.next is not None and float(look.next.due) > until):
            return found, None
        if look.next is not None or look.looked <= cursor:
            break
        cursor = look.looked
    return found, float(found[-1]["due"]) if found else cursor


async def read_firings(tenancy: Tenancy, since: float, until: float, limit: int) -> View:
    """When active schedules are due in a range, merged by time: up to `limit`, of up to 1,000 schedules. A schedule that is not known
    to the end of the range ends the answer where it ends: an answer has no holes."""
    page = await tenancy.engine.journal.list_triggers(
        tenant=tenancy.listed, kind="schedule", state="active", limit=MOST_SCHEDULES
    )
    found, short = await aside(tenancy.tenant, _look_at_all, page.items, since, until, limit + 1)
    capped = short or page.next_cursor is not None or len(found) > limit
    return {"items": found[:limit], "capped": capped}


def _look_at_all(rows: tuple[TriggerRow, ...], since: float, until: float, most: int) -> tuple[list[View], bool]:
    """The first `most` of all. No schedule is looked at beyond the last of the first `most` that are found so far: of 1,000 that are
    due each minute, all moments of each would be a million."""
    lists, known = [], float("inf")
    latest: list[float] = []
    """When the first `most` so far are due, as a heap whose top is the last of them: each with its sign changed."""
    steps = min(LOOK_STEPS, max(LEAST_STEPS, ALL_STEPS // max(1, len(rows))))
    for row in rows:
        trigger = msgspec.convert(msgspec.json.decode(row.body)["spec"], Trigger)
        assert isinstance(trigger.source, Schedule)
        try:
            last = until if len(latest) < most else min(until, -latest[0])
            found, ends = _look(row.name, trigger.source, since, last, most, steps)
        except BadSchedule:  # the trigger itself stops at it, and says so
            continue
        known = known if ends is None else min(known, ends)
        lists.append([{"name": row.name, "workflow": row.workflow, **one} for one in found])
        for one in found:
            (heappush if len(latest) < most else heappushpop)(latest, -float(one["due"]))
    ordered = (one for one in merge(*lists, key=lambda one: one["due"]) if one["due"] <= known)
    return list(islice(ordered, most)), known < until
