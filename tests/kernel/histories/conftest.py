"""Every run here is also given to the checker of `perdure.invariants`, which saw most of these histories first."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.invariants import check
from perdure.kernel import commands as c
from tests.kernel import driver
from tests.kernel.driver import Run


@pytest.fixture(autouse=True)
def _checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """After every command: the checker finds nothing."""
    plain = driver.Run.do

    def do(self: Run, command: c.Command) -> Any:
        result = plain(self, command)
        assert check(self.journal, self.state.library) == []
        return result

    monkeypatch.setattr(driver.Run, "do", do)
