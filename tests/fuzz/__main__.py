"""`python -m tests.fuzz --cases 1000000`: bad input for as long as it takes; `--case 'cel 0:17'` repeats one."""

from __future__ import annotations

import argparse
import sys
from random import Random

from tests.fuzz.running import LIMIT_SECONDS, fuzz
from tests.fuzz.targets import TARGETS, Sandboxes

SANDBOX_SHARE = 0.002
"""Of the cases, for the targets that run processes."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="over all targets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[*TARGETS, "sandbox", "jq"], help="one target")
    parser.add_argument("--case", help="repeat one, as a failure names it")
    given = parser.parse_args()
    sandboxes = Sandboxes()
    targets = {**TARGETS, **sandboxes.targets}
    try:
        if given.case:
            name, _, _ = given.case.partition(" ")
            targets[name](Random(given.case))
            print(f"{given.case}: nothing wrong")
            return 0
        return _run_all(given, targets)
    finally:
        sandboxes.close()


def _run_all(given: argparse.Namespace, targets: dict) -> int:
    names = [given.only] if given.only else list(targets)
    each = given.cases // max(1, sum(name in TARGETS for name in names))
    failed = 0
    print(f"{'target':12} {'cases':>9} {'slowest':>10} {'growth':>9}")
    for name in names:
        cases = each if name in TARGETS or given.only else max(100, int(given.cases * SANDBOX_SHARE))
        report = fuzz(name, targets[name], cases, given.seed, LIMIT_SECONDS * 1.5)
        print(
            f"{name:12} {report.cases:9,} {report.slowest * 1000:7.1f} ms {report.growth_mb:6.1f} MB"
            f"   slowest: {report.slowest_case}",
            flush=True,
        )
        for broken in report.broken:
            print(f"  {broken}", flush=True)
        failed += not report.ok
    print("nothing wrong" if not failed else f"{failed} targets failed; repeat a case with --case 'TARGET SEED:NUMBER'")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
