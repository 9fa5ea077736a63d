"""Runs, read part by part: what programs draw and page through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from perdure.client import views as v
from perdure.client.http_calls import Call, get, read_text
from perdure.client.operations import Page, listing, operation, streaming


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

    @streaming
    def chunks(
        self, run_id: str, node: str, *, port: str = "out", after: str = "", follow: bool = True
    ) -> Call[dict[str, Any]]:
        """What a node yields, as it yields it, until it ends: `{"type": "chunk", "edition": 1, "number": 1, "chunk": …}`. With
        `{"type": "restart", "edition": 2}` the node began anew, and what came before counts no more; the last one is
        `{"type": "end", "reason": "end", …}`. A stream that is cut continues where it was. `after`: only what comes behind this
        chunk, as `"1.17"`; without `follow`, only what there is now."""
        return get("runs", run_id, "nodes", node, "chunks", port=port, after=after or None, follow=follow)

    @operation
    def node_input(
        self,
        run_id: str,
        node: str,
        *,
        visit: int | None = None,
        attempt: int | None = None,
        item: int | None = None,
        at: int | None = None,
    ) -> Call[v.NodeInput]:
        """What a node was given: its rendered config, secrets masked, and its inputs; of a visit, of an item of a map, of
        an attempt by the number its events have."""
        return get("runs", run_id, "nodes", node, "input", visit=visit, attempt=attempt, item=item, at=at)

    @operation
    def node_output(
        self,
        run_id: str,
        node: str,
        *,
        visit: int | None = None,
        item: int | None = None,
        at: int | None = None,
        pointer: str = "",
        offset: int = 0,
        limit: int = 100,
    ) -> Call[v.Slice]:
        """A part of what a node gave, one level deep: the entries of an object or a list, or a piece of a text."""
        which = {"visit": visit, "item": item, "at": at}
        part = {"pointer": pointer, "offset": offset, "limit": limit}
        return get("runs", run_id, "nodes", node, "output", **which, **part)

    @operation
    def inputs(self, run_id: str, *, pointer: str = "", offset: int = 0, limit: int = 100) -> Call[v.Slice]:
        """A part of the inputs of a run, as of the output of a node."""
        return get("runs", run_id, "inputs", pointer=pointer, offset=offset, limit=limit)

    @operation
    def outputs(self, run_id: str, *, pointer: str = "", offset: int = 0, limit: int = 100) -> Call[v.Slice]:
        """A part of the outputs of a run, as of the output of a node."""
        return get("runs", run_id, "outputs", pointer=pointer, offset=offset, limit=limit)

    @listing
    def items(
        self,
        run_id: str,
        node: str,
        *,
        visit: int | None = None,
        state: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Call[Page[v.MapItem]]:
        """The items of a map, in order, with the sizes of their outputs; of one state, if that is given."""
        return get("runs", run_id, "nodes", node, "items", visit=visit, state=state, limit=limit, cursor=cursor)

    @operation
    def transcript(
        self,
        run_id: str,
        node: str,
        *,
        visit: int | None = None,
        item: int | None = None,
        at: int | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Call[v.Transcript]:
        """What an agent, or another node that asks a model, was told, said and called, what was decided about each call and
        what it cost: a page of its turns, now or after event `at`."""
        which = {"visit": visit, "item": item, "at": at}
        return get("runs", run_id, "nodes", node, "transcript", **which, limit=limit, cursor=cursor)

    @listing
    def guards(
        self, run_id: str, *, verdict: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Call[Page[v.GuardedCall]]:
        """What the guard decided about the calls of every agent of a run, and who decided where a person was asked."""
        return get("guards", run=run_id, verdict=verdict, limit=limit, cursor=cursor)
