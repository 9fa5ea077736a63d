"""The checker is checked: bugs that are planted on purpose, and the histories in which the simulation finds them.

    python -m tests.sim.planted --search [--seeds 2000] [--only TEXT]   how many seeds each takes, as a table
    python -m tests.sim.planted --search --write                       the same, and CI replays what was found

A seed is a history of one version of the simulator and of the engine: when either changes what it draws or does, another
seed may be needed. `known_seeds.json` has those of the last search.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from pathlib import Path

from perdure.simulation.history_checks import Failed
from perdure.simulation.plan import make_plan
from perdure.simulation.world import World
from tests.sim import bugs_kernel, bugs_parts, bugs_runs, bugs_runtime, bugs_sharing  # noqa: F401  they register themselves
from tests.sim.planting import BUGS, Bug

KNOWN = Path(__file__).with_name("known_seeds.json")


def caught(bug: Bug, seed: int) -> Failed | None:
    """What the simulation says of this history when the code has the bug, if that is what the bug does."""
    with bug.plant():
        world = World(bug.plan(seed)).run()
    return world.failures[0] if world.failures and world.failures[0].rule in bug.by else None


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
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    jobs = [(name, range(options.seeds)) for name in BUGS if options.only in name]
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    missed = 0
    sys.stdout.write("| planted bug | found by | seeds until caught |\n|---|---|---:|\n")
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for name, seed, rule, message in pool.imap(_search, jobs):
            number = f"not in {options.seeds}" if seed < 0 else f"{seed + 1}{_note(BUGS[name])}"
            sys.stdout.write(f"| {name} | {rule or 'nothing'} | {number} |\n")
            if options.verbose:
                sys.stdout.write(f"    {message[:300]}\n")
            sys.stdout.flush()
            missed += seed < 0
            kept = name in known and caught(BUGS[name], known[name]["seed"])
            if seed >= 0 and not kept:
                known[name] = {"seed": seed, "rule": rule}
    if options.write:
        KNOWN.write_text(json.dumps({name: known[name] for name in BUGS if name in known}, indent=1) + "\n")
    return 1 if missed else 0


def _note(bug: Bug) -> str:
    return "" if bug.plan is make_plan else " (of its own plan)"


if __name__ == "__main__":
    sys.exit(main())
