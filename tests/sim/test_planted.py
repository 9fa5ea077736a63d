"""Every planted bug is caught in a history that is clean without it."""

from __future__ import annotations

import json

import pytest

from tests.sim.planted import KNOWN, caught, clean
from tests.sim.planting import BUGS, Bug

pytestmark = pytest.mark.slow

OTHERS = 2000
"""Seeds that are tried when the known one has become another history: as many as a search tries. The rarest bug shows in one of 200."""
known = json.loads(KNOWN.read_text())


def test_at_least_twenty_bugs_are_planted_and_each_has_a_known_seed() -> None:
    assert len(BUGS) >= 20
    assert set(known) == set(BUGS), "python -m tests.sim.planted --search --write"


def first_catch(bug: Bug) -> int:
    """The seed known for it, or the first of all that shows it by one of the promises it breaks."""
    for seed in (known[bug.name]["seed"], *range(OTHERS)):
        if caught(bug, seed) is not None:
            return seed
    pytest.fail(
        f"not caught by {sorted(bug.by)} with seed {known[bug.name]['seed']} nor the first {OTHERS}: {bug.name}"
    )


@pytest.mark.parametrize("bug", BUGS.values(), ids=lambda bug: bug.name.partition(":")[0].replace(" ", "-"))
def test_the_simulation_catches(bug: Bug) -> None:
    seed = first_catch(bug)
    assert clean(bug, seed) is None, f"seed {seed} fails without the bug too"
