"""How the suite of a port is watched: every adapter runs every case, no case is skipped, every operation has one."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from tests.fast import collected


class Suite:
    """The cases of a port: the files beside `test_coverage.py`, which get their adapter from one fixture."""

    def __init__(self, coverage: str, fixture: str, adapters: Collection[str]) -> None:
        here = Path(coverage)
        self.cases = [path for path in sorted(here.parent.glob("test_*.py")) if path != here]
        self._fixture = fixture
        self._adapters = set(adapters)

    def check_runs(self, config: pytest.Config) -> None:
        """Every adapter runs every case of the files that were chosen."""
        ran: dict[tuple[str, str], set[Any]] = defaultdict(set)
        for item in collected(config):
            if item.path in self.cases:
                adapter = item.callspec.params.get(self._fixture) if hasattr(item, "callspec") else None
                ran[item.path.name, item.originalname].add(adapter)
        assert {case: adapters for case, adapters in ran.items() if adapters != self._adapters} == {}
        chosen = {path for path, _ in ran}
        written = {
            (path.name, name)
            for path in self.cases
            if path.name in chosen
            for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
        }
        assert set(ran) == written

    def check_skips(self) -> None:
        assert [path.name for path in self.cases if re.search(r"skip|xfail|ADAPTERS", path.read_text())] == []

    def check_named(self, operations: Collection[str]) -> None:
        """Every operation is used by a case."""
        text = "".join(path.read_text() for path in self.cases)
        assert [name for name in operations if not re.search(rf"\.{name}\b", text)] == []


def operations_of(port: type) -> list[str]:
    members = {name: member for name, member in vars(port).items() if not name.startswith("_")}
    return [name for name, member in members.items() if inspect.isfunction(member) or isinstance(member, property)]


def packages_of(module: Any) -> set[str]:
    """The folders beside a package's `__init__.py` that are packages themselves."""
    return {path.parent.name for path in Path(module.__file__).parent.glob("*/__init__.py")}


def modules_of(module: Any) -> set[str]:
    return {path.stem for path in Path(module.__file__).parent.glob("*.py")} - {"__init__"}
