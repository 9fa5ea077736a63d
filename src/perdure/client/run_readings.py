"""Runs, read part by part: what programs draw and page through."""

from __future__ import annotations

from perdure.client import views as v
from perdure.client.http_calls import Call, get
from perdure.client.operations import operation


class RunReadingsCalls:
    """The operations on runs that read a part of one, described once."""

    @operation
    def definition(self, run_id: str, *, at: int | None = None) -> Call[v.RunDefinition]:
        """The definition that a run follows, now or after event `at`, with every patch that led to it."""
        return get("runs", run_id, "definition", at=at)
