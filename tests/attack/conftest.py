"""What every attack leaves behind: nothing."""

from __future__ import annotations

from tests.api.conftest import _executor_ended
from tests.engine.conftest import _no_task_left

__all__ = ["_executor_ended", "_no_task_left"]
