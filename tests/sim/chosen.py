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


def cover(found: Mapping[int, set[Any]], steps: Mapping[int, int]) -> list[int]:
    """Each time the history with most of what is still missing for its length; then without those that the others make superfluous."""
    missing, left, chosen = wanted(found), dict(found), []
    while missing:
        best = max(left, key=lambda seed: sum(fact in missing for fact in left[seed]) / steps[seed])
        for fact in left.pop(best) & missing.keys():
            missing[fact] -= 1
            if not missing[fact]:
                del missing[fact]
        chosen.append(best)
    needed, had = wanted(found), Counter(itertools.chain(*(found[seed] for seed in chosen)))
    for seed in sorted(chosen, key=lambda seed: -steps[seed]):
        if all(had[fact] > needed[fact] for fact in found[seed]):
            had.subtract(found[seed])
            chosen.remove(seed)
    return sorted(chosen)


def choose(seeds: range) -> list[int]:
    found: dict[int, set[Any]] = {**pairs(seeds)}
    steps = {}
    for outcome in run_seeds(seeds, jobs=1):
        found[outcome.seed] |= happenings(outcome)
        steps[outcome.seed] = outcome.steps
    return cover(found, steps)


CHOSEN = {
    "one decides": [
        1, 23, 32, 45, 49, 50, 52, 55, 77, 89, 91, 102, 104, 121, 125, 129, 130, 139, 142, 148, 152, 161, 167, 170, 173,
        188, 189, 195, 196, 200, 209, 212, 217, 242, 250, 251, 252, 258, 270, 283, 296, 297, 302, 314, 317, 318, 320,
        329, 332, 335, 342, 346, 361, 369, 371, 377, 381, 383, 387, 389, 391, 395, 396, 407, 409, 414, 421, 423, 428,
        444, 447, 448, 452, 458, 465, 468, 492, 493, 494, 495, 505, 513, 517, 518, 520, 521, 540, 552, 569, 579, 580,
        588, 589,
    ],
    "divided": [
        1000000, 1000001, 1000002, 1000005, 1000007, 1000008, 1000009, 1000019, 1000027, 1000031, 1000037, 1000038,
        1000041, 1000044, 1000049, 1000050, 1000052, 1000055, 1000056, 1000058, 1000061, 1000069, 1000081, 1000091,
        1000096, 1000098, 1000110, 1000118, 1000121, 1000126, 1000129, 1000132, 1000134, 1000141, 1000142, 1000148,
        1000151, 1000152, 1000158, 1000161, 1000167, 1000168, 1000173, 1000176, 1000179, 1000185, 1000192, 1000193,
        1000195, 1000196, 1000202, 1000203, 1000204, 1000205, 1000208, 1000210, 1000211, 1000213, 1000217, 1000218,
        1000219, 1000224, 1000226, 1000231, 1000237, 1000241, 1000244, 1000250, 1000251, 1000252, 1000253, 1000258,
        1000260, 1000266, 1000269, 1000272, 1000285, 1000287, 1000289, 1000290, 1000293, 1000294, 1000296, 1000299,
    ],
}  # fmt: skip


if __name__ == "__main__":
    for name, seeds in FROM.items():
        found = textwrap.fill(
            ", ".join(map(str, choose(seeds))) + ",", 120, initial_indent=" " * 8, subsequent_indent=" " * 8
        )
        sys.stdout.write(f'    "{name}": [\n{found}\n    ],\n')
