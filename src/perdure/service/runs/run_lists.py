"""Runs in lists and in counts: which runs are meant, and what a list says of each.

It must not know HTTP or permissions. What the database cannot look for by itself is looked for here, among a bounded
number of runs for each page.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from perdure.journal import TRIGGER_WORKFLOW, Page, RunCount, RunFilter, RunRecord
from perdure.service.errors import Invalid, Trouble
from perdure.service.pages import listing
from perdure.service.runs.run_readings import Readings
from perdure.service.runs.waiting_runs import find_waiting
from perdure.service.scans import AT_ONCE, find_outlines, scan
from perdure.service.views import View, page_view, run_summary

if TYPE_CHECKING:
    from perdure.engine import Engine

Tag = tuple[str, str]
Order = Literal["newest", "oldest", "ended"]
Group = Literal["state", "workflow", "error"]
MOST_COUNTED = 10_000
LONGEST_RANGE_SECONDS = 31 * 86_400.0
MOST_IN_RANGE = 1_000_000
"""How many runs are counted where a range of at most 31 days is given."""
MOST_BUCKETS = 1000
SHORTEST_PREFIX = 4


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of a list, as callers give them."""

    state: str | Sequence[str] = ()
    workflow: str | None = None
    version: int | None = None
    tag: Tag | Sequence[Tag] | None = None
    by: str | None = None
    error: str | None = None
    id: str | None = None
    since: float | None = None
    until: float | None = None
    ended_since: float | None = None
    ended_until: float | None = None
    parent: str | None = None
    children: bool = False
    root: bool = False
    order: Order = "newest"

    @property
    def states(self) -> tuple[str, ...]:
        return (self.state,) if isinstance(self.state, str) else tuple(self.state)

    @property
    def tags(self) -> tuple[Tag, ...]:
        if not self.tag:
            return ()
        return (self.tag,) if isinstance(self.tag[0], str) else tuple(self.tag)  # type: ignore[return-value, arg-type]

    @property
    def waiting(self) -> bool:
        return "waiting" in self.states

    @property
    def by_end(self) -> bool:
        return self.order == "ended" or self.ended_since is not None or self.ended_until is not None

    @property
    def wants_triggers(self) -> bool:
        """Whether the runs that triggers are were asked for: by their workflow, or by their ids."""
        return self.workflow == TRIGGER_WORKFLOW or self.parent is not None or (self.id or "").startswith("trigger~")

    @property
    def is_partial(self) -> bool:
        """Whether the database cannot look for all of it: who started a run stands in its first event alone."""
        return self.by is not None or len(self.tags) > 1

    def check(self) -> None:
        troubles = []
        if self.waiting and len(set(self.states)) > 1:
            message = "'waiting' is a part of 'running' and cannot be combined with other states"
            troubles.append(Trouble("state", "conflicting_keys", message))
        if self.id is not None and len(self.id) < SHORTEST_PREFIX:
            message = f"expected at least {SHORTEST_PREFIX} characters of the id"
            troubles.append(Trouble("id", "wrong_value", message))
        if self.root and (self.children or self.parent is not None):
            message = "'root' means runs without a parent; give it without 'children' and 'parent'"
            troubles.append(Trouble("root", "conflicting_keys", message))
        if troubles:
            raise Invalid("; ".join(f"{one.path}: {one.message}" for one in troubles), troubles)

    def filter(self, tenant: str | None) -> RunFilter:
        return RunFilter(
            tenant=tenant,
            states=("running",) if self.waiting else self.states,
            may_wait=self.waiting,
            top=self.parent is None and not self.children,
            plain=not self.wants_triggers,
            workflow=self.workflow,
            version=self.version,
            tag=self.tags[0] if self.tags else None,
            error=self.error,
            id_prefix=self.id,
            since=self.since,
            until=self.until,
            ended_since=self.ended_since,
            ended_until=self.ended_until,
            parent=self.parent,
            by_end=self.by_end,
            oldest=self.order == "oldest",
        )


