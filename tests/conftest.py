"""Hypothesis profiles. `make check` uses `fast`, `make test` uses `ci`, `make sim` uses `long`. Servers for everybody."""

import gc
import os
import signal
import sys
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from perdure.journals.sqlite import schema
from tests import founding
from tests.attack.marks import pytest_runtest_makereport
from tests.fast import pytest_collection_modifyitems
from tests.memory import room_in_memory
from tests.servers.fixtures import postgres_servers, pytest_addoption, redis_server, redis_servers
from tests.workers import pytest_report_to_serializable, pytest_runtest_protocol, pytest_xdist_make_scheduler

__all__ = [
    "postgres_servers",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_report_to_serializable",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_xdist_make_scheduler",
    "redis_server",
    "redis_servers",
]

# Folders of tests are in memory, where nobody waits for a disk: what a database would lose with the machine is not asked here.
if "PYTEST_DEBUG_TEMPROOT" not in os.environ and (memory := room_in_memory()) is not None:
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(memory)

# Tests start many interpreters: compiling everything anew in each takes longer than what they test.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell lets what it starts with `&` ignore these, programs inherit that, and tests send them to programs.
for _number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

schema.migrate = founding.found

# Hypothesis times every collection of garbage with two calls of a function, and by default there are thousands of small ones.
gc.set_threshold(20_000, 10, 10)

_base = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("fast", _base, max_examples=10, stateful_step_count=20, derandomize=True)
settings.register_profile("ci", _base, max_examples=100, stateful_step_count=50, derandomize=True)
settings.register_profile("long", _base, max_examples=5_000, stateful_step_count=100, print_blob=True)
settings.load_profile("ci")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What tasks noted, and the gates that are open, are of one test: the next one counts anew, in whatever folder it stands."""
    tasks = sys.modules.get("tests.engine.tasks")
    if tasks is not None:
        tasks.reset()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """What outlives the tests of a folder (caches, servers) is looked through once: some tests collect garbage after themselves,
    and each took a fifth of a second at the end of a run."""
    try:
        return (yield)
    finally:
        if (servers := sys.modules.get("tests.servers.redis")) is not None:
            servers.close_clients()
        if nextitem is not None and nextitem.path.parent != item.path.parent:
            gc.collect()
            gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of collected tests are never garbage: looking through them again and again took half of the suite's time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
