"""`make attack`: every attack, in whichever folder of tests, and a table of what came of each."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

GENERATED, CASES = "ATTACK_CASES", 1_000
"""Generated cases of each kind (test_budget.py)."""


class Table:
    """One row per finding."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], list[tuple[str, int]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        said: dict[str, Any] = dict(report.user_properties)
        if "attack" in said:
            number, what, outcome = said["attack"]
            # A test that goes through a list of attacks says how many there were.
            self.rows.setdefault((number, what), []).append((outcome, said.get("attacks", 1)))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("attacks")
        every = 0
        for (number, what), outcomes in sorted(self.rows.items()):
            through = sum(outcome != "passed" for outcome, _ in outcomes)
            said = "held" if not through else f"CAME THROUGH ({through})"
            times = sum(times for _, times in outcomes)
            every += times
            terminalreporter.write_line(f"{number:<5} {what:<80} {times:>6,}  {said}")
        terminalreporter.write_line(f"{'':<5} {'all together':<80} {every:>6,}")


if __name__ == "__main__":
    os.environ.setdefault(GENERATED, str(CASES))  # pytest-xdist hands it to its processes
    sys.exit(pytest.main([str(Path(__file__).parent.parent), "-q", "-m", "attack", *sys.argv[1:]], plugins=[Table()]))
