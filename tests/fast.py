"""What `make check` runs: every test that is not `slow`. No folder is listed anywhere.

A test is slow when it says so, and by itself when it takes a server or a program from a fixture. So a test that nobody thought
about is run by `make check`, which shows the longest ones at its end: mark what takes more than about a tenth of a second.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.shuffle import shuffle

NEEDED = frozenset({"postgres_servers", "redis_servers", "programs", "cluster", "deployment"})
"""Fixtures that start processes."""
WITHOUT = frozenset({"sqlite", "memory", "faultless", "simulated", "local", "folder"})
"""Adapters that could be given a server and do not ask for it."""


_collected: pytest.StashKey[list[pytest.Function]] = pytest.StashKey()


def collected(config: pytest.Config) -> list[pytest.Function]:
    """Everything, also what `-m` and `-k` leave out."""
    return config.stash[_collected]


def is_slow(item: Any) -> bool:
    if item.get_closest_marker("slow"):
        return True
    if NEEDED.isdisjoint(getattr(item, "fixturenames", ())):
        return False
    chosen = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return WITHOUT.isdisjoint(value for value in chosen if isinstance(value, str))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[_collected] = [item for item in items if isinstance(item, pytest.Function)]
    for item in items:
        if is_slow(item):
            item.add_marker("slow")
    if seed := config.getoption("--shuffle"):
        shuffle(items, seed)
