"""The film of a run as columns: few names and many small numbers, for a screen that shows any moment of a run.

What the rows say is in `perdure.kernel.film`. Events are folded in a thread, a page of the journal at a time. It must not
know HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from perdure.journal import RunRecord, StoredEvent
from perdure.kernel import events as e
from perdure.kernel.film import FATES, STATES, Film, Row, Turn
from perdure.model.garbage import no_collection
from perdure.runtime.coordinator.quarantine import explained
from perdure.service.views import View
from perdure.threads import aside

if TYPE_CHECKING:
    from perdure.engine import Engine

MOST_ROWS = 50_000
_READ = 2000
_NAMING = ("run.created", "run.patched")
"""The events that say which definition a run follows."""


async def film_of(engine: Engine, record: RunRecord, after: int, limit: int) -> View:
    """The rows of the events behind `after`: at least `limit` of them, if there are so many, as events are not cut."""
    film = Film(record.run_id)
    with explained(record):
        while film.state.seq < record.seq and len(film.rows) < limit:
            seq = film.state.seq
            # What comes before the page is folded too, and forgotten.
            last = after if seq < after else record.seq
            stored = await engine.journal.read_events(record.run_id, seq, min(_READ, last - seq))
            if not stored:
                break
            await _prepare(engine, film, stored)
            await aside(record.row.tenant, _feed, film, stored, limit if seq >= after else None)
            if film.state.seq <= after:
                film.rows.clear()
                film.turns.clear()
    more = film.state.seq < record.seq
    return {
        "run_id": record.run_id,
        **await aside(record.row.tenant, _columns, film),
        "last_seq": record.seq,
        "next_cursor": str(film.state.seq) if more else None,
    }


async def _prepare(engine: Engine, film: Film, stored: Sequence[StoredEvent]) -> None:
    """Have the definitions at hand that these events name."""
    for one in stored:
        if one.type in _NAMING:
            event = e.decode(one.body)
            if isinstance(event, e.RunCreated | e.RunPatched) and event.ir not in film.state.library:
                film.state.library[event.ir] = await engine.library.get(event.ir)


@no_collection()
def _feed(film: Film, stored: Sequence[StoredEvent], limit: int | None) -> None:
    for one in stored:
        film.feed([e.decode(one.body)])
        if limit is not None and len(film.rows) >= limit:
            return


@no_collection()
def _columns(film: Film) -> View:
    scopes: dict[e.Scope, int] = {(): 0}
    rows: list[Row] = film.rows
    view: dict[str, Any] = {
        "nodes": film.names(),
        "states": list(STATES),
        "seq": _steps(row.seq for row in rows),
        "at": _steps(_milliseconds(row.at) for row in rows),
        "node": [row.node for row in rows],
        "scope": [scopes.setdefault(row.scope, len(scopes)) for row in rows],
        "item": [row.item for row in rows],
        "visit": [row.frame.visit for row in rows],
        "attempt": [row.frame.attempt for row in rows],
        "state": [row.frame.state for row in rows],
        "started": [_since(row) for row in rows],
        "shown": [int(row.shown) for row in rows],
    }
    turns: list[Turn] = film.turns
    view["edges"] = {
        "fates": list(FATES),
        "seq": _steps(turn.seq for turn in turns),
        "from": [turn.source for turn in turns],
        "to": [turn.target for turn in turns],
        "fate": [turn.fate for turn in turns],
    }
    return {**view, "scopes": [list(scope) for scope in scopes]}


def _steps(numbers: Iterable[int]) -> list[int]:
    """Each number as its distance from the one before, the first from 0: small numbers take few bytes."""
    before, steps = 0, []
    for number in numbers:
        steps.append(number - before)
        before = number
    return steps


def _milliseconds(at: float) -> int:
    return round(at * 1000)


def _since(row: Row) -> int | None:
    started = row.frame.started_at
    return None if started is None else _milliseconds(row.at) - _milliseconds(started)
