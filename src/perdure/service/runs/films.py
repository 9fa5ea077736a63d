"""The film of a run as columns: few names and many small numbers, for a screen that shows any moment of a run.

What the rows say is in `perdure.kernel.readings.film`. Events are folded in a thread, a page of the journal at a time, and what
was folded is kept for who asks for more. It must not know HTTP.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from perdure.budget import MIB
from perdure.journal import RunRecord, StoredEvent
from perdure.kernel import events as e
from perdure.kernel.readings.film import FATES, STATES, Film, Row, Turn
from perdure.model.garbage import no_collection
from perdure.runtime.coordinator.quarantine import explained
from perdure.service.views import View
from perdure.threads import aside

if TYPE_CHECKING:
    from perdure.engine import Engine

MOST_ROWS = 50_000
MOST_BYTES = 64 * MIB
"""How many bytes the films of an engine have that are kept, by the journals they were folded from."""
_ROW_BYTES = 200
_KEPT_ROWS = 20_000
_READ = 2000
_NAMING = ("run.created", "run.patched")
"""The events that say which definition a run follows."""
_Dated = TypeVar("_Dated", Row, Turn)


class _Reel:
    """A film as far as it was folded, with its newest rows: all of the events behind `begins`."""

    __slots__ = ("begins", "film", "read_bytes")

    def __init__(self, run_id: str) -> None:
        self.film = Film(run_id)
        self.begins = 0
        self.read_bytes = 0

    @property
    def weight(self) -> int:
        return self.read_bytes + _ROW_BYTES * (len(self.film.rows) + len(self.film.turns))

    def forget_up_to(self, seq: int) -> None:
        film = self.film
        del film.rows[: bisect_right(film.rows, seq, key=_seq_of)]
        del film.turns[: bisect_right(film.turns, seq, key=_seq_of)]
        self.begins = seq

    def trim(self) -> None:
        rows = self.film.rows
        if len(rows) > _KEPT_ROWS:
            self.forget_up_to(rows[-_KEPT_ROWS - 1].seq)


class _Reels:
    """The films that were asked for last, so that a screen that follows a run does not have it folded from its beginning again
    and again. A film that is being folded belongs to the request that folds it: what fails half-way is not kept."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, float], _Reel] = {}
        self._bytes = 0

    def check_out(self, record: RunRecord, after: int) -> _Reel:
        key = _key_of(record)
        found = self._found.get(key)
        if found is None or found.begins > after:
            return _Reel(record.run_id)
        del self._found[key]
        self._bytes -= found.weight
        return found

    def check_in(self, record: RunRecord, reel: _Reel) -> None:
        reel.trim()
        key = _key_of(record)
        other = self._found.get(key)
        if other is not None and other.film.state.seq > reel.film.state.seq:
            return  # another reader is further: that one is followed
        if other is not None:
            self._bytes -= other.weight
            del self._found[key]
        if reel.weight > MOST_BYTES // 2:
            return
        self._found[key] = reel
        self._bytes += reel.weight
        while self._bytes > MOST_BYTES:
            oldest = next(iter(self._found))
            self._bytes -= self._found.pop(oldest).weight


_reels: WeakKeyDictionary[Engine, _Reels] = WeakKeyDictionary()


def _key_of(record: RunRecord) -> tuple[str, float]:
    """A run that is forgotten leaves its id to another one."""
    return record.run_id, record.row.created_at


def _seq_of(one: Row | Turn) -> int:
    return one.seq


async def film_of(engine: Engine, record: RunRecord, after: int, limit: int) -> View:
    """The rows of the events behind `after`: at least `limit` of them, if there are so many, as events are not cut."""
    reels = _reels.setdefault(engine, _Reels())
    reel = reels.check_out(record, after)
    film = reel.film
    with explained(record):
        while film.state.seq < record.seq and _count_behind(film, after) < limit:
            seq = film.state.seq
            # What comes before the page is folded too, and forgotten.
            last = after if seq < after else record.seq
            stored = await engine.journal.read_events(record.run_id, seq, min(_READ, last - seq))
            if not stored:
                break
            await _prepare(engine, film, stored)
            reel.read_bytes += await aside(record.row.tenant, _feed, film, stored, limit if seq >= after else None)
            if film.state.seq <= after:
                reel.forget_up_to(film.state.seq)
    last_seq = max(record.seq, film.state.seq)
    end = _end_of(film, after, limit)
    view = {
        "run_id": record.run_id,
        **await aside(record.row.tenant, _columns, film, after, end),
        "last_seq": last_seq,
        "next_cursor": str(end) if end < last_seq else None,
    }
    reels.check_in(record, reel)
    return view


def _count_behind(film: Film, after: int) -> int:
    return len(film.rows) - bisect_right(film.rows, after, key=_seq_of)


def _end_of(film: Film, after: int, limit: int) -> int:
    """The last event of the page."""
    last = bisect_right(film.rows, after, key=_seq_of) + limit - 1
    return film.rows[last].seq if 0 <= last < len(film.rows) else film.state.seq


async def _prepare(engine: Engine, film: Film, stored: Sequence[StoredEvent]) -> None:
    """Have the definitions at hand that these events name."""
    for one in stored:
        if one.type in _NAMING:
            event = e.decode(one.body)
            if isinstance(event, e.RunCreated | e.RunPatched) and event.ir not in film.state.library:
                film.state.library[event.ir] = await engine.library.get(event.ir)


@no_collection()
def _feed(film: Film, stored: Sequence[StoredEvent], limit: int | None) -> int:
    """Feed events until there are so many new rows; how many bytes they have."""
    begun, fed = len(film.rows), 0
    for one in stored:
        film.feed([e.decode(one.body)])
        fed += len(one.body)
        if limit is not None and len(film.rows) - begun >= limit:
            break
    return fed


@no_collection()
def _columns(film: Film, after: int = 0, end: int | None = None) -> View:
    scopes: dict[e.Scope, int] = {(): 0}
    rows: list[Row] = _cut(film.rows, after, end)
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
    turns: list[Turn] = _cut(film.turns, after, end)
    view["edges"] = {
        "fates": list(FATES),
        "seq": _steps(turn.seq for turn in turns),
        "from": [turn.source for turn in turns],
        "to": [turn.target for turn in turns],
        "fate": [turn.fate for turn in turns],
    }
    return {**view, "scopes": [list(scope) for scope in scopes]}


def _cut(found: list[_Dated], after: int, end: int | None) -> list[_Dated]:
    last = len(found) if end is None else bisect_right(found, end, key=_seq_of)
    return found[bisect_right(found, after, key=_seq_of) : last]


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
