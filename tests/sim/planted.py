"""The checker is checked: bugs that are planted on purpose, and the histories in which the simulation finds them.

    python -m tests.sim.planted --search [--seeds 500] [--only TEXT]    how many seeds each takes, as a table
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys

from tests.sim import bugs_kernel, bugs_runtime  # noqa: F401  they register themselves
from tests.sim.planting import BUGS, Bug
from weft.simulation.checks import Failed
from weft.simulation.world import World


def caught(bug: Bug, seed: int) -> Failed | None:
    """What the simulation says of this history when the code has the bug."""
    with bug.plant():
        world = World(bug.plan(seed)).run()
    return world.failures[0] if world.failures else None


def clean(bug: Bug, seed: int) -> Failed | None:
    """The same history, without the bug."""
    world = World(bug.plan(seed)).run()
    return world.failures[0] if world.failures else None


def search(name: str, seeds: range) -> tuple[str, int, str, str]:
    """The first seed that catches it, and by which rule."""
    for seed in seeds:
        found = caught(BUGS[name], seed)
        if found is not None:
            return name, seed, found.rule, str(found)
    return name, -1, "", ""


def _search(job: tuple[str, range]) -> tuple[str, int, str, str]:
    return search(*job)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.planted")
    parser.add_argument("--search", action="store_true", required=True)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    seeds = range(options.start, options.start + options.seeds)
    jobs = [(name, seeds) for name in BUGS if options.only in name]
    missed = 0
    sys.stdout.write("| planted bug | caught by | seeds until caught |\n|---|---|---:|\n")
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for name, seed, rule, message in pool.imap(_search, jobs):
            number = f"{seed - options.start + 1}" if seed >= 0 else f"not in {len(seeds)}"
            sys.stdout.write(f"| {name} | {rule or 'nothing'} | {number} |\n")
            if options.verbose:
                sys.stdout.write(f"    {message[:300]}\n")
            sys.stdout.flush()
            missed += seed < 0
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
