"""How a test says which finding it closes, and how the table of `make attack` hears of it: one row per finding, over all
tests that close it, in whichever folder they are."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest


def attack(number: str, what: str) -> Any:
    """`S07`, and what the attacker does, for the table."""
    return pytest.mark.attack(number, what)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    mark = item.get_closest_marker("attack")
    if mark is not None and (report.when == "call" or report.failed):
        report.user_properties.append(("attack", (*mark.args, report.outcome)))
    return report
