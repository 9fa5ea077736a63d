"""Runs in lists and in counts."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from perdure.client import views as v
from perdure.client.http_calls import Call, get, given, post
from perdure.client.operations import Page, listing, operation

PAGE = 100
Tag = tuple[str, str]


def _conditions(
    state: str | Sequence[str], tag: Tag | Sequence[Tag] | None, children: bool, root: bool, **more: Any
) -> dict[str, Any]:
    tags: Sequence[Any] = () if not tag else (tag,) if isinstance(tag[0], str) else tag
    flags = {name: True for name, given in (("children", children), ("root", root)) if given}
    return {
        "state": [state] if isinstance(state, str) else builtins.list(state),
        "tag": [f"{name}={value}" for name, value in tags],
        **more,
        **flags,
    }


class RunListsCalls:
    """The operations on many runs, described once."""

    @listing
    def list(
        self,
        *,
        state: str | Sequence[str] = (),
        workflow: str | None = None,
        version: int | None = None,
        tag: Tag | Sequence[Tag] | None = None,
        by: str | None = None,
        error: str | None = None,
        id: str | None = None,
        since: float | str | None = None,
        until: float | str | None = None,
        ended_since: float | str | None = None,
        ended_until: float | str | None = None,
        parent: str | None = None,
        children: bool = False,
        root: bool = False,
        order: Literal["newest", "oldest", "ended"] = "newest",
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Call[Page[v.RunSummary]]:
        """The runs, newest first unless `order` says otherwise; child runs only with `children` or of a `parent`. Times
        are seconds since 1970, or RFC 3339; with a time of the end, runs stand in the order of their ends. `id` is the
        beginning of an id, `error` the code of an error; of several tags all must hold. `limit` is the size of one page;
        with `by` or several tags a page may be short."""
        about = {"workflow": workflow, "version": version, "by": by, "error": error, "id": id, "parent": parent}
        times = {"since": since, "until": until, "ended_since": ended_since, "ended_until": ended_until}
        ordered = None if order == "newest" else order
        conditions = _conditions(state, tag, children, root, **about, **times)
        return get("runs", **conditions, order=ordered, limit=limit, cursor=cursor)

    @operation
    def counts(
        self,
        *,
        group: Literal["state", "workflow", "error"] | None = None,
        bucket: float | None = None,
        state: str | Sequence[str] = (),
        workflow: str | None = None,
        version: int | None = None,
        tag: Tag | Sequence[Tag] | None = None,
        by: str | None = None,
        error: str | None = None,
        id: str | None = None,
        since: float | str | None = None,
        until: float | str | None = None,
        ended_since: float | str | None = None,
        ended_until: float | str | None = None,
        parent: str | None = None,
        children: bool = False,
        root: bool = False,
    ) -> Call[v.RunCounts]:
        """How many runs match, by `group` and by stretches of `bucket` seconds. Without a range of at most 31 days, or with
        `by` or several tags, the newest 10,000 are counted; `capped` says that there are more."""
        about = {"workflow": workflow, "version": version, "by": by, "error": error, "id": id, "parent": parent}
        times = {"since": since, "until": until, "ended_since": ended_since, "ended_until": ended_until}
        conditions = _conditions(state, tag, children, root, **about, **times)
        return get("runs", "counts", **conditions, group=group, bucket=bucket)

    @operation
    def bulk(
        self,
        action: Literal["cancel", "pause", "resume", "retry", "rollback"],
        *,
        where: Mapping[str, Any] | None = None,
        run_ids: Sequence[str] | None = None,
        expected: int | None = None,
        reason: str = "",
    ) -> Call[v.ManyRunsChanged]:
        """Cancel, pause, resume, retry or roll back the runs that match `where` (the conditions of `list`), or those that are
        named. Without `expected` they are only counted; with that count it is done."""
        chosen = dict(where or {})
        if chosen.get("tag"):
            chosen["tag"] = _conditions((), chosen["tag"], False, False)["tag"]
        if isinstance(chosen.get("state"), str):
            chosen["state"] = [chosen["state"]]
        times = ("since", "until", "ended_since", "ended_until")
        chosen |= {name: str(chosen[name]) for name in times if isinstance(chosen.get(name), int | float)}
        names = None if run_ids is None else [*run_ids]
        body = given(run_ids=names, expected=expected, reason=reason or None)
        return post("runs", "bulk", body={"action": action, "where": given(**chosen), **body})
