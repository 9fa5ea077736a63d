"""Which simulated histories `make test` runs: few, in which everything meets. `make sim` runs as many as one likes.

A history is worth running for what it is made of: kinds of nodes and their keys, faults, numbers of processes, speeds. Every two such
things that come together in any plan come together in `OFTEN` of the chosen ones, and whatever happened in any history (faults,
events, transitions, evidence of a rule) happened in as many of them. Where plans are made otherwise, or histories take another
course, `python -m tests.sim.chosen` chooses anew and prints the lists.
"""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from perdure.simulation.many import run_seeds
from perdure.simulation.plan import DIVIDED_FROM, Plan, make_plan
from perdure.simulation.report import Outcome

OFTEN = 3
FROM = {"one decides": range(600), "divided": range(DIVIDED_FROM, DIVIDED_FROM + 300)}
Pair = tuple[str, str]


def facts(plan: Plan) -> list[str]:
    """What a history will be made of, as far as its plan says."""
    chosen = msgspec.structs.asdict(plan)
    found = {f"{name} {value}" for name, value in chosen.items() if isinstance(value, int | float) and name != "seed"}
    found.update(name for name, rate in plan.rates.items() if rate)
    for workflow in plan.workflows:
        for node in workflow["nodes"]:
            found.update((node["type"], *node))
    return sorted(found)


def pairs(seeds: Iterable[int]) -> dict[int, set[Pair]]:
    return {seed: set(itertools.combinations(facts(make_plan(seed)), 2)) for seed in seeds}


def wanted(found: Mapping[int, set[Any]]) -> Counter[Any]:
    """How often each must come: `OFTEN`, and what is rarer, as often as there is."""
    return Counter({fact: min(count, OFTEN) for fact, count in Counter(itertools.chain(*found.values())).items()})


def happenings(outcome: Outcome) -> set[str]:
    """What a history came to: only running it tells."""
    kinds = (outcome.hit, outcome.events, outcome.transitions, outcome.rules)
    return {f"{name}" for kind in kinds for name in kind}


def cover(found: Mapping[int, set[Any]], missing: Counter[Any]) -> list[int]:
    """Each time the history with most of what is still missing."""
    left, chosen = dict(found), []
    while missing:
        best = max(left, key=lambda seed: sum(fact in missing for fact in left[seed]))
        for fact in left.pop(best) & missing.keys():
            missing[fact] -= 1
            if not missing[fact]:
                del missing[fact]
        chosen.append(best)
    return chosen


def choose(seeds: range) -> list[int]:
    planned = pairs(seeds)
    chosen = cover(planned, wanted(planned))
    happened = {outcome.seed: happenings(outcome) for outcome in run_seeds(seeds, jobs=1)}
    missing = wanted(happened)
    for seed in chosen:
        missing -= Counter(happened.pop(seed))
    return sorted(chosen + cover(happened, missing))


CHOSEN = {
    "one decides": [
        1, 3, 8, 10, 18, 22, 23, 25, 29, 43, 44, 61, 69, 70, 74, 75, 76, 77, 79, 87, 89, 91, 107, 109, 110, 119, 125,
        127, 131, 133, 135, 138, 140, 142, 146, 151, 153, 156, 195, 217, 226, 227, 238, 244, 252, 254, 258, 260, 262,
        268, 270, 279, 284, 310, 317, 318, 322, 329, 330, 333, 343, 344, 351, 354, 357, 359, 361, 377, 379, 399, 421,
        426, 428, 439, 443, 474, 482, 484, 487, 488, 493, 494, 501, 504, 518, 535, 540, 547, 550, 569, 576, 585, 586,
        595,
    ],
    "divided": [
        1000001, 1000003, 1000004, 1000007, 1000009, 1000010, 1000011, 1000013, 1000016, 1000020, 1000024, 1000027,
        1000028, 1000034, 1000041, 1000044, 1000057, 1000060, 1000061, 1000066, 1000072, 1000073, 1000075, 1000079,
        1000089, 1000095, 1000096, 1000101, 1000102, 1000107, 1000118, 1000119, 1000121, 1000123, 1000124, 1000131,
        1000135, 1000138, 1000142, 1000143, 1000145, 1000146, 1000148, 1000151, 1000152, 1000153, 1000154, 1000156,
        1000158, 1000163, 1000164, 1000171, 1000176, 1000180, 1000190, 1000195, 1000202, 1000203, 1000205, 1000208,
        1000209, 1000210, 1000217, 1000223, 1000226, 1000227, 1000242, 1000243, 1000245, 1000249, 1000250, 1000251,
        1000252, 1000255, 1000258, 1000260, 1000262, 1000266, 1000271, 1000280, 1000283, 1000291, 1000298, 1000299,
    ],
}  # fmt: skip


if __name__ == "__main__":
    for name, seeds in FROM.items():
        found = textwrap.fill(
            ", ".join(map(str, choose(seeds))) + ",", 120, initial_indent=" " * 8, subsequent_indent=" " * 8
        )
        sys.stdout.write(f'    "{name}": [\n{found}\n    ],\n')
