"""Random graphs, random worlds: the invariants after every step, and an end after healing (R2)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from perdure.kernel import waits
from tests.property import graphs
from tests.property.asking import Asking
from tests.property.streaming import Streaming
from tests.property.walk import Mending, explore


def _budget() -> int:
    """How many plain seeds, next to Hypothesis: the profile's examples, times a factor."""
    return settings().max_examples


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_every_graph_the_generator_makes_compiles(random: Random) -> None:
    graphs.generate(random)


@pytest.mark.slow
@given(st.randoms(use_true_random=False), st.integers(0, 30))
def test_no_history_breaks_an_invariant(random: Random, steps: int) -> None:
    """Driven by Hypothesis, which shrinks what it finds: a small graph and few steps."""
    walk = explore(random, steps=steps, size=6)
    note("\n".join(walk.steps))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_no_long_history_breaks_an_invariant(part: int) -> None:
    """The same over plain seeds: larger graphs, longer walks, many more of them. The seed in the failure repeats it."""
    count = _budget() * 3
    for seed in range(part * 1_000_000, part * 1_000_000 + count):
        try:
            explore(Random(seed), steps=40, size=12)
        except Exception as error:
            error.add_note(f"repeat with: explore(Random({seed}), steps=40, size=12)")
            raise


@pytest.mark.slow
def test_no_history_with_mended_definitions_breaks_an_invariant() -> None:
    for seed in range(7_000_000, 7_000_000 + _budget() * 3):
        try:
            explore(Random(seed), steps=40, size=10, kind=Mending)
        except Exception as error:
            error.add_note(f"repeat with: explore(Random({seed}), steps=40, size=10, kind=Mending)")
            raise


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_no_history_with_asks_breaks_an_invariant(part: int) -> None:
    for seed in range(9_000_000 + part * 100_000, 9_000_000 + part * 100_000 + _budget() * 2):
        try:
            explore(Random(seed), steps=50, size=8, kind=Asking)
        except Exception as error:
            error.add_note(f"repeat with: explore(Random({seed}), steps=50, size=8, kind=Asking)")
            raise


@pytest.mark.slow
def test_no_history_with_streams_breaks_an_invariant() -> None:
    for seed in range(11_000_000, 11_000_000 + _budget() * 3):
        try:
            explore(Random(seed), steps=60, size=8, kind=Streaming)
        except Exception as error:
            error.add_note(f"repeat with: explore(Random({seed}), steps=60, size=8, kind=Streaming)")
            raise


@pytest.mark.slow
def test_no_history_with_maps_in_portions_breaks_an_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "PORTION", 2)
    for seed in range(8_000_000, 8_000_000 + _budget()):
        try:
            explore(Random(seed), steps=40, size=10)
        except Exception as error:
            error.add_note(f"repeat with PORTION = 2: explore(Random({seed}), steps=40, size=10)")
            raise


@pytest.mark.parametrize("seed", [112068, 111555])
def test_walks_that_once_broke_a_promise_keep_it(seed):
    """A winner refused by the loser it had cancelled; a head of iteration two skipped by what led into the loop."""
    explore(Random(seed), steps=40)
