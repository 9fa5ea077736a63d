"""Runs, read part by part: what programs draw and page through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from perdure.client import views as v
from perdure.client.http_calls import Call, get, read_text
from perdure.client.operations import operation


class RunReadingsCalls:
    """The operations on runs that read a part of one, described once."""

    @operation
    def definition(self, run_id: str, *, at: int | None = None) -> Call[v.RunDefinition]:
        """The definition that a run follows, now or after event `at`, with every patch that led to it."""
        return get("runs", run_id, "definition", at=at)

    @operation
    def graph(
        self,
        run_id: str,
        *,
        at: int | None = None,
        direction: Literal["down", "right"] | None = None,
        opened: Sequence[str] = (),
    ) -> Call[v.Graph]:
        """The nodes and edges of a run with their places, by the definition it follows. Nodes that are alike are
        stacked, but for the stacks that are `opened`; `*` opens all."""
        return get("runs", run_id, "graph", at=at, direction=direction, open=list(opened))

    @operation
    def graph_svg(
        self, run_id: str, *, at: int | None = None, direction: Literal["down", "right"] | None = None
    ) -> Call[str]:
        """A run as a picture (SVG), with the states of its nodes and the way it took."""
        return msgspec.structs.replace(get("runs", run_id, "graph.svg", at=at, direction=direction), read=read_text)

    @operation
    def film(self, run_id: str, *, after: int = 0, limit: int = 50_000, cursor: str | None = None) -> Call[v.Film]:
        """Every change of a node's state behind event `after`, as columns: the last row about a node that is `shown` is
        what a view of the run has for it. About `limit` rows; `next_cursor` is where the next ones begin."""
        return get("runs", run_id, "film", after=after, limit=limit, cursor=cursor)
