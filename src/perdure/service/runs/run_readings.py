"""Runs, read part by part: the definition a run follows, and its picture, now and as they were at any event; and
every change of its nodes.

It must not know HTTP or permissions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.drawing import Direction
from perdure.kernel.readings.seen import JOURNAL
from perdure.kernel.segments import BlobRef
from perdure.kernel.state import State
from perdure.runtime.coordinator.parked import describe
from perdure.service.pages import listing
from perdure.service.pictures import Graph, draw_run
from perdure.service.runs.films import MOST_ROWS, film_of
from perdure.service.runs.history import state_at
from perdure.service.runs.node_chunks import START, ChunkReader, Position
from perdure.service.runs.node_values import Which, get_activation, get_output, items_of, seq_of_attempt
from perdure.service.runs.run_definitions import definition_of, names_of
from perdure.service.runs.run_transcripts import guards_of, transcript_of
from perdure.service.runs.starts import Starts
from perdure.service.slices import Part, cut
from perdure.service.views import View
from perdure.threads import aside


class Readings(Starts):
    """The part of `Runs` that reads what a client draws and pages through, each of it by itself."""

    async def definition(self, run_id: str, *, at: int | None = None) -> View:
        """The definition that a run follows, now or after event `at`, with every patch that led to it."""
        record = await self._tenancy.get_run(run_id)
        return await definition_of(self._engine, record, at)

    async def graph(
        self, run_id: str, *, at: int | None = None, direction: Direction | None = None, opened: Sequence[str] = ()
    ) -> View:
        """The nodes and edges of a run with their places, by the definition it follows, now or after event `at`. Nodes
        that are alike are stacked, but for the stacks that are `opened`; `*` opens all."""
        found = await self.plan_graph(run_id, at=at, direction=direction, opened=opened)
        view: View = msgspec.json.decode(await found.draw())
        return view

    async def plan_graph(
        self, run_id: str, *, at: int | None = None, direction: Direction | None = None, opened: Sequence[str] = ()
    ) -> Graph:
        record = await self._tenancy.get_run(run_id)
        ir = record.row.ir if at is None else (await names_of(self._engine, record, at))[0][-1]
        about: dict[str, Any] = {"library": self._engine.library, "tenant": self._tenancy.tenant}
        return Graph(**about, ir=ir, direction=direction, opened=tuple(opened), record=record)

    async def graph_svg(self, run_id: str, *, at: int | None = None, direction: Direction | None = None) -> str:
        """A run as a picture (SVG), with the states of its nodes and the way it took, now or after event `at`."""
        record = await self._tenancy.get_run(run_id)
        state = await (self._engine.runs.state_of(record) if at is None else state_at(self._engine, record, at))
        seen = JOURNAL if at is not None else await self._engine.work_reports.of(state)
        return (await draw_run(state, seen, direction)).decode()

    async def film(self, run_id: str, *, after: int = 0, limit: int = MOST_ROWS, cursor: str | None = None) -> View:
        """Every change of a node's state behind event `after`, as columns, for a screen that shows any moment of the
        run: the last row about a node that is `shown` is what a view of the run has for it. About `limit` rows;
        `next_cursor` is where the next ones begin."""
        record = await self._tenancy.get_run(run_id)
        return await film_of(self._engine, record, after if cursor is None else int(cursor), limit)

    def chunks(
        self, run_id: str, node: str, *, port: str = "out", after: Position = START, follow: bool = True
    ) -> ChunkReader:
        """What a node yields, behind a position: what there is, and with `follow` what comes, until it ends."""
        return ChunkReader(self._tenancy, run_id, node, port, after, follow=follow)

    # -- values --------------------------------------------------------------------------------------------------------

    async def node_input(
        self,
        run_id: str,
        node: str,
        *,
        visit: int | None = None,
        attempt: int | None = None,
        item: int | None = None,
        at: int | None = None,
    ) -> View:
        """What a node was given: its rendered config, secrets masked, and its inputs; of a visit, of an item of a map, of
        an attempt by the number its events have. Or the problem why that cannot be derived."""
        which = Which(node=node, visit=visit, item=item)
        state = await self._state(run_id, at)
        found = get_activation(state, which)
        if attempt is not None:
            record = await self._tenancy.get_run(run_id)
            state = await state_at(
                self._engine, record, await seq_of_attempt(self._engine, record, found, which, attempt)
            )
            found = state.activations[found.key]
        given = await describe(self._engine.registry, self._engine.blobs, state, found, undo=False)
        about = {"visit": found.visit, "attempt": found.attempt, "scope": list(found.scope), "item": item}
        return {"run_id": run_id, "node": node, **about, **given}

    async def node_output(
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
    ) -> View:
        """A part of what a node gave, one level deep: the entries of an object or a list, or a piece of a text."""
        state = await self._state(run_id, at)
        value = get_output(state, Which(node=node, visit=visit, item=item))
        return await self._cut(state, value, pointer, offset, limit)

    async def inputs(self, run_id: str, *, pointer: str = "", offset: int = 0, limit: int = 100) -> View:
        """A part of the inputs of a run, as of the output of a node."""
        state = await self._state(run_id, None)
        return await self._cut(state, {} if state.inputs is None else state.inputs, pointer, offset, limit)

    async def outputs(self, run_id: str, *, pointer: str = "", offset: int = 0, limit: int = 100) -> View:
        """A part of the outputs of a run, as of the output of a node."""
        state = await self._state(run_id, None)
        value = state.outputs if state.outputs_ref is None else BlobRef(state.outputs_ref)
        return await self._cut(state, value, pointer, offset, limit)

    @listing
    async def items(
        self,
        run_id: str,
        node: str,
        *,
        visit: int | None = None,
        state: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> View:
        """A page of the items of a map, in order, with the sizes of their outputs; of one state, if that is given."""
        found = await self._state(run_id, None)
        seen = await self._engine.work_reports.of(found)
        after = -1 if cursor is None else int(cursor)
        return await aside(found.tenant, items_of, found, Which(node=node, visit=visit), state, after, limit, seen)

    # -- models ----------------------------------------------------------------------------------------------------------

    async def transcript(
        self,
        run_id: str,
        node: str,
        *,
        visit: int | None = None,
        item: int | None = None,
        at: int | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> View:
        """What an agent, or another node that asks a model, was told, said and called, what was decided about each call and
        what it cost: a page of its turns, now or after event `at`."""
        which = Which(node=node, visit=visit, item=item)
        return await transcript_of(self._engine, await self._state(run_id, at), which, int(cursor or 0), limit)

    @listing
    async def guards(
        self, run_id: str, *, verdict: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> View:
        """A page of what the guard decided about the calls of every agent of a run, and who decided where a person was
        asked; of one verdict, if that is given."""
        return await guards_of(self._engine, await self._state(run_id, None), cursor, verdict, limit)

    async def _state(self, run_id: str, at: int | None) -> State:
        record = await self._tenancy.get_run(run_id)
        return await (self._engine.runs.state_of(record) if at is None else state_at(self._engine, record, at))

    async def _cut(self, state: State, value: Any, pointer: str, offset: int, limit: int) -> View:
        part = Part(pointer=pointer, offset=offset, limit=limit)
        return await cut(self._engine.contents, state.tenant, value, part)
