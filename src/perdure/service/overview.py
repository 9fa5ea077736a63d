"""What a person looks at first: what needs one now, how runs did lately, and the newest of them.

One question instead of ten, because it is asked again every few seconds for as long as a screen shows it. It must not know HTTP.
A caller sees the parts that it may read; the others are null. Everything is bounded, and says where it was.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from perdure.access import Permission
from perdure.journal import Page, RunFilter, RunRecord
from perdure.service.approvals import Approvals
from perdure.service.dead_letters import DeadLetters
from perdure.service.runs.runs import Runs
from perdure.service.tenancy import Tenancy
from perdure.service.views import View, run_summary
from perdure.service.workflows.workflow_stats import share_of

Span = Literal["1h", "24h", "7d"]
BUCKETS: dict[Span, tuple[int, float]] = {"1h": (30, 120.0), "24h": (24, 3600.0), "7d": (28, 21_600.0)}
"""How many stretches of time there are in each span, and how many seconds each has."""
DAY_SECONDS = 86_400.0
SOON_SECONDS = 3600.0
"""A deadline that is nearer than this is told of."""
OPEN = ("running", "paused", "failing", "cancelling", "compensating")
FEW = 5
NEWEST = 10
MOST_APPROVALS = 200
MOST_LOOKED_AT = 1000
"""How many runs, and how many timers, are looked through."""


Queues = Callable[[], Awaitable[View]]
"""The first page of the queues, as the caller may see them."""


async def read_overview(tenancy: Tenancy, span: Span, queues: Queues) -> View:
    may = tenancy.principal.may
    reads = may(Permission.RUNS_READ)
    return {
        "approvals": await _approvals(tenancy) if may(Permission.APPROVALS_READ) else None,
        "dead_letters": await _letters(tenancy) if may(Permission.DEAD_LETTERS_READ) else None,
        "deserted": _find_deserted(await queues()),
        **(await _runs(tenancy, span) if reads else _NO_RUNS),
    }


_NO_RUNS: View = {
    **dict.fromkeys(("failed", "paused", "quarantined", "deadlines")),
    "buckets": [],
    "failing": [],
    "slowest": [],
    "capped": False,
    "newest": [],
}


async def _approvals(tenancy: Tenancy) -> View:
    """The approvals that the caller may decide, the next to expire first."""
    page = await Approvals(tenancy).list(state="pending", mine=True, limit=MOST_APPROVALS).first()
    items = sorted(page["items"], key=lambda one: one["expires_at"] or math.inf)
    return {"total": len(items), "capped": page["next_cursor"] is not None, "items": items[:FEW]}


async def _letters(tenancy: Tenancy) -> View:
    found = await DeadLetters(tenancy).counts()
    together: dict[tuple[str | None, str | None], View] = {}
    for one in found["groups"]:
        about = {"workflow": one["workflow"], "code": one["code"], "count": 0, "oldest_at": one["oldest_at"]}
        group = together.setdefault((one["workflow"], one["code"]), about)
        group["count"] += one["count"]
        group["oldest_at"] = min(group["oldest_at"], one["oldest_at"])
    groups = sorted(together.values(), key=lambda one: -one["count"])
    return {"total": found["total"], "capped": found["capped"], "groups": groups[:FEW]}


def _find_deserted(page: View) -> list[View]:
    """The queues in which tasks wait and to which nobody listens, as far as the caller may see such figures."""
    waiting = {
        one["queue"]: sum(one[name] or 0 for name in ("waiting", "backlog", "held"))
        for one in page["items"]
        if one["workers"] == 0
    }
    return [{"queue": name, "waiting": count} for name, count in sorted(waiting.items()) if count]


async def _runs(tenancy: Tenancy, span: Span) -> View:
    runs, now = Runs(tenancy), tenancy.engine.clock.now()
    number, seconds = BUCKETS[span]
    begin = (math.floor(now / seconds) - number + 1) * seconds
    started = await runs.counts(since=begin, bucket=seconds)
    ended = await runs.counts(ended_since=begin, bucket=seconds, group="state")
    by_workflow = await runs.counts(ended_since=begin, group="workflow")
    failed = await runs.counts(ended_since=begin, state="failed", group="workflow")
    slowest, capped = await _slowest(tenancy, begin)
    open_runs = await _list_open(tenancy)
    return {
        "failed": _named(await runs.counts(ended_since=now - DAY_SECONDS, state="failed", group="workflow")),
        "paused": _named(await runs.counts(state="paused", group="workflow")),
        "quarantined": _quarantined(open_runs),
        "deadlines": await _deadlines(tenancy, open_runs, now),
        "buckets": _buckets(started, ended, begin, number, seconds),
        "failing": _failing(by_workflow, failed),
        "slowest": slowest,
        "capped": capped,
        "newest": (await runs.list(limit=NEWEST).first())["items"],
    }


def _named(counts: View) -> View:
    groups = [{"workflow": one["name"], "count": one["count"]} for one in counts["groups"]]
    return {"total": counts["total"], "capped": counts["capped"], "groups": groups[:FEW]}


def _buckets(started: View, ended: View, begin: float, number: int, seconds: float) -> list[View]:
    began = {one["at"]: one["count"] for one in started["buckets"]}
    states = {one["at"]: {group["name"]: group["count"] for group in one["groups"]} for one in ended["buckets"]}
    found = []
    for index in range(number):
        at = begin + index * seconds
        ends = states.get(at, {})
        found.append(
            {"at": at, "started": began.get(at, 0), "ended": sum(ends.values()), "failed": ends.get("failed", 0)}
        )
    return found


def _failing(ended: View, failed: View) -> list[View]:
    of = {one["name"]: one["count"] for one in ended["groups"]}
    # Counted a moment later, there may be more failures than ends.
    return [
        {"workflow": one["name"], "failed": one["count"], "ended": max(one["count"], of.get(one["name"], 0))}
        for one in failed["groups"][:FEW]
    ]


async def _slowest(tenancy: Tenancy, begin: float) -> tuple[list[View], bool]:
    """The workflows whose runs took longest, of the newest that ended."""
    where = RunFilter(tenant=tenancy.listed, top=True, plain=True, ended_since=begin, by_end=True)
    took, capped = await times_by_workflow(tenancy, where)
    items: list[View] = [
        {"workflow": name, "ended": len(times), "p95_seconds": share_of(sorted(times), 0.95)}
        for name, times in took.items()
    ]
    return sorted(items, key=lambda one: -one["p95_seconds"])[:FEW], capped


async def times_by_workflow(tenancy: Tenancy, where: RunFilter) -> tuple[dict[str, list[float]], bool]:
    """How many seconds runs took, of the newest that match; and whether there were more."""
    page = await tenancy.engine.journal.list_runs(where, limit=MOST_LOOKED_AT)
    took: dict[str, list[float]] = {}
    for one in page.items:
        if one.row.ended_at is not None:
            took.setdefault(one.row.workflow, []).append(one.row.ended_at - one.row.created_at)
    return took, page.next_cursor is not None


async def _list_open(tenancy: Tenancy) -> Page[RunRecord]:
    """The newest runs of the tenant that are open, as many as are looked through."""
    where = RunFilter(tenant=tenancy.listed, states=OPEN)
    return await tenancy.engine.journal.list_runs(where, limit=MOST_LOOKED_AT)


def _quarantined(page: Page[RunRecord]) -> View:
    found = [_about(one, reason=one.quarantined) for one in page.items if one.quarantined is not None]
    return {"total": len(found), "capped": page.next_cursor is not None, "items": found[:FEW]}


async def _deadlines(tenancy: Tenancy, page: Page[RunRecord], now: float) -> View:
    """The open runs that fail within the hour if they do not end, next first. Timers are asked for by run: those of
    other tenants would hide these, and tell how many there are (X18)."""
    records = {one.run_id: one for one in page.items}
    timers = await tenancy.engine.journal.list_due_timers(now + SOON_SECONDS, MOST_LOOKED_AT, runs=list(records))
    near = [one for one in timers if one.timer_id == "deadline"]
    found = [_about(records[one.run_id], deadline_at=one.due_at) for one in near]
    capped = page.next_cursor is not None or len(timers) == MOST_LOOKED_AT
    return {"total": len(found), "capped": capped, "items": found[:FEW]}


def _about(record: RunRecord, **more: Any) -> View:
    summary = run_summary(record)
    return {"run_id": record.run_id, "workflow": summary["workflow"], "version": summary["version"], **more}


class Overviews:
    """Answers that are a few seconds old at most: many people look at the same, and each asks again and again."""

    KEPT_SECONDS = 5.0
    MOST = 1000

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], tuple[float, View]] = {}

    async def read(self, tenancy: Tenancy, span: Span, queues: Queues) -> View:
        who, now = tenancy.principal, tenancy.engine.clock.monotonic()
        key = (who.tenant, who.kind, who.name, who.roles, who.permissions, span)
        at, view = self._kept.get(key, (-math.inf, {}))
        if now - at < self.KEPT_SECONDS:
            return view
        view = await read_overview(tenancy, span, queues)
        self._kept.pop(key, None)
        while len(self._kept) >= self.MOST:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = (now, view)
        return view
