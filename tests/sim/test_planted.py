"""Every planted bug is caught in a history that is clean without it."""

from __future__ import annotations

import json

import pytest

from tests.sim.planted import KNOWN, caught, clean
from tests.sim.planting import BUGS, Bug

OTHERS = 400
"""Seeds that are tried when the known one has become another history."""
known = json.loads(KNOWN.read_text())


def test_at_least_twenty_bugs_are_planted_and_each_has_a_known_seed() -> None:
    assert len(BUGS) >= 20
    assert set(known) == set(BUGS), "python -m tests.sim.planted --search --write"


def first_catch(bug: Bug) -> tuple[int, str]:
    for seed in (known[bug.name]["seed"], *range(OTHERS)):
        found = caught(bug, seed)
        if found is not None:
            return seed, found.rule
    pytest.fail(f"not caught with seed {known[bug.name]['seed']} nor the first {OTHERS}: {bug.name}")


@pytest.mark.parametrize("bug", BUGS.values(), ids=lambda bug: bug.name.partition(":")[0].replace(" ", "-"))
def test_the_simulation_catches(bug: Bug) -> None:
    seed, rule = first_catch(bug)
    assert rule not in ("AttributeError", "TypeError", "NameError", "exit"), f"the bug does not fit the code: {rule}"
    assert clean(bug, seed) is None, f"seed {seed} fails without the bug too"
