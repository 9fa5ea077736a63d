"""Runs in lists and counts, over HTTP. What each does is in `perdure.service.runs.run_lists`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from perdure.access import Permission
from perdure.api.endpoints import Call, Routes
from perdure.api.parameters import Limit, Text, moment, tag
from perdure.api.request_reader import Body, Query
from perdure.api.schemas import general_schemas as s
from perdure.api.schemas import list_schemas as c

routes = Routes("runs")
READ = Permission.RUNS_READ
Name = Annotated[str, Meta(max_length=400)]


class WhichRuns(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: Annotated[
        tuple[s.RunState | Literal["waiting"], ...],
        Meta(
            description="Only these; may be given several times. `waiting` (alone) is `running` with nothing to do but wait."
        ),
    ] = ()
    workflow: Text | None = None
    version: Annotated[int, Meta(description="Of the workflow; 0: not registered.", ge=0, le=2**53)] | None = None
    tag: Annotated[
        tuple[Annotated[str, Meta(pattern="^[^=]+=", max_length=1300)], ...],
        Meta(description="`name=value`; with several, all must hold.", max_length=20),
    ] = ()
    by: Annotated[Name, Meta(description="Started by this principal.")] | None = None
    error: Annotated[Name, Meta(description="The code of its error.")] | None = None
    id: Annotated[str, Meta(description="Its id begins so.", min_length=4, max_length=1000)] | None = None
    since: Annotated[str, Meta(description="Made then or later: seconds since 1970, or RFC 3339.")] | None = None
    until: Annotated[str, Meta(description="Made before then.")] | None = None
    ended_since: Annotated[str, Meta(description="Ended then or later.")] | None = None
    ended_until: Annotated[str, Meta(description="Ended before then.")] | None = None
    parent: Annotated[str, Meta(description="Only children of this run.", max_length=1000)] | None = None
    children: Annotated[
        bool, Meta(description="Children too; without it and `parent`, only runs that have no parent.")
    ] = False
    root: Annotated[bool, Meta(description="Only runs that have no parent, as without it; not with `children`.")] = (
        False
    )


def read_conditions(given: WhichRuns | Chosen) -> dict[str, Any]:
    moments = ("since", "until", "ended_since", "ended_until")
    plain = ("state", "workflow", "version", "by", "error", "id", "parent", "children", "root")
    return (
        {name: getattr(given, name) for name in plain}
        | {name: moment(name, getattr(given, name)) for name in moments}
        | {"tag": [tag(one) for one in given.tag]}
    )


class ListRuns(WhichRuns, frozen=True, kw_only=True, forbid_unknown_fields=True):
    order: Annotated[
        Literal["newest", "oldest", "ended"],
        Meta(
            description="By creation; `ended`: only runs that have ended, by their end. With `ended_since` or `ended_until` by the end, too."
        ),
    ] = "newest"
    limit: Limit = 100
    cursor: Text | None = None


@routes.get("/runs", READ, s.RunPage)
async def list_(call: Call, query: ListRuns) -> Any:
    """List runs, newest first.

    With `by` or several tags a page looks at 2,000 runs at most: it may be short, even empty, and still have a `next_cursor`.
    """
    pages = call.service.runs.list(**read_conditions(query), order=query.order, limit=query.limit, cursor=query.cursor)
    return await pages.first()


class CountRuns(WhichRuns, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: Annotated[Literal["state", "workflow", "error"], Meta(description="Count by this.")] | None = None
    bucket: (
        Annotated[float, Meta(description="Count by stretches of so many seconds; needs `since`.", ge=1, le=1e9)] | None
    ) = None


@routes.get("/runs/counts", READ, c.RunCounts)
async def counts(call: Call, query: CountRuns) -> Any:
    """Count runs, by group and by time.

    Without a range (`since`, or `ended_since`) of at most 31 days, or with `by` or several tags, the newest 10,000 that match are
    counted; `capped` says that there are more.
    """
    return await call.service.runs.counts(**read_conditions(query), group=query.group, bucket=query.bucket)


class Chosen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conditions of GET /runs."""

    state: Annotated[tuple[s.RunState, ...], Meta(max_length=20)] = ()
    workflow: Text | None = None
    version: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    tag: Annotated[
        tuple[Annotated[str, Meta(pattern="^[^=]+=", max_length=1300)], ...],
        Meta(description="`name=value`; all must hold.", max_length=20),
    ] = ()
    by: Name | None = None
    error: Name | None = None
    id: Annotated[str, Meta(description="Its id begins so.", min_length=4, max_length=1000)] | None = None
    since: Annotated[str, Meta(max_length=100)] | None = None
    until: Annotated[str, Meta(max_length=100)] | None = None
    ended_since: Annotated[str, Meta(max_length=100)] | None = None
    ended_until: Annotated[str, Meta(max_length=100)] | None = None
    parent: Annotated[str, Meta(max_length=1000)] | None = None
    children: bool = False
    root: bool = False


class ChangeRuns(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    action: Literal["cancel", "pause", "resume", "retry", "rollback"]
    where: Chosen = Chosen()
    run_ids: (
        Annotated[
            list[Annotated[str, Meta(min_length=1, max_length=1000)]],
            Meta(description="These runs, instead of those that match.", max_length=1000),
        ]
        | None
    ) = None
    expected: (
        Annotated[int, Meta(description="How many there are. Without it they are only counted.", ge=0, le=10_000)]
        | None
    ) = None
    reason: Annotated[str, Meta(description="Why; it is written down.", max_length=2000)] = ""


@routes.post("/runs/bulk", Permission.RUNS_OPERATE, c.ManyRunsChanged)
async def bulk(call: Call, body: ChangeRuns) -> Any:
    """Cancel, pause, resume, retry or roll back many runs. Without `expected` they are only counted; with that count it is done.

    10,000 at most. What a run refuses is told, and the others go on.
    """
    view = await call.service.runs.bulk(
        body.action,
        where=read_conditions(body.where),
        run_ids=body.run_ids,
        expected=body.expected,
        reason=body.reason,
    )
    call.noted = {"action": body.action, "matched": view["matched"], "done": view["done"]}
    return view
