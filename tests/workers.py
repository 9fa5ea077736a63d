"""What several workers of pytest-xdist cost the process that leads them: as much per test at the end of a run as at its start."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

LONG_SECONDS = 0.5
"""`--durations` shows what took longer than that."""


class Scheduling(LoadGroupScheduling):  # type: ignore[misc]
    """xdist counts what a worker has still to do by looking through all that it ever had. What is done is forgotten here."""

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        name = self.registered_collections[node][item_index]
        group = self._split_scope(name)
        unit = self.assigned_work[node][group]
        unit[name] = True
        if all(unit.values()):
            del self.assigned_work[node][group]
        self._reschedule(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    return Scheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A worker says of a test how it went, and nothing else: that it began, was set up, was torn down and ended is five messages,
    and receiving them took as much time as a tenth of the fast tests. What did not pass or took long is always said."""
    if not hasattr(item.config, "workerinput") or item.config.get_verbosity() > 0:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration > LONG_SECONDS:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(
    report: pytest.TestReport | pytest.CollectReport,
) -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
    """Every word by which a test could be chosen is half of what a worker sends, and of use to nobody when it passed."""
    data = yield
    if data is not None and report.passed:
        data["keywords"] = {}
    return data
