"""The film of a run, folded as its readers fold it, shows at every event what the kernel shows."""

from random import Random

import pytest
from hypothesis import settings

from perdure.drawing.marks import find_fates
from perdure.kernel.evolve import evolve
from perdure.kernel.readings.film import FATES, STATES, Film
from perdure.kernel.readings.run_view import nodes_view
from perdure.kernel.state import State
from tests.property.walk import Mending, Walk, explore
from tests.replay.test_replay import FILES, read


def compare(library, journal):
    """Fold both side by side, and compare after each event."""
    film = Film(journal[0].run_id)
    film.state.library = dict(library)
    kernel = State(run_id=journal[0].run_id, library=dict(library))
    shown, fates, row, turn = {}, {}, 0, 0
    for event in journal:
        film.feed([event])
        evolve(kernel, event)
        for one in film.rows[row:]:
            assert (one.seq, one.at) == (event.seq, event.at)
            if one.shown:
                shown[one.node] = one
        for edge in film.turns[turn:]:
            assert edge.seq == event.seq
            fates[edge.source, edge.target] = FATES[edge.fate]
        row, turn = len(film.rows), len(film.turns)
        for name, view in nodes_view(kernel).items():
            found = shown.get(kernel.index(name))
            told = ("pending", 0, 0, None, ()) if found is None else tell(found)
            expected = (
                view["state"],
                view["visit"],
                view["attempt"],
                view.get("started_at"),
                tuple(view.get("scope", ())),
            )
            assert told == expected, (event.seq, event.type, name)
        taken, skipped = find_fates(kernel)
        names = film.names()
        assert {(names[a], names[b]) for (a, b), fate in fates.items() if fate == "taken"} == taken, event
        assert {(names[a], names[b]) for (a, b), fate in fates.items() if fate == "skipped"} == skipped - taken, event
    return film


def tell(row):
    frame = row.frame
    return STATES[frame.state], frame.visit, frame.attempt, frame.started_at, row.scope


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_the_film_of_a_recorded_journal_shows_what_the_kernel_shows(file):
    state, journal, _ = read(file)
    compare(state.library, journal)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Walk, Mending])
def test_the_film_of_any_history_shows_what_the_kernel_shows(kind):
    rows = 0
    for seed in range(9_000_000, 9_000_000 + settings().max_examples):
        walk = explore(Random(seed), steps=40, size=10, kind=kind)
        try:
            rows += len(compare(walk.state.library, walk.run.journal).rows)
        except AssertionError as error:
            error.add_note(f"repeat with: explore(Random({seed}), steps=40, size=10, kind={kind.__name__})")
            raise
    assert rows > settings().max_examples
