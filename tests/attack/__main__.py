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
        self.rows: dict[tuple[str, str], list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "attack":
                row: Any = value
                self.rows.setdefault((row[0], row[1]), []).append(row[2])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("attacks")
        for (number, what), outcomes in sorted(self.rows.items()):
            through = sum(outcome != "passed" for outcome in outcomes)
            said = "held" if not through else f"CAME THROUGH ({through})"
            terminalreporter.write_line(f"{number:<5} {what:<60} {len(outcomes):>6,}  {said}")


if __name__ == "__main__":
    os.environ.setdefault(GENERATED, str(CASES))  # pytest-xdist hands it to its processes
    sys.exit(pytest.main([str(Path(__file__).parent.parent), "-q", "-m", "attack", *sys.argv[1:]], plugins=[Table()]))
