"""A run, followed: its events, and what a reader asked for beside them: the tasks that are executed, and log lines.

Only events are of the journal and have a number; a reader that was cut off resumes by them alone. It must not know HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.journal import RunRecord, StoredEvent
from perdure.runtime.worker.logs import PAUSE_SECONDS
from perdure.service.tenancy import archive_of
from perdure.service.views import line_view

if TYPE_CHECKING:
    from perdure.engine import Engine

ALIVE_SECONDS = 15.0
"""After how long without an event a stream shows that it is alive."""
LOOK_SECONDS = 0.5
"""How often a stream looks for what is executed and logged, for a reader that asked for it."""
_LINES = 1000
_LAST_SECONDS = 2 * PAUSE_SECONDS
"""How long after the end of a run its last lines may come: they are written in batches."""


class WorkingTasks(msgspec.Struct, frozen=True):
    """The tasks of a run that workers say they execute. This is no event: it is not stored, and the journal decides."""

    tasks: list[dict[str, Any]]


class LogLines(msgspec.Struct, frozen=True):
    """Lines that handlers of a run printed, logged or said."""

    lines: list[dict[str, Any]]


Batch = list[StoredEvent] | WorkingTasks | LogLines


async def follow_with(
    engine: Engine, record: RunRecord, after: int, *, working: bool, logs_after: int | None
) -> AsyncGenerator[Batch, None]:
    """The events of a run, and at first and whenever they change the tasks that are executed; with `logs_after`, the
    lines above that position. An empty list now and then."""
    beside = _Beside(engine, record, working, logs_after)
    silent = 0.0
    async with aclosing(engine.feed.follow(record.run_id, after, idle_seconds=LOOK_SECONDS)) as batches:
        async for events in batches:
            if events:
                yield events
            found = await beside.look()
            for one in found:
                yield one
            silent = 0.0 if events or found else silent + LOOK_SECONDS
            if silent >= ALIVE_SECONDS:
                silent = 0.0
                yield []
    if logs_after is not None:
        await engine.clock.sleep(_LAST_SECONDS)
        while lines := await beside.read_lines():
            yield lines


class _Beside:
    """What a reader was told beside events, and what is new."""

    def __init__(self, engine: Engine, record: RunRecord, working: bool, logs_after: int | None) -> None:
        self._engine = engine
        self._record = record
        self._working = working
        self._position = logs_after
        self._told: WorkingTasks | None = None
        self._looked_at = -LOOK_SECONDS

    async def look(self) -> list[WorkingTasks | LogLines]:
        found: list[WorkingTasks | LogLines] = []
        if self._working:
            tasks = WorkingTasks(await self._engine.work_reports.list_tasks(self._record.run_id))
            if tasks != self._told:
                self._told = tasks
                found.append(tasks)
        now = self._engine.clock.monotonic()
        if self._position is not None and now - self._looked_at >= LOOK_SECONDS:  # events may come thousands a second
            self._looked_at = now
            if (lines := await self.read_lines()) is not None:
                found.append(lines)
        return found

    async def read_lines(self) -> LogLines | None:
        row = self._record.row
        stored = await archive_of(self._engine).read_logs(
            row.tenant, self._record.run_id, after=self._position or 0, limit=_LINES
        )
        if not stored:
            return None
        self._position = stored[-1].position
        return LogLines([{"position": one.position, **line_view(one.line)} for one in stored])
