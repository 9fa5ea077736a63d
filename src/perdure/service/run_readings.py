"""Runs, read part by part: the definition a run follows, and its picture, now and as they were at any event; and
every change of its nodes.

It must not know HTTP or permissions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.drawing import Direction
from perdure.kernel.seen import JOURNAL
from perdure.service.films import MOST_ROWS, film_of
from perdure.service.history import state_at
from perdure.service.pictures import Graph, draw_run
from perdure.service.run_definitions import definition_of, names_of
from perdure.service.starts import Starts
from perdure.service.views import View


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
        return Graph(**about, ir=ir, direction=direction, opened=tuple(opened))

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
