"""What every attack leaves behind: nothing. What it took too long for is measured again."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.api.conftest import _executor_ended
from tests.attack.watchdog import MEASUREMENTS, HeldTooLong
from tests.engine.conftest import _no_task_left

__all__ = ["_executor_ended", "_no_task_left"]

HERE = Path(__file__).parent


def _list_errors(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _list_errors(one)
    else:
        yield error


def is_measurement(error: BaseException | None) -> bool:
    """Whether a test failed by a measurement that was over, and by nothing else."""
    return error is not None and all(isinstance(one, HeldTooLong) for one in _list_errors(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    report = yield
    report.held = call.when == "call" and is_measurement(call.excinfo and call.excinfo.value)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """pytest asks this of every test there is, wherever this file stands: tests elsewhere are run as they are."""
    return measured(item, nextitem) if item.path.is_relative_to(HERE) else None


def measured(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Of three measurements of a test the shortest counts; one that is within its limit is not repeated."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports: list[pytest.TestReport] = []
    for number in range(1, MEASUREMENTS + 1):
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if number == MEASUREMENTS or not any(getattr(report, "held", False) for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
