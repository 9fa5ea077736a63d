"""Errors of a pipeline. Messages name steps, fields and rows, never values."""

from __future__ import annotations


class PipelineError(Exception):
    """The data does not suit a step, or the step is written wrongly."""

    def __init__(self, message: str, code: str = "bad_table", *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
