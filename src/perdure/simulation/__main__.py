"""`python -m perdure.simulation`: many histories, or one of them looked at closely.

--seeds N --start S --jobs J    N histories from seed S on, in J processes
--seed X [--trace]              one history; --trace shows all of it
--plan FILE                     a history that the shrinker wrote down
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from perdure.clock import system
from perdure.simulation.many import run_seeds
from perdure.simulation.plan import Plan, make_plan
from perdure.simulation.report import Summary, outcome_of, trace_lines
from perdure.simulation.shrink import shrink
from perdure.simulation.worlds.stream_world import make_world

MAX_FAILURES = 5
"""The failures after which searching further says little."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m perdure.simulation")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--plan", type=Path)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--digests", action="store_true", help="print seed and hash of each history, nothing else")
    parser.add_argument("--no-shrink", action="store_true")
    options = parser.parse_args(arguments)
    if options.plan is not None:
        return _one(msgspec.json.decode(options.plan.read_bytes(), type=Plan), trace=options.trace, smaller=False)
    if options.seed is not None:
        return _one(make_plan(options.seed), trace=options.trace, smaller=not options.no_shrink)
    seeds = range(options.start, options.start + options.seeds)
    if options.digests:
        for outcome in run_seeds(seeds, options.jobs):
            _say(f"{outcome.seed} {outcome.digest}")
        return 0
    return _many(seeds, options.jobs, smaller=not options.no_shrink)


def _many(seeds: range, jobs: int, *, smaller: bool) -> int:
    summary, begun, told = Summary(), system.monotonic(), system.monotonic()
    for outcome in run_seeds(seeds, jobs):
        summary.add(outcome)
        if outcome.rule:
            _say(f"seed {outcome.seed} failed: {outcome.message}")
            _say(f"    again: make sim SEED={outcome.seed}")
            if len(summary.failures) >= MAX_FAILURES:
                break
        now = system.monotonic()
        if now - told > 10:
            told = now
            _say(f"{summary.count} of {len(seeds)}, {summary.count / (now - begun):.0f} a second", error=True)
    for line in summary.lines():
        _say(line)
    _say(f"{summary.count / max(system.monotonic() - begun, 0.001):.1f} histories a second")
    if summary.failures and smaller:
        first = summary.failures[0]
        _one(make_plan(first.seed), trace=False, smaller=True)
    return 1 if summary.failures else 0


def _one(plan: Plan, *, trace: bool, smaller: bool) -> int:
    world = make_world(plan, tracing=True).run()
    outcome = outcome_of(world)
    if outcome.rule and smaller:
        _say(f"seed {plan.seed}: {outcome.message}; looking for a shorter history")
        world = shrink(plan, outcome.rule, tell=lambda text: _say(f"    {text}", error=True))
        file = Path(f"sim-{plan.seed}.json")
        file.write_bytes(msgspec.json.format(msgspec.json.encode(world.plan)))
    for line in trace_lines(world, None if trace else 120):
        _say(line)
    for definition in world.plan.workflows if outcome.rule else ():
        _say(f"workflow: {msgspec.json.encode(definition).decode()}")
    if not outcome.rule:
        _say(f"seed {plan.seed}: no promise was broken; {outcome.steps} steps, history {outcome.digest}")
        return 0
    _say(f"seed {plan.seed}: {world.failures[0]}")
    _say(f"again: make sim SEED={plan.seed}")
    if smaller:
        _say(f"the shorter one: python -m perdure.simulation --plan sim-{plan.seed}.json")
    return 1


def _say(text: str, *, error: bool = False) -> None:
    (sys.stderr if error else sys.stdout).write(f"{text}\n")
    (sys.stderr if error else sys.stdout).flush()


if __name__ == "__main__":
    sys.exit(main())
