"""Many cases of a target, each from a seed of its own, so that one that fails can be repeated."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec

LIMIT_SECONDS = 0.1
MAX_GROWTH_MB = 50.0
_MOST_SHOWN = 10


class Report(msgspec.Struct):
    target: str
    cases: int = 0
    slowest: float = 0.0
    slowest_case: str = ""
    growth_mb: float = 0.0
    broken: list[str] = []

    @property
    def ok(self) -> bool:
        return not self.broken


def fuzz(
    name: str, target: Callable[[Random], None], cases: int, seed: int = 0, limit: float = LIMIT_SECONDS
) -> Report:
    """Processor time counts, not the clock: another program may be running."""
    report = Report(name)
    for number in range(min(cases, 200)):  # what is loaded and cached once does not count as growth
        _try(name, target, f"{seed}:warm:{number}", report, 10.0)
    gc.collect()
    before = resident_mb()
    for number in range(cases):
        _try(name, target, f"{seed}:{number}", report, limit)
        report.cases += 1
        if len(report.broken) >= _MOST_SHOWN:
            break
    gc.collect()
    report.growth_mb = resident_mb() - before
    if report.growth_mb > MAX_GROWTH_MB:
        report.broken.append(f"{name}: memory grew by {report.growth_mb:.0f} MB over {report.cases} cases")
    return report


def _try(name: str, target: Callable[[Random], None], case: str, report: Report, limit: float) -> None:
    begin = time.process_time()
    try:
        target(Random(f"{name} {case}"))
    except Exception as error:  # noqa: BLE001  finding these is what it is for
        report.broken.append(f"{name} {case}: {type(error).__name__}: {str(error)[:200]}")
    seconds = time.process_time() - begin
    if seconds > report.slowest:
        report.slowest, report.slowest_case = seconds, case
    if seconds > limit:
        # Once more: a garbage collection or a first import may have fallen into it.
        begin = time.process_time()
        try:
            target(Random(f"{name} {case}"))
        except Exception:  # noqa: BLE001  it was noted above
            pass
        if (seconds := time.process_time() - begin) > limit:
            report.broken.append(f"{name} {case}: took {seconds * 1000:.0f} ms")


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