class RunLists(Readings):
    """The part of `Runs` that lists and counts them."""

    @listing
    async def list(
        self,
        *,
        state: str | Sequence[str] = (),
        workflow: str | None = None,
        version: int | None = None,
        tag: Tag | Sequence[Tag] | None = None,
        by: str | None = None,
        error: str | None = None,
        id: str | None = None,
        since: float | None = None,
        until: float | None = None,
        ended_since: float | None = None,
        ended_until: float | None = None,
        parent: str | None = None,
        children: bool = False,
        root: bool = False,
        order: Order = "newest",
        limit: int = 100,
        cursor: str | None = None,
    ) -> View:
        """The runs, newest first unless `order` says otherwise; child runs only with `children` or of a `parent`. The
        state `waiting`, given alone, means `running` with nothing to do but wait. With a time of the end, runs stand in
        the order of their ends. A page may be short, and even empty, and still have a cursor."""
        asked = Asked(
            state=state,
            workflow=workflow,
            version=version,
            tag=tag,
            by=by,
            error=error,
            id=id,
            since=since,
            until=until,
            ended_since=ended_since,
            ended_until=ended_until,
            parent=parent,
            children=children,
            root=root,
            order=order,
        )
        asked.check()
        page = await self._page(asked, limit, cursor)
        return await runs_view(self._engine, page, only_waiting=asked.waiting)

    async def _page(self, asked: Asked, limit: int, cursor: str | None) -> Page[RunRecord]:
        where = asked.filter(self._tenancy.listed)
        if not asked.is_partial:
            return await self._engine.journal.list_runs(where, limit=limit, cursor=cursor)

        def read(most: int, after: str | None) -> Awaitable[Page[RunRecord]]:
            return self._engine.journal.list_runs(where, limit=most, cursor=after)

        return await scan(read, partial(self._choose, asked), limit, cursor)

    async def _choose(self, asked: Asked, records: Sequence[RunRecord]) -> builtins.list[RunRecord]:
        """The runs that also fit the part of the filter that the database cannot look for."""
        kept = [one for one in records if _has_tags(one, asked.tags[1:])]
        if asked.by is None:
            return kept
        outlines = await find_outlines(self._engine, [one.run_id for one in kept])
        return [one for one in kept if outlines[one.run_id]["submitted_by"] == asked.by]

    async def counts(self, *, group: Group | None = None, bucket: float | None = None, **conditions: Any) -> View:
        """How many runs match, by state, workflow or error, and by stretches of `bucket` seconds of their creation, or of
        their end where times of the end are given. Without a range of at most 31 days, or with `by` or several tags, only
        the newest 10,000 are counted, and it is `capped` if there are more."""
        asked = Asked(**conditions)
        asked.check()
        if asked.waiting:
            message = "runs that wait cannot be counted, because their children decide whether they do; list them"
            raise Invalid(message, [Trouble("state", "wrong_value", message)])
        begin = asked.ended_since if asked.by_end else asked.since
        end = (asked.ended_until if asked.by_end else asked.until) or self._engine.clock.now()
        if bucket is not None and (begin is None or not bucket > 0 or (end - begin) / bucket > MOST_BUCKETS):
            message = (
                f"stretches of time need a beginning (since), and at most {MOST_BUCKETS} of them fit into an answer"
            )
            raise Invalid(message, [Trouble("bucket", "wrong_value", message)])
        in_range = begin is not None and end - begin <= LONGEST_RANGE_SECONDS and not asked.is_partial
        most = MOST_IN_RANGE if in_range else MOST_COUNTED
        if asked.is_partial:
            found, more = await self._count_here(asked, group, bucket, most)
        else:
            where = asked.filter(self._tenancy.listed)
            found = await self._engine.journal.count_runs(where, group=group, bucket=bucket, limit=most + 1)
            more = sum(one.count for one in found) > most
        return _counts_view(found, group, bucket, most, more)

    async def _count_here(
        self, asked: Asked, group: Group | None, bucket: float | None, most: int
    ) -> tuple[builtins.list[RunCount], bool]:
        found: Counter[tuple[str | None, int | None]] = Counter()
        where, cursor, looked = asked.filter(self._tenancy.listed), None, 0
        while looked < most:
            page = await self._engine.journal.list_runs(where, limit=AT_ONCE, cursor=cursor)
            for one in await self._choose(asked, page.items):
                moment = one.row.ended_at if asked.by_end else one.row.created_at
                place = None if bucket is None or moment is None else int(moment // bucket)
                found[_group_of(one, group), place] += 1
            looked, cursor = looked + len(page.items), page.next_cursor
            if cursor is None:
                break
        return [RunCount(*key, number) for key, number in found.items()], cursor is not None


def _group_of(record: RunRecord, group: Group | None) -> str | None:
    view = run_summary(record)
    named: dict[Group | None, str | None] = {
        None: None,
        "state": view["state"],
        "workflow": view["workflow"],
        "error": (view["error"] or {}).get("code"),
    }
    return named[group]


def _has_tags(record: RunRecord, tags: Sequence[Tag]) -> bool:
    if not tags:
        return True
    there = run_summary(record)["tags"]
    return all(there.get(name) == value for name, value in tags)


def _counts_view(found: Iterable[RunCount], group: Group | None, bucket: float | None, most: int, more: bool) -> View:
    groups: Counter[str | None] = Counter()
    buckets: dict[int, Counter[str | None]] = {}
    for one in found:
        groups[one.group] += one.count
        if one.bucket is not None:
            buckets.setdefault(one.bucket, Counter())[one.group] += one.count
    view: View = {"total": min(groups.total(), most), "capped": more}
    if group is not None:
        view["groups"] = _named(groups)
    if bucket is not None:
        view["buckets"] = [
            {"at": number * bucket, "count": inside.total(), "groups": _named(inside) if group is not None else []}
            for number, inside in sorted(buckets.items())
        ]
    return view


def _named(groups: Counter[str | None]) -> builtins.list[View]:
    ordered = sorted(groups.items(), key=lambda one: (-one[1], one[0] or ""))
    return [{"name": name, "count": count} for name, count in ordered if count]


async def runs_view(engine: Engine, page: Page[RunRecord], *, only_waiting: bool = False) -> View:
    """A page of runs, with facts that their rows do not hold. These are read here, for the listed runs only: the time
    of the last event, for one, would be a further column to write at every append (decision 0070)."""
    waiting = await find_waiting(engine, page.items)
    if only_waiting:  # the journal also gives runs with children, because it cannot know what those do
        page = Page(tuple(one for one in page.items if one.run_id in waiting), page.next_cursor)
    starts = await find_starts(engine, page.items)
    outlines = await find_outlines(engine, [one.run_id for one in page.items])

    def view(record: RunRecord) -> View:
        about = {"waiting": record.run_id in waiting, **outlines[record.run_id]}
        return {**run_summary(record, starts), **about}

    return page_view(page, view)


async def find_starts(engine: Engine, records: Iterable[RunRecord]) -> dict[str, float]:
    """The time since when a task of each run is executed, for runs whose journals say nothing of a start yet."""
    waiting = [one.run_id for one in records if one.row.started_at is None and one.row.ended_at is None]
    return await engine.work_reports.find_starts(waiting) if waiting else {}
