"""What a deployment is made of now: node types, workers, queues; and who the caller is."""

from __future__ import annotations

from typing import Literal

from perdure.client import views as v
from perdure.client.http_calls import Call, get
from perdure.client.operations import AsyncNoun, Noun, Page, listing, operation

PAGE = 100


class SystemCalls:
    """The deployment as it is now, and the caller's own identity."""

    @operation
    def me(self) -> Call[v.Me]:
        """Your own identity on this server, and what it may do."""
        return get("me")

    @operation
    def search(self, q: str, *, limit: int = 8) -> Call[v.Found]:
        """Runs whose ids begin so (four characters or more), workflows and pending approvals whose names hold it; up to `limit`
        of each."""
        return get("search", q=q, limit=limit)

    @operation
    def overview(self, *, span: Literal["1h", "24h", "7d"] = "24h") -> Call[v.Overview]:
        """What needs a person now, how runs did in this span of time, and the newest of them. It may be a few seconds old."""
        return get("overview", span=span)

    @operation
    def usage(
        self,
        *,
        by: Literal["workflow", "model", "day"] = "workflow",
        since: str | None = None,
        until: str | None = None,
        workflow: str | None = None,
    ) -> Call[v.TenantUsage]:
        """What all runs have used: tokens, calls and dollars, from the day `since` (2026-11-18; 30 days ago) to the day `until`."""
        return get("usage", by=by, since=since, until=until, workflow=workflow)

    @listing
    def node_types(self) -> Call[Page[v.NodeType]]:
        """The node types that workflows can use."""
        return get("node-types")

    @operation
    def node_type(self, name: str) -> Call[v.NodeType]:
        """One node type, with the schemas of its config and output."""
        return get("node-types", name)

    @listing
    def workers(self) -> Call[Page[v.Worker]]:
        """The workers that execute tasks now."""
        return get("workers")

    @listing
    def queues(self) -> Call[Page[v.Queue]]:
        """The queues in which tasks wait, and how many slots listen to each."""
        return get("queues")


class System(SystemCalls, Noun):
    __doc__ = SystemCalls.__doc__


class AsyncSystem(SystemCalls, AsyncNoun):
    __doc__ = SystemCalls.__doc__
