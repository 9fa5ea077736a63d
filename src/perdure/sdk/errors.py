"""Errors of building and running workflows from Python."""

from __future__ import annotations

from typing import Any

from perdure.errors import PerdureError


class BuildError(PerdureError):
    """A workflow function did something that cannot become a graph. The message says what to write instead."""

    code = "build_error"
    status = 422


class RunFailed(PerdureError):
    """`Run.result()` of a run that has no result: it failed, was cancelled, or waits for a person."""

    code = "run_failed"

    def __init__(self, message: str, run: Any) -> None:
        super().__init__(message)
        self.run = run
