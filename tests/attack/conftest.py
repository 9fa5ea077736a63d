"""The table of `make attack`: one row per finding, over all tests that close it."""

from __future__ import annotations

import pytest

from tests.api.conftest import _executor_ended
from tests.engine.conftest import _no_task_left

__all__ = ["_executor_ended", "_no_task_left"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    mark = item.get_closest_marker("attack")
    if mark is not None and (report.when == "call" or report.failed):
        report.user_properties.append(("attack", (*mark.args, report.outcome)))
    return report
